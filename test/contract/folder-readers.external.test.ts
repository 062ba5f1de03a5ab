/**
 * A dataset's folder, in a directory and in S3, as readers take it: pandas, pyarrow, Polars, DuckDB, Spark, ClickHouse and
 * hyparquet, each in the ways that its users type it. Each must count and sum every date as the ledger's own files have
 * it, before and after a restatement, and while a date is restated over and over.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet';
import { compressors } from 'hyparquet-compressors';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { Ledger } from '../../src/ledger/ledger.ts';
import { publishDrop } from '../../src/ledger/publish.ts';
import { openDirectoryStore } from '../../src/store/directory.ts';
import { openS3Store } from '../../src/store/s3.ts';
import type { Store } from '../../src/store/store.ts';
import { type Sums, sumSealed } from '../support/drop.ts';
import { flowdrop, makeFolder, startService } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { createDraft } from '../support/manifest.ts';
import { findPython } from '../support/python.ts';
import { type S3Server, s3Environment, startS3, useS3Credentials } from '../support/s3-server.ts';
import { findSpark } from '../support/spark.ts';

const SCRIPT = new URL('read_folder.py', import.meta.url).pathname;
/** Skipped where Python, its packages or Java cannot be had, which `support/` says aloud; CI never skips it. */
const python = findPython();
const pythonDuckDb = findPython('requirements-duckdb.txt');
const spark = findSpark();
const { server: s3 } = await startS3();

const DATA_FRAMES = ['pandas', 'pandas_partition', 'pandas_one_date', 'pyarrow', 'pyarrow_plain'];
const POLARS = ['polars', 'polars_eager', 'polars_partition'];
const DUCKDB = ['duckdb', 'duckdb_partition', 'duckdb_plain'];
const SPARK = ['spark', 'spark_partition'];

interface Place {
  readonly folder: string;
  readonly s3?: S3Server | undefined;
}

async function read(
  { path }: { readonly path: string },
  readers: readonly string[],
  { folder, s3 }: Place,
  stop: string | null = null,
): Promise<readonly (readonly [string, Sums, number])[]> {
  const access = s3 && { endpoint: s3.endpoint, region: s3.region, key: s3.accessKeyId, secret: s3.secretAccessKey };
  const spec = { folder, readers, s3: access ?? null, jars: spark.jars, stop };
  const child = spawn(path, [SCRIPT, JSON.stringify(spec)], { stdio: ['ignore', 'pipe', 'ignore'] });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (part: string) => {
    text += part;
  });
  await once(child, 'close');
  return text.split('\n').flatMap((line) => (line.startsWith('["') ? [JSON.parse(line)] : []));
}

let cwd: string;
let remove: () => Promise<void>;
let engine: Engine;
beforeAll(async () => {
  ({ path: cwd, remove } = await makeFolder());
  engine = await openEmbeddedEngine();
});
afterAll(async () => {
  await engine.close();
  await remove();
});

// Those who read a directory as well do so in `interop.external.test.ts`, and below while it changes.
describe.each([s3 ? 'S3' : 'a directory'])('the folder of a dataset in %s', (name) => {
  let place: Place;
  let store: Store;
  let job: string;
  let env: Readonly<Record<string, string>> = {};

  beforeAll(async () => {
    const own = join(cwd, name.replace(' ', '-'));
    await mkdir(own);
    if (name === 'S3' && s3) {
      useS3Credentials(s3);
      const prefix = `folders/${process.pid}-${Date.now()}`;
      store = await openS3Store({ ...s3, prefix });
      env = s3Environment(s3);
      place = { folder: `s3://${s3.bucket}/${prefix}/trades`, s3 };
    } else {
      store = await openDirectoryStore(join(own, 'drops'));
      place = { folder: join(own, 'drops', 'trades') };
    }
    job = await writeJob(own, { reports: '', to: store.url });
    await run(['run', job], []);
  }, 120_000);

  /** Runs the command at a service of its own. */
  async function run(words: readonly string[], generate: readonly string[]): Promise<void> {
    const service = await startService(['--generate', '3', '--generate-rows', '2000', ...generate]);
    try {
      const done = await flowdrop(words, { cwd, env: { ...service.env, ...env } });
      expect(done.code, done.stderr).toBe(0);
    } finally {
      await service.stop();
    }
  }

  async function readTruth(): Promise<Sums> {
    const truth = await sumSealed(store, 'trades', join(cwd, 'sealed.parquet'));
    expect(Object.keys(truth)).toHaveLength(3);
    return truth;
  }

  /** With and without the partition key, by what the folder is called to ClickHouse. */
  async function readByClickHouse(): Promise<readonly (readonly [string, Sums])[]> {
    const files = `${place.folder.replace('s3:/', s3?.endpoint ?? '')}/**/*.parquet`;
    const source = place.s3
      ? `s3('${files}', '${place.s3.accessKeyId}', '${place.s3.secretAccessKey}', 'Parquet')`
      : `file('${files}', 'Parquet')`;
    const answers: (readonly [string, Sums])[] = [];
    for (const [key, isPartition] of [
      ['date', 0],
      ['date', 1],
      ['session', 1],
    ] as const) {
      const rows = await engine.rows<{ d: string; n: number; p: number }>(
        `SELECT toString(${key}) AS d, toUInt32(count()) AS n, round(sum(premium), 2) AS p FROM ${source} GROUP BY d SETTINGS use_hive_partitioning = ${isPartition}`,
      );
      answers.push([`ClickHouse ${key} ${isPartition}`, Object.fromEntries(rows.map(({ d, n, p }) => [d, [n, p]]))]);
    }
    return answers;
  }

  /** Which reads single files. */
  async function readByHyparquet(): Promise<Sums> {
    const sums: Record<string, [number, number]> = {};
    for await (const { key } of store.list('trades/')) {
      const path = join(cwd, 'one.parquet');
      await store.download(key, path);
      const file = await asyncBufferFromFile(path);
      for (const row of await parquetReadObjects({ file, compressors, columns: ['date', 'premium'] })) {
        const date = (row['date'] as Date).toISOString().slice(0, 10); // Its DATE is a Date.
        const [rows, premium] = sums[date] ?? [0, 0];
        sums[date] = [rows + 1, premium + Number(row['premium'])];
      }
    }
    return Object.fromEntries(
      Object.entries(sums).map(([date, [rows, sum]]) => [date, [rows, Math.round(sum * 100) / 100]]),
    );
  }

  async function expectRead(truth: Sums): Promise<void> {
    for (const [reader, answer] of await readByClickHouse()) expect(answer, reader).toEqual(truth);
    expect(await readByHyparquet(), 'hyparquet').toEqual(truth);
    const duckDb = place.s3 ? pythonDuckDb : python;
    const inPython = [
      ...(python.isMissing ? [] : await read(python, [...DATA_FRAMES, ...POLARS], place)),
      ...(duckDb.isMissing ? [] : await read(duckDb, DUCKDB, place)),
    ];
    for (const [reader, answer] of inPython) expect(answer, reader).toEqual(truth);
    expect(inPython).toHaveLength((python.isMissing ? 0 : 8) + (duckDb.isMissing ? 0 : 3));
  }

  it('is read as it is after a date was restated', async () => {
    const before = await readTruth();
    const last = Object.keys(before).at(-1) ?? '';
    await run(['backfill', job, '--all', '--from', last, '--to', last], ['--generate-rows', '2500', '--seed', '7']);
    const truth = await readTruth();
    expect(truth[last]?.[0]).toBe(2500);
    await expectRead(truth);
  }, 400_000);

  // A nightly part.
  it.skipIf(spark.isMissing)(
    'is read as it is by Spark',
    async () => {
      const truth = await readTruth();
      const answers = await read(spark, SPARK, place);
      expect(answers.map(([reader]) => reader)).toEqual(SPARK);
      for (const [reader, answer] of answers) expect(answer, reader).toEqual(truth);
    },
    400_000,
  );
});

describe.skipIf(python.isMissing)('the folder of a dataset, while a date is restated sixty times,', () => {
  const [DATE, OTHER] = ['2026-11-19', '2026-11-18'];
  const REVISIONS = 60;

  /** Revision `n` of a date: its own number of rows and sum. */
  async function writeRevision(date: string, n: number): Promise<string> {
    const path = join(cwd, 'work', `${date}.parquet`);
    await engine.command(
      `SELECT toDate32('${date}') AS date, toFloat64(${n}) AS premium, repeat(toString(cityHash64(number, ${n})), 4) AS id FROM numbers(${20_000 + n}) INTO OUTFILE '${path}' TRUNCATE FORMAT Parquet`,
    );
    return path;
  }

  it('has each date once, whole and of one revision for pandas and pyarrow', async () => {
    const store = await openDirectoryStore(join(cwd, 'store'));
    await mkdir(join(cwd, 'work'), { recursive: true });
    const publish = async (date: string, n: number) => {
      const supersedes = await new Ledger(store, 'trades').manifest(date);
      await publishDrop(
        new Ledger(store, 'trades'),
        { drop: await writeRevision(date, n) },
        { ...createDraft({}), date },
        { supersedes },
      );
    };
    await publish(OTHER, 7);
    await publish(DATE, 1);
    const stop = join(cwd, 'stop');
    // Polars and DuckDB open a file twice, so they may meet two revisions of one that is replaced: docs/drops.md says so.
    const reading = read(python, DATA_FRAMES, { folder: join(cwd, 'store', 'trades') }, stop);
    for (let n = 2; n <= REVISIONS; n += 1) await publish(DATE, n);
    await writeFile(stop, '');
    const seen = await reading;
    const ofRevision = (n: number) => [20_000 + n, (20_000 + n) * n];
    const valid = new Set(Array.from({ length: REVISIONS }, (_, k) => JSON.stringify(ofRevision(k + 1))));
    const wrong = seen.filter(
      ([, answer]) =>
        Object.keys(answer).length !== 2 ||
        JSON.stringify(answer[OTHER]) !== JSON.stringify(ofRevision(7)) ||
        !valid.has(JSON.stringify(answer[DATE])),
    );
    expect(wrong).toEqual([]);
    // The readers met many of the revisions.
    expect(new Set(seen.map(([, answer]) => JSON.stringify(answer[DATE]))).size).toBeGreaterThan(10);
  }, 400_000);
});
