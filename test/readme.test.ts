/** The README against the product: commands, settings, job keys, exit codes and quick start are those that exist. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { formatFlag } from '../src/cli/command.ts';
import { COMMANDS } from '../src/cli/commands.ts';
import { EXIT_CODES } from '../src/core/errors.ts';
import { parseJob } from '../src/job/parse.ts';
import { queryDuckDb } from './support/drop.ts';
import { flowdrop, makeFolder, REPO, startService } from './support/flowdrop.ts';

const readme = readFileSync(join(REPO, 'README.md'), 'utf8');

/** First cells of the table under a heading, without the code marks. */
function firstCells(heading: string): readonly string[] {
  const section = readme.split(`## ${heading}\n`)[1]?.split('\n## ')[0] ?? '';
  const rows = section.split('\n').filter((line) => line.startsWith('| `'));
  return rows.map((row) => row.split('|')[1]?.trim() ?? '');
}

const names = (cell: string) => [...cell.matchAll(/`([^`]+)`/g)].map((match) => match[1] ?? '');

describe('the README', () => {
  let schema: { properties: Record<string, unknown> };
  beforeAll(async () => {
    schema = JSON.parse((await flowdrop(['schema'], { cwd: REPO })).stdout) as typeof schema;
  });

  it('lists the commands as the help does, each with what must follow it', () => {
    const real = COMMANDS.filter(({ group }) => group !== undefined).map(({ name, argument, options }) => {
      const required = Object.entries(options).filter(([, { isRequired }]) => isRequired);
      const flags = required.map(([key, spec]) => `${formatFlag(key, spec)} ${spec.value.toUpperCase()}`);
      const word = argument?.syntax.replace(/[<>]/g, '').toUpperCase() ?? '';
      return [name, word, ...flags].filter((part) => part !== '').join(' ');
    });
    expect(firstCells('Commands').flatMap(names)).toEqual(real);
  });

  it('lists exactly the settings that the code reads', () => {
    const listed = firstCells('Settings')
      .flatMap(names)
      .filter((name) => name.startsWith('FLOWDROP_'));
    const sources =
      readFileSync(join(REPO, 'src', 'compose.ts'), 'utf8') +
      readFileSync(join(REPO, 'src', 'settings', 'settings.ts'), 'utf8');
    const read = new Set(
      [...sources.matchAll(/FLOWDROP_[A-Z0-9_]+/g)].map(([name]) =>
        name.replace(/^FLOWDROP_KEY_$/, 'FLOWDROP_KEY_NAME'),
      ),
    );
    expect(listed.filter((name) => !name.endsWith('_FILE') || read.has(name)).sort()).toEqual([...read].sort());
  });

  it('lists exactly the keys of a job file', () => {
    const listed = firstCells('Job files')
      .flatMap(names)
      .filter((name) => /^[a-z0-9_.[\]]+$/.test(name));
    const prefix = { value: '' };
    const full = listed.map((name) => {
      if (!name.startsWith('.')) prefix.value = name.slice(0, name.lastIndexOf('.') + 1);
      return name.startsWith('.') ? prefix.value + name.slice(1) : name;
    });
    expect([...new Set(full)].sort()).toEqual([...listKeys(schema, '')].sort());
  });

  it('and docs/service.md list exactly the options of the service', async () => {
    const serviceHelp = (await flowdrop(['serve', '--help'], { cwd: REPO })).stdout;
    const real = [...serviceHelp.matchAll(/^ {2}(--[a-z-]+)/gm)].map((match) => match[1] ?? '');
    const options = readFileSync(join(REPO, 'docs', 'service.md'), 'utf8').split('## Endpoints')[0] ?? '';
    const listed = [...options.matchAll(/^\| .*$/gm)].flatMap(([row]) =>
      [...(row.split('|')[1] ?? '').matchAll(/--[a-z][a-z-]*/g)].map(([name]) => name),
    );
    expect(listed.sort()).toEqual(real.sort());
  });

  it('lists the exit codes that the code uses', () => {
    const codes = [...readme.matchAll(/^\| (\d+) +\|/gm)].map((match) => Number(match[1]));
    expect(codes).toEqual([0, ...Object.values(EXIT_CODES)].sort((a, b) => a - b));
  });

  it('names scripts, files and pictures that are there', () => {
    const { scripts } = JSON.parse(readFileSync(join(REPO, 'package.json'), 'utf8')) as {
      scripts: Record<string, string>;
    };
    for (const [, script] of readme.matchAll(/npm run ([a-z]+)/g)) expect(scripts[script ?? '']).toBeTruthy();
    for (const [, path] of readme.matchAll(/\]\(((?!http)[^)]+)\)/g))
      expect(existsSync(join(REPO, path?.split('#')[0] ?? '')), path).toBe(true);
    for (const file of readdirSync(join(REPO, 'jobs'))) expect(readme).toContain(`jobs/${file}`);
  });

  it('has a job file that is valid and names every check', () => {
    const [text = ''] = [...readme.matchAll(/```yaml [^\n]*\n([\s\S]*?)```/g)].map((match) => match[1] ?? '');
    const { checks, drop } = parseJob('README.md', text);
    expect(checks.map(({ check }) => check)).toEqual(['min-rows', 'max-nulls', 'premium', 'unique-id', 'dates']);
    expect(drop.to).toMatch(/^s3:/);
  });

  it('has commands and a query for a drop that work as written', async () => {
    const service = await startService(['--generate', '1', '--generate-rows', '300']);
    const { path: cwd, remove } = await makeFolder();
    try {
      const jobs = join(REPO, 'jobs');
      const commands = [...readme.matchAll(/^npx flowdrop ((?:check|plan|run|status|verify|query)\b[^#\n]*)/gm)].map(
        (match) => [...(match[1] ?? '').matchAll(/"([^"]*)"|\S+/g)].map(([word, quoted]) => quoted ?? word),
      );
      expect(commands.map(([name]) => name)).toEqual(['check', 'plan', 'run', 'status', 'verify', 'query']);
      for (const args of commands) {
        const run = await flowdrop(['--jobs', jobs, ...args], { cwd, env: service.env });
        expect(run.code, `${args.join(' ')}: ${run.stderr}`).toBe(0);
      }
      const sql = /```sql [^\n]*\n([\s\S]*?);/.exec(readme)?.[1] ?? '';
      const rows = await queryDuckDb(sql.replace("'out/", `'${cwd}/out/`));
      expect(rows.length).toBeGreaterThan(5);
    } finally {
      await service.stop();
      await remove();
    }
  });
});

/** Dotted key paths of a JSON Schema; items of lists are marked `[]`. A choice of shapes has the keys of all. */
function listKeys(schema: unknown, path: string): readonly string[] {
  const node = schema as { properties?: Record<string, unknown>; items?: unknown; oneOf?: readonly unknown[] };
  if (node.oneOf) return [...new Set(node.oneOf.flatMap((shape) => listKeys(shape, path)))];
  const item = node.items as typeof node | undefined;
  if (item?.properties || item?.oneOf) return listKeys(item, `${path.slice(0, -1)}[].`);
  if (!node.properties) return [path.slice(0, -1)];
  return Object.entries(node.properties).flatMap(([key, value]) => listKeys(value, `${path}${key}.`));
}
