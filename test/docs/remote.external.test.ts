/**
 * The snippets that read drops in S3, of the pages and of the status page's page of a drop, run over the drops of a real
 * run; only address and key are put in.
 */
import { spawnSync } from 'node:child_process';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import { readSnippets } from '../support/drop-snippets.ts';
import { makeFolder } from '../support/flowdrop.ts';
import { findSnippets } from '../support/pages.ts';
import { findPython } from '../support/python.ts';
import { s3Environment, startS3 } from '../support/s3-server.ts';
import { runShipped } from './shipped-job.ts';

/** Skipped where they cannot be had, which `support/` says aloud; CI never skips them. */
const python = findPython('requirements-duckdb.txt');
const dataFrames = findPython();
const { server } = await startS3();
const SYMBOLS = 5;
/** Of `runShipped`. */
const SESSION_ROWS = 500;
/** As the pages have them. */
const [PAGE_FOLDER, PAGE_KEY, PAGE_REGION] = ['quant-drops/options', "'AKIA...', ", "REGION 'us-east-1'"];
const PAGE_ADDRESS = 'https://quant-drops.s3.amazonaws.com/options';

/** Its extensions come from PyPI, where its own server cannot be reached; then `INSTALL` has nothing to do. */
const DUCKDB_PROLOGUE = `
import duckdb
from duckdb_extensions import import_extension
duckdb.sql("SET extension_directory = 'extensions'")
import_extension("httpfs")
`;

describe.skipIf(server === undefined)('a snippet that reads drops in S3', () => {
  const prefix = `pages/${process.pid}-${Date.now()}`;
  let cwd: string;
  let remove: () => Promise<void>;

  beforeAll(async () => {
    if (server === undefined) return;
    ({ path: cwd, remove } = await makeFolder());
    const change = (text: string) => text.replace('to: out/drops', `to: s3://${server.bucket}/${prefix}`);
    await runShipped(cwd, { change, env: s3Environment(server) });
  }, 240_000);
  afterAll(async () => await remove());

  it.skipIf(python.isMissing).each(findSnippets('sql duckdb s3 run'))('of %s runs in DuckDB', (_, text) => {
    expect(text).toContain(PAGE_FOLDER);
    const sql = withOwnSecret(text).replaceAll(PAGE_FOLDER, `${server?.bucket}/${prefix}`);
    expect(countInDuckDb(sql)).toBeGreaterThan(SYMBOLS);
  });

  it.skipIf(dataFrames.isMissing).each(findSnippets('python s3 page run'))('of %s runs in Python', (_, text) => {
    expect(text).toContain(PAGE_FOLDER);
    const input = text.replaceAll(PAGE_FOLDER, `${server?.bucket}/${prefix}`);
    expect(runDataFrames(input)).toBe(`${SESSION_ROWS} ${2 * SESSION_ROWS}\n`);
  });

  it.each(findSnippets('sql clickhouse s3 run'))('of %s runs in ClickHouse', async (_, text) => {
    expect(text).toContain(PAGE_ADDRESS);
    const sql = text.replaceAll(PAGE_ADDRESS, `${server?.endpoint}/${server?.bucket}/${prefix}`);
    expect(await countInClickHouse(sql)).toBeGreaterThan(SYMBOLS);
  });

  it.skipIf(python.isMissing || dataFrames.isMissing)(
    'of the page of a drop runs in every reader that it names',
    async () => {
      const env = server && s3Environment(server);
      const snippets = await readSnippets([], 'nightly-trades', { cwd, ...(env && { env }) });
      const { pandas, Polars, DuckDB = '', ClickHouse = '' } = snippets;
      for (const input of [pandas, Polars]) expect(runDataFrames(input ?? ''), input).toContain(`${SESSION_ROWS}`);
      expect(DuckDB).toContain(`'s3://${server?.bucket}/${prefix}/`);
      expect(countInDuckDb(`LOAD httpfs; ${withOwnSecret(DuckDB)}`)).toBe(10);
      expect(ClickHouse).toContain(`'s3://${server?.bucket}/${prefix}/`);
      expect(await countInClickHouse(ClickHouse.replace('s3://', `${server?.endpoint}/`))).toBe(10);
    },
  );

  function runDataFrames(input: string): string {
    // The names of the AWS SDK, which pyarrow and Polars know; that of one service only is not among them.
    const aws = { ...(server && s3Environment(server)), AWS_ENDPOINT_URL: server?.endpoint, AWS_ALLOW_HTTP: 'true' };
    const env = { ...process.env, ...aws };
    const run = spawnSync(dataFrames.path, ['-'], { cwd, input, encoding: 'utf8', env });
    expect(run.status, run.stderr).toBe(0);
    return run.stdout;
  }

  function withOwnSecret(sql: string): string {
    const secret = `KEY_ID ${PAGE_KEY}SECRET '...', ${PAGE_REGION}`;
    expect(sql).toContain(secret);
    const own = [
      `KEY_ID '${server?.accessKeyId}', SECRET '${server?.secretAccessKey}', REGION '${server?.region}'`,
      `ENDPOINT '${server?.endpoint.replace('http://', '')}', URL_STYLE 'path', USE_SSL false`,
    ];
    return sql.replace(secret, own.join(', '));
  }

  function countInDuckDb(sql: string): number {
    const script = `${DUCKDB_PROLOGUE}\nprint(len(duckdb.sql(${JSON.stringify(sql)})))`;
    const run = spawnSync(python.path, ['-'], { cwd, input: script, encoding: 'utf8' });
    expect(run.status, run.stderr).toBe(0);
    return Number(run.stdout);
  }

  async function countInClickHouse(sql: string): Promise<number> {
    expect(sql).toContain(`${PAGE_KEY}'...'`);
    const own = sql.replaceAll(`${PAGE_KEY}'...'`, `'${server?.accessKeyId}', '${server?.secretAccessKey}'`);
    const engine = await openEmbeddedEngine({});
    try {
      return (await engine.rows(own.trim().replace(/;$/, ''))).length;
    } finally {
      await engine.close();
    }
  }
});
