/**
 * Every fenced block of README.md and docs/*.md is run, checked, or marked as an illustration, so that no page can show
 * what does not work. Snippets that read drops are run over drops of a real run; job files go through the product's own
 * parser, command lines through its own command tree, documents through the code that reads them. What needs a server is
 * checked by the test that is named here.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CommanderError } from 'commander';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { parseCalendarOverride } from '../../src/calendar/override.ts';
import { buildParser } from '../../src/cli/program.ts';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import { parseJob } from '../../src/job/parse.ts';
import { reportSettings } from '../../src/settings/settings.ts';
import { queryDuckDb } from '../support/drop.ts';
import { flowdrop, makeFolder, REPO } from '../support/flowdrop.ts';
import {
  findSnippets,
  listBlocks,
  listCodes,
  listCommands,
  PAGES,
  readPage,
  splitStatements,
} from '../support/pages.ts';
import { runShipped } from './shipped-job.ts';

const blocks = PAGES.flatMap(listBlocks);

/** What this file does with a block. */
const DONE_HERE = [
  ...['sql duckdb run', 'sql clickhouse run', 'js run'],
  ...['sh check', 'yaml job check', 'yaml fragment check', 'yaml calendar check', 'dotenv check'],
];
/** Blocks that another test uses, found there by their info string. */
const DONE_ELSEWHERE: Readonly<Record<string, string>> = {
  'js webhook check': 'test/alert/docs.test.ts',
  'json event check': 'test/docs/events.test.ts',
  'json mcp check': 'test/flow/mcp.slow.test.ts',
  'yaml look check': 'test/deliver/report-look.slow.test.ts',
  'python run': 'test/docs/python.external.test.ts',
  'python page run': 'test/docs/python-page.external.test.ts',
  'python s3 page run': 'test/docs/remote.external.test.ts',
  'sql ducklake recipe run': 'test/docs/python-page.external.test.ts',
  'python catalog run': 'test/catalog/attach.external.test.ts',
  'python spark catalog run': 'test/catalog/attach.external.test.ts',
  'sql catalog run': 'test/catalog/attach.external.test.ts',
  'python table run': 'test/docs/table.external.test.ts',
  'sql clickhouse table run': 'test/docs/table.external.test.ts',
  'sql duckdb table run': 'test/docs/table.external.test.ts',
  'sql clickhouse s3 run': 'test/docs/remote.external.test.ts',
  'sql duckdb s3 run': 'test/docs/remote.external.test.ts',
  'sql recipe run': 'test/docs/recipes.slow.test.ts',
  'sql duckdb recipe run': 'test/docs/recipes.slow.test.ts',
  'sh recipe run': 'test/docs/recipes.slow.test.ts',
  'sh request run': 'test/service/contract.test.ts',
  'sh tutorial serve': 'test/docs/tutorial.slow.test.ts',
  'sh tutorial run': 'test/docs/tutorial.slow.test.ts',
};

/** What the parser calls a command line that lacks a word. */
const LACKING = ['commander.missingArgument', 'commander.missingMandatoryOptionValue'];

/** What a fragment of a job file is put into: the job that it overrides, section by section. */
const BASE_JOB = {
  name: 'base',
  source: { api: 'historical' },
  drop: { to: 's3://bucket/prefix', dataset: 'trades' },
};

let cwd: string;
let remove: () => Promise<void>;
beforeAll(async () => {
  ({ path: cwd, remove } = await makeFolder());
  await runShipped(cwd);
  // Snippets import packages by name, as in the reader's own project.
  await symlink(join(REPO, 'node_modules'), join(cwd, 'node_modules'));
}, 240_000);
afterAll(async () => await remove());

describe('a block of a page', () => {
  it('says by its info string what a test does with it', () => {
    const unmarked = blocks
      .filter(
        ({ info }) => !DONE_HERE.includes(info) && !(info in DONE_ELSEWHERE) && !/^[a-z]+ illustration$/.test(info),
      )
      .map(({ page, line, info }) => `${page}:${line}: "${info}"`);
    expect(unmarked).toEqual([]);
    expect(blocks.length).toBeGreaterThan(30);
  });

  it.each(Object.entries(DONE_ELSEWHERE))('marked %s is used by %s', (info, file) => {
    expect(findSnippets(info).length, `blocks "${info}"`).toBeGreaterThan(0);
    const user = readFileSync(join(REPO, file), 'utf8');
    // The words between language and kind, with which the test finds the block.
    expect(user).toContain(info.replace(/ check$/, ''));
  });
});

describe('shell', () => {
  it.each(findSnippets('sh check'))('of %s names commands, options and scripts that exist', (_, text) => {
    expectScripts(text);
    const commands = listCommands(text);
    expect(commands.length + [...text.matchAll(/npm /g)].length).toBeGreaterThan(0);
    for (const words of commands) expect(findUsageFault(words), words.join(' ')).toBeUndefined();
  });

  it.each(PAGES)('in a line of %s names commands and options that exist', (page) => {
    const text = readPage(page).replaceAll(/^```[\s\S]*?^```/gm, '');
    for (const code of listCodes(text).filter((words) => /^(npx )?flowdrop [a-z]/.test(words))) {
      const [words = []] = listCommands(code);
      const fault = findUsageFault(words);
      // A line of text may name a command without the argument or option that it needs.
      expect(LACKING.includes(fault ?? '') ? undefined : fault, code).toBeUndefined();
    }
    expectScripts(text);
  });

  it('sets only settings that exist', () => {
    const names = blocks.flatMap(({ text }) => [...text.matchAll(/\bFLOWDROP_[A-Z0-9_]+(?==)/g)].map(([name]) => name));
    expect(names.length).toBeGreaterThan(3);
    expect(reportSettings(Object.fromEntries(names.map((name) => [name, ''])), cwd).unknown).toEqual([]);
  });
});

describe('a job file', () => {
  it.each(findSnippets('yaml job check'))('of %s is accepted by `flowdrop check`', async (where, text) => {
    const folder = join(cwd, `jobs-${where.replaceAll(/\W/g, '-')}`);
    await mkdir(folder);
    await writeFile(join(folder, `${parse(text).name}.yaml`), text);
    const check = await flowdrop(['--jobs', folder, 'check'], { cwd });
    expect(check.code, check.stderr).toBe(0);
  });

  it.each(findSnippets('yaml fragment check'))('with the fragment of %s is accepted by the parser', (where, text) => {
    const fragment = parse(text) as Readonly<Record<string, unknown>>;
    expect(Object.keys(fragment).length).toBeGreaterThan(0);
    expect(() => parseJob(where, JSON.stringify(mergeJob(fragment)))).not.toThrow();
  });

  it.each(findSnippets('yaml calendar check'))('has beside it a calendar, in %s, that is accepted', (where, text) => {
    const { closed, open, earlyClose } = parseCalendarOverride(where, text);
    expect([closed.size, open.size, earlyClose.size].every((size) => size > 0)).toBe(true);
  });
});

describe('a settings file', () => {
  it.each(findSnippets('dotenv check'))(
    'of %s has settings that exist, with values that mean something',
    async (_, text) => {
      const values = Object.fromEntries(
        [...text.matchAll(/^([A-Z0-9_]+)=(.*)$/gm)].map(([, name = '', value = '']) => [
          name,
          value.replace(/\s+#.*$/, ''),
        ]),
      );
      expect(Object.keys(values).length).toBeGreaterThan(2);
      // Files of secrets exist where the reader puts them.
      const files = Object.entries(values).filter(
        ([name]) => name.endsWith('_FILE') && name !== 'FLOWDROP_CALENDAR_FILE',
      );
      for (const [name] of files) await writeFile(join(cwd, name), 'secret');
      const here = { ...values, ...Object.fromEntries(files.map(([name]) => [name, name])) };
      const { unknown, faults } = reportSettings(here, cwd);
      expect([unknown, faults.map(({ message }) => message)]).toEqual([[], []]);
    },
  );
});

describe('a snippet that reads drops', () => {
  it.each(findSnippets('sql duckdb run'))('of %s runs in DuckDB', async (_, text) => {
    for (const statement of splitStatements(text)) {
      expect((await queryDuckDb(statement.replaceAll("'out/", `'${cwd}/out/`))).length, statement).toBeGreaterThan(0);
    }
  });

  it.each(findSnippets('sql clickhouse run'))('of %s runs in ClickHouse', async (_, text) => {
    const engine = await openEmbeddedEngine({});
    try {
      for (const statement of splitStatements(text)) {
        const rows = await engine.rows(statement.replaceAll("'out/", `'${cwd}/out/`));
        expect(rows.length, statement).toBeGreaterThan(0);
      }
    } finally {
      await engine.close();
    }
  });

  it.each(findSnippets('js run'))('of %s runs in Node', async (where, text) => {
    const script = join(cwd, `${where.replaceAll(/\W/g, '-')}.mjs`);
    await writeFile(script, text);
    const run = spawnSync(process.execPath, [script], { cwd, encoding: 'utf8' });
    expect(run.status, run.stderr).toBe(0);
    // It says something: an empty answer would be a snippet that reads nothing.
    expect(run.stdout.trim()).not.toMatch(/^(\[\]|undefined|0|)$/);
  });
});

describe('a link of a page', () => {
  it.each(PAGES)('leads from %s to a file and heading that are there', (page) => {
    const folder = page.startsWith('docs/') ? 'docs' : '';
    for (const [, target = ''] of readPage(page).matchAll(/\]\(((?!https?:)[^)\s]+)\)/g)) {
      const [path = '', anchor] = target.split('#');
      const file = path === '' ? page : join(folder, path);
      expect(existsSync(join(REPO, file)), `${page}: ${target}`).toBe(true);
      if (anchor !== undefined) expect(listAnchors(file), `${page}: ${target}`).toContain(anchor);
    }
  });
});

function listAnchors(page: string): readonly string[] {
  return [...readPage(page).matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );
}

function expectScripts(text: string): void {
  const { scripts } = JSON.parse(readFileSync(join(REPO, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>;
  };
  for (const [, script = ''] of text.matchAll(/\bnpm run ([a-z][a-z-]*)/g))
    expect(scripts, script).toHaveProperty(script);
}

/** Parses a command line with the product's command tree; nothing is carried out. @returns code of what is wrong */
function findUsageFault(words: readonly string[]): string | undefined {
  const terminal = { out: () => {}, err: () => {}, columns: { out: undefined, err: undefined } };
  const parser = buildParser('0.0.0', terminal, async () => undefined);
  try {
    parser.parse(words, { from: 'user' });
    return undefined;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? undefined : error.code;
    throw error;
  }
}

/** Sections of the fragment over those of the base job; a fragment with a source of its own brings all of it. */
function mergeJob(fragment: Readonly<Record<string, unknown>>): object {
  const drop = { ...BASE_JOB.drop, ...(fragment['drop'] as object | undefined) };
  const source = fragment['source'] as object | undefined;
  return {
    ...BASE_JOB,
    ...fragment,
    drop,
    source: source && !('api' in source) ? { ...BASE_JOB.source, ...source } : (source ?? BASE_JOB.source),
  };
}
