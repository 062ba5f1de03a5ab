/** The README against the product: its length, its links, and its quick start, which works as written. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { queryDuckDb } from './support/drop.ts';
import { flowdrop, makeFolder, REPO, startService } from './support/flowdrop.ts';

const readme = readFileSync(join(REPO, 'README.md'), 'utf8');

describe('the README', () => {
  it('has at most 900 words', () => {
    expect(readme.split(/\s+/).length).toBeLessThanOrEqual(900);
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

  it('has commands and a query for a drop that work as written', async () => {
    const service = await startService(['--generate', '1', '--generate-rows', '300']);
    const { path: cwd, remove } = await makeFolder();
    try {
      const jobs = join(REPO, 'jobs');
      // In the order in which the page names them, but for those that never end or ask.
      const commands = [...readme.matchAll(/npx flowdrop ((?:plan|run|status|verify|backfill|query)\b[^#\n`]*)/g)].map(
        (match) => [...(match[1] ?? '').matchAll(/"([^"]*)"|\S+/g)].map(([word, quoted]) => quoted ?? word),
      );
      expect(commands.map(([name]) => name)).toEqual(['plan', 'run', 'status', 'verify', 'backfill', 'query']);
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
