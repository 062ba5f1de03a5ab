/**
 * The Python snippets of the pages, run over the drops of a real run with the readers of `test/contract/requirements.txt`;
 * those that the status page shows on the page of a drop, and the cells of the notebook (whose outputs are compared in
 * `npm run nightly -- notebook`). Of a drop in S3: `remote.external.test.ts`.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import { queryDuckDb } from '../support/drop.ts';
import { readSnippets } from '../support/drop-snippets.ts';
import { listFiles, MAIN, makeFolder, REPO } from '../support/flowdrop.ts';
import { findSnippets } from '../support/pages.ts';
import { findPython } from '../support/python.ts';
import { findSpark } from '../support/spark.ts';
import { runShipped } from './shipped-job.ts';

/** Skipped where Python or its packages cannot be had, which `support/python.ts` says aloud; CI never skips it. */
const python = findPython();
const spark = findSpark();
const SESSION_ROWS = 500;

describe.skipIf(python.isMissing)('a snippet that reads drops', () => {
  let cwd: string;
  let remove: () => Promise<void>;
  beforeAll(async () => {
    ({ path: cwd, remove } = await makeFolder());
    const generated = (rows: number, seed: string) => [
      ...['--generate', '2', '--generate-rows', String(rows), '--seed', seed],
    ];
    await runShipped(cwd, { generated: generated(SESSION_ROWS, '1') });
    // The first session is restated, for the snippet that reads an earlier revision.
    const [first = ''] = (await listFiles(join(cwd, 'out/drops/trades'))).map((file) => file.slice(8, 18));
    const command = ['backfill', 'nightly-trades', '--from', first, '--to', first, '--all'];
    await runShipped(cwd, { generated: generated(SESSION_ROWS + 1, '2'), command });
  }, 240_000);
  afterAll(async () => await remove());

  it.for(findSnippets('python run'))('of %s runs in Python', { timeout: 400_000 }, ([, text], { skip }) => {
    const isSpark = text.includes('pyspark');
    skip(isSpark && spark.isMissing, 'Spark is a nightly part');
    const env = { ...process.env, PYSPARK_SUBMIT_ARGS: spark.submitArgs };
    const path = isSpark ? spark.path : python.path;
    const run = spawnSync(path, ['-'], { cwd, input: text, encoding: 'utf8', env });
    expect(run.status, run.stderr).toBe(0);
    // It says something: an empty answer would be a snippet that reads nothing.
    expect(run.stdout.trim().length).toBeGreaterThan(20);
    expect(run.stdout).not.toMatch(/Empty|Series\(\[\]/);
  });

  it('of the notebook runs, cell after cell, and draws', () => {
    const { cells } = JSON.parse(readFileSync(join(REPO, 'docs', 'flow.ipynb'), 'utf8')) as {
      readonly cells: readonly { readonly cell_type: string; readonly source: readonly string[] }[];
    };
    const code = cells.filter((cell) => cell.cell_type === 'code').map(({ source }) => [...source].join(''));
    const input = ['import matplotlib', 'matplotlib.use("Agg")', ...code, 'print(summary.height)'].join('\n');
    const run = spawnSync(python.path, ['-'], { cwd, input, encoding: 'utf8' });
    expect(run.status, run.stderr).toBe(0);
    expect(run.stdout.trim().split('\n').at(-1)).toBe('2');
  });

  it('of the page of a drop runs in every reader that it names', async () => {
    const snippets = await readSnippets([], 'nightly-trades', { cwd });
    const { pandas, Polars, DuckDB, ClickHouse, flowdrop: line, ...others } = snippets;
    expect(others).toEqual({});
    for (const input of [pandas, Polars]) {
      const run = spawnSync(python.path, ['-'], { cwd, input, encoding: 'utf8' });
      expect(run.status, run.stderr).toBe(0);
      expect(run.stdout, input).toContain(`${SESSION_ROWS}`);
    }
    expect(await queryDuckDb(DuckDB ?? '')).toHaveLength(10);
    const engine = await openEmbeddedEngine({});
    try {
      expect(await engine.rows(ClickHouse?.replace(/;$/, '') ?? '')).toHaveLength(10);
    } finally {
      await engine.close();
    }
    const command = line?.replace('flowdrop', `"${process.execPath}" "${MAIN}" --json`) ?? '';
    const run = spawnSync('sh', ['-c', command], { cwd, encoding: 'utf8' });
    expect(run.status, run.stderr).toBe(0);
    expect(JSON.parse(run.stdout)).toHaveLength(10);
  });
});
