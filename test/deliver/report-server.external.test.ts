/**
 * Reports that a ClickHouse server computes: an HTTP front of the embedded engine reads a real S3 store by a named
 * collection. The models equal those of this machine, nothing is fetched, and a file that is not the sealed one is refused.
 */
import { randomUUID } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openContent } from '../../src/deliver/content.ts';
import type { DeliverContext } from '../../src/deliver/delivery.ts';
import { openReportServer, type ReportServer } from '../../src/deliver/report-server.ts';
import { quoteString } from '../../src/engine/literal.ts';
import { openServerEngine, type StreamingEngine } from '../../src/engine/server.ts';
import { dropKey, fileKey, SUMMARY_FILENAME } from '../../src/ledger/layout.ts';
import type { Manifest } from '../../src/ledger/manifest.ts';
import { publishDrop } from '../../src/ledger/publish.ts';
import { JobState } from '../../src/state/job-state.ts';
import { openS3Store } from '../../src/store/s3.ts';
import { readS3Access } from '../../src/store/s3-access.ts';
import type { Store } from '../../src/store/store.ts';
import { createRandomDay } from '../report/random-day.ts';
import { type ClickHouseFront, startClickHouseFront } from '../support/clickhouse-front.ts';
import { createFakeClock } from '../support/fake-clock.ts';
import { flowdrop, listFiles, makeFolder } from '../support/flowdrop.ts';
import { createSilentLog } from '../support/log.ts';
import { createDraft } from '../support/manifest.ts';
import { s3Environment, startS3, useS3Credentials } from '../support/s3-server.ts';
import { createReportJob } from './bench.ts';
import { sealDay } from './sealed-day.ts';

const { server: s3, reason } = await startS3();
if (s3) useS3Credentials(s3);

const DATES = ['2026-11-16', '2026-11-17', '2026-11-18', '2026-11-19', '2026-11-20'];
const DATE = '2026-11-20';
const COLLECTION = 'drops';
/** A chain of the symbols that the random days trade, with every contract of 40 strikes and two expirations. */
const CHAIN = `SELECT toDate32('${DATE}') AS date, symbol, concat(symbol, toString(number)) AS option_symbol,
    toDate32('${DATE}') + 7 * (1 + number % 2) AS expiration_date, if(number % 4 < 2, 'CALL', 'PUT') AS put_call,
    40. + intDiv(number, 4) AS strike, toFloat64(100 + number % 7) AS open_interest, 0.2 AS iv,
    if(number % 4 < 2, 0.5, -0.5) AS delta, 0.01 AS gamma
  FROM numbers(160) AS n CROSS JOIN (SELECT arrayJoin(['S0', 'S1']) AS symbol) AS s`;
const STRUCTURE = `SELECT 'S0' AS symbol, toNullable(50.5) AS spot, toNullable(2e6) AS call_gex, toNullable(-1e6) AS put_gex,
    toNullable(toDateTime64('${DATE} 16:00:00', 3, 'UTC')) AS intraday_gex_as_of`;
const REPORT = 'chain: option-chain\nmarket_structure: structure';

let folder: Awaited<ReturnType<typeof makeFolder>>;
let front: ClickHouseFront;
let engine: StreamingEngine;
let store: Store;
let prefix: string;
let manifest: Manifest;
let server: ReportServer;

const context = (worker: string, own: Partial<DeliverContext> = {}): DeliverContext => ({
  ...{ engine: front.engine, store, log: createSilentLog(), clock: createFakeClock(), mailFrom: 'flow@example.com' },
  ...{ redact: (text: string) => text, onEvent: () => undefined, templatesDir: '', publicUrl: undefined, version: '1' },
  state: new JobState(join(folder.path, worker), 'nightly'),
  mailer: {
    url: '',
    send: () => Promise.reject(new RangeError('nobody is mailed')),
    verify: async () => '',
    close: async () => {},
  },
  ...own,
});

async function build(worker: string, own: Partial<DeliverContext> = {}, symbols: readonly string[] = ['S0', 'S1']) {
  const job = createReportJob(REPORT);
  const [report] = job.reports;
  if (report === undefined) throw new Error('the job has no report');
  return await openContent(context(worker, own), job, report, manifest).parts(symbols);
}

async function open(collection = COLLECTION): Promise<ReportServer> {
  const access = await readS3Access({ ...s3Options(), prefix });
  return await openReportServer(access, { engine, collection, cluster: undefined }, new AbortController().signal);
}

function s3Options() {
  if (s3 === undefined) throw new Error('there is no S3 server');
  return s3;
}

async function sealTable(dataset: string, select: string): Promise<void> {
  const path = join(folder.path, `${dataset}.parquet`);
  await front.engine.command(`INSERT INTO FUNCTION file(${quoteString(path)}, Parquet) ${select}`);
  const described = await front.engine.rows<{ name: string }>(`DESCRIBE TABLE (${select})`);
  const [{ n } = { n: 0 }] = await front.engine.rows<{ n: number }>(`SELECT toUInt32(count()) AS n FROM (${select})`);
  const schema = described.map(({ name }) => ({ name, type: 'double' as const, nullable: true }));
  const draft = createDraft({ job_id: dataset, dataset, date: DATE, rows: n, source_rows: n, schema });
  await publishDrop(store, { drop: path }, draft, {});
}

/** The same rows with another compression. */
async function rewrite(bytes: Buffer): Promise<Buffer> {
  const [from, to] = [join(folder.path, `${randomUUID()}.parquet`), join(folder.path, `${randomUUID()}.parquet`)];
  await writeFile(from, bytes);
  await front.engine.command(
    `INSERT INTO FUNCTION file(${quoteString(to)}, Parquet) SELECT * FROM file(${quoteString(from)}, Parquet) SETTINGS output_format_parquet_compression_method = 'gzip'`,
  );
  return await readFile(to);
}

async function nameStore(collection: string, at: string): Promise<void> {
  const { endpoint, bucket, accessKeyId, secretAccessKey } = s3Options();
  const url = `${endpoint}/${bucket}/${at.split('/').map(encodeURIComponent).join('/')}/`;
  const credentials = `access_key_id = ${quoteString(accessKeyId)}, secret_access_key = ${quoteString(secretAccessKey)}`;
  await front.engine.command(`CREATE NAMED COLLECTION ${collection} AS url = ${quoteString(url)}, ${credentials}`);
}

// Skipped only where no S3 server can be started: not root, or not Debian. CI throws instead.
describe.skipIf(s3 === undefined)(`a report by a server${reason === undefined ? '' : ` (${reason})`}`, () => {
  beforeAll(async () => {
    folder = await makeFolder();
    front = await startClickHouseFront();
    engine = await openServerEngine({ url: front.url });
    prefix = `report-server/${randomUUID()}/quant's drops`;
    store = await openS3Store({ ...s3Options(), prefix });
    await nameStore(COLLECTION, prefix);
    for (const [at, date] of DATES.entries()) {
      const trades = createRandomDay(40 + at, { date, prints: 1_500 });
      manifest = await sealDay(front.engine, store, { date, trades });
    }
    await sealTable('option-chain', CHAIN);
    await sealTable('structure', STRUCTURE);
    server = await open();
  }, 120_000);
  afterAll(async () => {
    await engine?.close();
    await front?.close();
    if (store === undefined) return;
    for await (const { key } of store.list('')) await store.remove(key);
    await store.close();
    await folder.remove();
  });

  it('has every number of this machine, and fetches nothing', async () => {
    const own = await build('own');
    const before = front.statements.length;
    const its = await build('its', { server });
    expect(its).toEqual(own);
    const [part] = its;
    if (part === undefined || 'pending' in part) throw new Error('the part is sealed');
    expect(part.report.comparison.meanDates).toHaveLength(4);
    expect(part.report.exposure.focus.some(({ isWholeChain }) => isWholeChain)).toBe(true);
    expect(part.report.exposure.focus.some(({ marketStructure }) => marketStructure !== null)).toBe(true);
    const files = async (worker: string) =>
      (await listFiles(join(folder.path, worker))).filter((name) => name.endsWith('.parquet'));
    expect((await files('own')).length).toBeGreaterThan(5);
    expect(await files('its')).toEqual([]);
    const sent = front.statements.slice(before);
    expect(sent.length).toBeGreaterThan(20);
    for (const text of sent) expect(text).not.toContain(s3Options().secretAccessKey);
  });

  it('is what the command prints', async () => {
    const path = join(folder.path, 'nightly.yaml');
    const lines = REPORT.split('\n').join('\n    ');
    await writeFile(
      path,
      `name: nightly\nsource:\n  api: historical\ndrop:\n  to: "s3://${s3Options().bucket}/${prefix}"\n  dataset: trades\nreports:\n  - to: [desk@example.com]\n    template: flow\n    symbols: [S0, S1]\n    ${lines}\n`,
    );
    const print = async (more: readonly string[]) => {
      const args = ['report', path, '--date', DATE, '--preview', 'preview', '--json', ...more];
      const env = { ...s3Environment(s3Options()), FLOWDROP_QUERY_ENGINE_COLLECTION: COLLECTION };
      const result = await flowdrop(args, { cwd: folder.path, env });
      expect(result.code, result.stderr).toBe(0);
      return (JSON.parse(result.stdout) as Record<string, unknown>[]).map(({ createdAt, ...model }) => model);
    };
    const before = front.statements.length;
    const own = await print([]);
    expect(front.statements.length).toBe(before);
    const its = await print(['--engine', front.url]);
    expect(front.statements.length).toBeGreaterThan(before);
    expect(its).toEqual(own);
  }, 120_000);

  it('is refused for a drop that is not the sealed one, of the same size too', async () => {
    const key = dropKey('trades', DATE);
    const sealed = Buffer.from((await store.get(key)) ?? []);
    const other = Buffer.from(sealed);
    other[1_000] = (other[1_000] ?? 0) ^ 1;
    for (const bytes of [other, Buffer.concat([sealed, Buffer.from('x')])]) {
      await store.put(key, { bytes });
      await expect(build('damaged', { server })).rejects.toMatchObject({ code: 'DROP_DAMAGED' });
    }
    await store.put(key, { bytes: sealed });
    await expect(build('whole', { server })).resolves.toHaveLength(1);
  });

  it('is refused if a file is replaced while the server reads it', async () => {
    const keys = [dropKey('trades', DATE), fileKey('trades', '2026-11-19', SUMMARY_FILENAME)];
    for (const key of [...keys, dropKey('option-chain', DATE)]) {
      const sealed = await store.get(key);
      if (sealed === undefined) throw new Error(`there is no ${key}`);
      const own = await open();
      // The queries of the report begin with the columns of the drop, after every file was found.
      let isReading = false;
      front.onStatement = async (sql) => {
        if (!isReading && sql.startsWith('DESCRIBE')) {
          isReading = true;
          // The same rows in other bytes, as after a restatement that changed none.
          await store.put(key, { bytes: await rewrite(Buffer.from(sealed)) });
        }
        return undefined;
      };
      try {
        await expect(build('replaced', { server: own }), key).rejects.toMatchObject({ code: 'DROP_RESTATING' });
        expect(isReading).toBe(true);
      } finally {
        front.onStatement = undefined;
        await store.put(key, { bytes: Buffer.from(sealed) });
      }
    }
  }, 60_000);

  it('compares sizes only if the server cannot hash', async () => {
    front.onStatement = (sql) => (sql.includes('SHA256(') ? 46 : undefined);
    const key = dropKey('trades', DATE);
    const sealed = Buffer.from((await store.get(key)) ?? []);
    try {
      await expect(build('unhashed', { server: await open() })).resolves.toHaveLength(1);
      await store.put(key, { bytes: Buffer.concat([sealed, Buffer.from('x')]) });
      await expect(build('longer', { server: await open() })).rejects.toMatchObject({ code: 'DROP_DAMAGED' });
    } finally {
      front.onStatement = undefined;
      await store.put(key, { bytes: sealed });
    }
  });

  it('ends on the server when it is stopped', async () => {
    const stop = new AbortController();
    const access = await readS3Access({ ...s3Options(), prefix });
    const own = await openReportServer(access, { engine, collection: COLLECTION, cluster: undefined }, stop.signal);
    const before = front.statements.length;
    front.onStatement = async (sql) => {
      if (!sql.startsWith('DESCRIBE')) return undefined;
      stop.abort();
      await delay(500);
      return undefined;
    };
    try {
      await expect(build('stopped', { server: own })).rejects.toThrow();
      await expect.poll(() => front.statements.slice(before).some((sql) => sql.startsWith('KILL QUERY'))).toBe(true);
    } finally {
      front.onStatement = undefined;
    }
  });

  it('says what the server lacks', async () => {
    await expect(build('none', { server: await open('elsewhere') })).rejects.toMatchObject({
      code: 'ENGINE_COLLECTION',
    });
    await nameStore('other', `${prefix}/other`);
    await expect(build('other', { server: await open('other') })).rejects.toMatchObject({ code: 'ENGINE_COLLECTION' });
    const directory = { kind: 'directory' as const, path: folder.path };
    const opened = openReportServer(
      directory,
      { engine, collection: COLLECTION, cluster: undefined },
      new AbortController().signal,
    );
    await expect(opened).rejects.toMatchObject({ code: 'ENGINE_NEEDS_S3' });
  });
});
