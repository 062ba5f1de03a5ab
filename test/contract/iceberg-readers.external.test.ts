/**
 * The Iceberg table of a job, made by whole runs and read by PyIceberg, Spark and icebird: each date once, after a
 * restatement too, and each revision by its snapshot as the history has it.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { icebergRead } from 'icebird';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readTable } from '../../src/ledger/iceberg/table-log.ts';
import type { TableMetadata } from '../../src/ledger/iceberg/table-metadata.ts';
import { tablePrefix, tableVersionKey } from '../../src/ledger/layout.ts';
import { listSealedDates } from '../../src/ledger/sealed-dates.ts';
import { openDirectoryStore } from '../../src/store/directory.ts';
import { queryDuckDb } from '../support/drop.ts';
import { flowdrop, makeFolder, startService, type TestService } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { findPython } from '../support/python.ts';
import { findSparkJar } from '../support/spark.ts';

const SCRIPT = new URL('read_table.py', import.meta.url).pathname;
/** Skipped where Python or Java cannot be had, which `support/` says aloud; CI never skips it. */
const python = findPython();
const spark = findSparkJar();

type Sums = Readonly<Record<string, readonly [rows: number, premium: number]>>;

let service: TestService;
let cwd: string;
let remove: () => Promise<void>;
let job: string;
let metadata: TableMetadata;
let metadataPath: string;
let dates: readonly string[];
/** What each snapshot has, by the files of the ledger; `null`: the table now. */
const truth = new Map<number | null, Sums>();

beforeAll(async () => {
  service = await startService(['--generate', '3', '--generate-rows', '2000']);
  ({ path: cwd, remove } = await makeFolder());
  job = await writeJob(cwd, { reports: '', drop: '  table: iceberg' });
  const run = await flowdrop(['run', job], { cwd, env: service.env });
  expect(run.code, run.stderr).toBe(0);
  await service.stop();
  // Other rows for the same dates: the last one is restated.
  service = await startService(['--generate', '3', '--generate-rows', '2500', '--seed', '7']);
  const store = await openDirectoryStore(join(cwd, 'drops'));
  dates = await listSealedDates(store, 'trades');
  const [, , last = ''] = dates;
  const again = await flowdrop(['backfill', job, '--all', '--from', last, '--to', last], { cwd, env: service.env });
  expect(again.code, again.stderr).toBe(0);
  const found = await readTable(store, 'trades');
  if (found === undefined) throw new Error('there is no table');
  metadata = found.metadata;
  metadataPath = join(cwd, 'drops', tableVersionKey('trades', found.version));
  // The first snapshots add a date each; the last replaces the newest date by its second revision.
  const folder = join(cwd, 'drops', 'trades');
  const files = new Map<string, string>();
  for (const snapshot of metadata.snapshots) {
    const { 'flowdrop.date': date = '', 'flowdrop.revision': revision } = snapshot.summary;
    const name = revision === '1' ? 'trades.parquet' : `trades.r${revision}.parquet`;
    files.set(date, `${folder}/session=${date}/${name}`);
    const sums: Record<string, readonly [number, number]> = {};
    for (const [one, path] of files) {
      const [row] = await queryDuckDb(
        `SELECT count(*)::INTEGER AS n, round(sum(premium), 3) AS p FROM read_parquet('${path}', hive_partitioning = false)`,
      );
      sums[one] = [Number(row?.['n']), Number(row?.['p'])];
    }
    truth.set(snapshot['snapshot-id'], sums);
    truth.set(null, sums);
  }
}, 180_000);
afterAll(async () => {
  await service.stop();
  await remove();
});

async function read(...words: readonly string[]): Promise<ReadonlyMap<number | null, Sums>> {
  const child = spawn(python.path, [SCRIPT, ...words], { stdio: ['ignore', 'pipe', 'pipe'] });
  const [output, errors]: string[][] = [[], []];
  child.stdout.setEncoding('utf8').on('data', (part: string) => output?.push(part));
  child.stderr.setEncoding('utf8').on('data', (part: string) => errors?.push(part));
  const [code] = await once(child, 'close');
  expect(code, errors?.join('')).toBe(0);
  const lines = (output?.join('') ?? '').split('\n').filter((line) => line.startsWith('["'));
  return new Map(
    lines.map((line) => {
      const [, snapshot, sums] = JSON.parse(line) as [string, number | null, Sums];
      return [snapshot, sums];
    }),
  );
}

/** Sums of doubles depend on the order of rows in their last digits. */
function expectSame(found: ReadonlyMap<number | null, Sums>): void {
  expect([...found.keys()].sort()).toEqual([...truth.keys()].sort());
  for (const [snapshot, sums] of truth) {
    expect(Object.keys(found.get(snapshot) ?? {}).sort()).toEqual(Object.keys(sums));
    for (const [date, [rows, premium]] of Object.entries(sums)) {
      const [n, sum] = found.get(snapshot)?.[date] ?? [0, 0];
      expect(n, `${date} of ${snapshot}`).toBe(rows);
      expect(sum).toBeCloseTo(premium, 1);
    }
  }
}

const snapshotIds = () => JSON.stringify(metadata.snapshots.map((one) => one['snapshot-id']));

describe('the Iceberg table of a job', () => {
  it('has a snapshot for each date, and one for the restatement', () => {
    expect(metadata.snapshots.map(({ summary }) => summary['operation'])).toEqual([
      'append',
      'append',
      'append',
      'overwrite',
    ]);
    expect(truth.get(null)?.[dates.at(-1) ?? '']?.[0]).toBe(2500);
  });

  it('is in order for verify', async () => {
    const { code, stdout } = await flowdrop(['verify', job], { cwd, env: service.env });
    expect(stdout).toContain('nothing is wrong');
    expect(code).toBe(0);
  });

  it.skipIf(python.isMissing)(
    'is read by PyIceberg, now and by each snapshot',
    async () => {
      expectSame(await read('pyiceberg', metadataPath, snapshotIds()));
    },
    120_000,
  );

  it.skipIf(python.isMissing || spark.isMissing)(
    'is read by Spark, now and by each snapshot',
    async () => {
      const location = `file://${join(cwd, 'drops', tablePrefix('trades'))}`;
      expectSame(await read('spark', location, snapshotIds(), spark.path));
    },
    240_000,
  );

  it('is read by icebird', async () => {
    const fetched = globalThis.fetch;
    // It reads by HTTP only.
    globalThis.fetch = async (input, options) => {
      const bytes = await readFile(new URL(String(input)));
      const range = /bytes=(\d+)-(\d+)?/.exec(new Headers(options?.headers).get('range') ?? '');
      const [from, to] = range ? [Number(range[1]), Number(range[2] ?? bytes.length - 1) + 1] : [0, bytes.length];
      const headers = { 'content-length': String(options?.method === 'HEAD' ? bytes.length : to - from) };
      return new Response(options?.method === 'HEAD' ? null : bytes.subarray(from, to), {
        status: range ? 206 : 200,
        headers,
      });
    };
    try {
      const rows = await icebergRead({ tableUrl: metadata.location, metadata: metadata as never });
      const sums: Record<string, [number, number]> = {};
      for (const { date, premium } of rows) {
        const day = (date as Date).toISOString().slice(0, 10);
        const sum = sums[day] ?? [0, 0];
        sums[day] = [sum[0] + 1, sum[1] + Number(premium)];
      }
      for (const [date, [count, premium]] of Object.entries(truth.get(null) ?? {})) {
        expect(sums[date]?.[0]).toBe(count);
        expect(sums[date]?.[1]).toBeCloseTo(premium, 1);
      }
    } finally {
      globalThis.fetch = fetched;
    }
  });
});
