/** The snippets of the pages that read an Iceberg table, run over the table of a real run by the readers that they name. */
import { spawnSync } from 'node:child_process';
import { tmpdir } from 'node:os';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import { makeFolder } from '../support/flowdrop.ts';
import { findSnippets, splitStatements } from '../support/pages.ts';
import { findPython } from '../support/python.ts';
import { findSpark } from '../support/spark.ts';
import { runShipped } from './shipped-job.ts';

/** Skipped where Python cannot be had, which `support/` says aloud; CI never skips it. */
const python = findPython();
const pythonDuckDb = findPython('requirements-duckdb.txt');
const spark = findSpark();

/** Where DuckDB's own server cannot be reached, its extension comes from PyPI; then `INSTALL iceberg` has nothing to do. */
const DUCKDB_PROLOGUE = `
import duckdb
from duckdb_extensions import import_extension
duckdb.sql("SET extension_directory = 'extensions'")
for name in ["avro", "iceberg"]:
    import_extension(name)
duckdb.sql("INSTALL iceberg; LOAD iceberg")
`;

let cwd: string;
let remove: () => Promise<void>;
beforeAll(async () => {
  ({ path: cwd, remove } = await makeFolder());
  const change = (text: string) => text.replace('  dataset: trades\n', '  dataset: trades\n  table: iceberg\n');
  await runShipped(cwd, { change });
}, 240_000);
afterAll(async () => await remove());

function runPython(path: string, text: string): string {
  const env = { ...process.env, PYSPARK_SUBMIT_ARGS: spark.submitArgs };
  const run = spawnSync(path, ['-'], { cwd, input: text, encoding: 'utf8', env });
  expect(run.status, run.stderr).toBe(0);
  return run.stdout.trim();
}

describe('a snippet that reads a table', () => {
  it.skipIf(python.isMissing).for(findSnippets('python table run'))(
    'of %s runs in Python',
    { timeout: 400_000 },
    ([, text], { skip }) => {
      const isSpark = text.includes('pyspark');
      skip(isSpark && spark.isMissing, 'Spark is a nightly part');
      const said = runPython(isSpark ? spark.path : python.path, text);
      // It says something: an empty answer would be a snippet that reads nothing.
      expect(said.length).toBeGreaterThan(20);
      expect(said).not.toMatch(/Empty|Series\(\[\]/);
    },
  );

  it.skipIf(pythonDuckDb.isMissing).each(findSnippets('sql duckdb table run'))(
    'of %s runs in DuckDB in Python',
    (_, text) => {
      const statements = JSON.stringify(splitStatements(text));
      const script = `${DUCKDB_PROLOGUE}\nfor statement in ${statements}:\n    print(len(duckdb.sql(statement).fetchall()))`;
      const counts = runPython(pythonDuckDb.path, script).split('\n').map(Number);
      expect(
        counts.every((count) => count > 1),
        String(counts),
      ).toBe(true);
    },
  );

  it.each(findSnippets('sql clickhouse table run'))('of %s runs in the embedded ClickHouse', async (_, text) => {
    const home = process.cwd();
    // It reads tables only below the folder in which it was started.
    process.chdir(tmpdir());
    const engine = await openEmbeddedEngine({});
    try {
      for (const statement of splitStatements(text))
        expect((await engine.rows(statement.replaceAll("'out/", `'${cwd}/out/`))).length, statement).toBeGreaterThan(1);
    } finally {
      await engine.close();
      process.chdir(home);
    }
  });
});
