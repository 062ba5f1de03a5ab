/**
 * The Iceberg table of a job, made by whole runs in S3, and read by PyIceberg, Polars, DuckDB, Spark, ClickHouse and
 * icebird: each date once, restated ones too, a column that the job got later, and each revision by its snapshot as the
 * history has it. A table in a directory, which changes while it is read, is in `iceberg-restated.external.test.ts`.
 */
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { readTable, type TableSnapshot } from '../../src/ledger/iceberg/table-metadata.ts';
import { dropKeyOf, historyKey } from '../../src/ledger/layout.ts';
import { Ledger } from '../../src/ledger/ledger.ts';
import type { Manifest } from '../../src/ledger/manifest.ts';
import { openDirectoryStore } from '../../src/store/directory.ts';
import { openS3Store } from '../../src/store/s3.ts';
import type { Store } from '../../src/store/store.ts';
import { queryDuckDb } from '../support/drop.ts';
import { flowdrop, makeFolder, startService } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { s3Environment, startS3, useS3Credentials } from '../support/s3-server.ts';
import {
  type DayFacts,
  readByClickHouse,
  readByIcebird,
  readByScript,
  SCRIPT_READERS,
  type TableAnswers,
  type TableFacts,
  type TableToRead,
} from '../support/table-readers.ts';

const { server: s3 } = await startS3();
const COLUMNS = 'id, symbol, date, time, put_call, strike, expiration_date, size, price, premium';
const PREFIX = `tables/${process.pid}-${Date.now()}`;

interface TestTable extends TableToRead {
  /** Address of the store in the job, and what a run needs to reach it. */
  readonly to: string;
  readonly env: Readonly<Record<string, string>>;
}

const home = process.cwd();
let cwd: string;
let remove: () => Promise<void>;
let engine: Engine;
let table: TestTable;

/** Runs a job whose rows are of this seed. */
async function run(words: readonly string[], columns: string, generate: readonly string[]): Promise<void> {
  const service = await startService(['--generate', '3', ...generate]);
  try {
    const { to, env } = table;
    const job = { to, reports: '', drop: '  table: iceberg', source: `  columns: [${columns}]` };
    const [command = '', ...more] = words;
    const done = await flowdrop([command, await writeJob(cwd, job), ...more], {
      cwd,
      env: { ...service.env, ...env },
    });
    expect(done.code, done.stderr).toBe(0);
  } finally {
    await service.stop();
  }
}

beforeAll(async () => {
  ({ path: cwd, remove } = await makeFolder());
  // The engine reads tables only below the folder in which it was started.
  process.chdir(tmpdir());
  engine = await openEmbeddedEngine({ path: join(cwd, 'engine') });
  if (s3) {
    useS3Credentials(s3);
    const store = await openS3Store({ ...s3, prefix: PREFIX });
    table = { s3, to: `s3://${s3.bucket}/${PREFIX}`, env: s3Environment(s3), store };
  } else table = { to: 'drops', env: {}, store: await openDirectoryStore(join(cwd, 'drops')) };
  await run(['run'], COLUMNS, ['--generate-rows', '2000']);
  // The last two dates again, with other rows, and with a column that the job has got meanwhile.
  const [, second = '', third = ''] = await new Ledger(table.store, 'trades').dates();
  const words = ['backfill', '--all', '--from', second, '--to', third];
  await run(words, `${COLUMNS}, exchange`, ['--generate-rows', '2500', '--seed', '7']);
}, 300_000);
afterAll(async () => {
  await engine.close();
  process.chdir(home);
  await remove();
});

const readSnapshots = async (store: Store): Promise<readonly TableSnapshot[]> =>
  (await readTable(store, 'trades'))?.metadata.snapshots ?? [];

/** All revisions in the order in which they were sealed, by the ledger alone. */
async function listRevisions(store: Store): Promise<readonly { readonly manifest: Manifest; readonly key: string }[]> {
  const revisions: { readonly manifest: Manifest; readonly key: string }[] = [];
  for (const date of await new Ledger(store, 'trades').dates()) {
    const manifest = await new Ledger(store, 'trades').manifest(date);
    if (manifest === undefined) throw new Error(`${date} is not sealed`);
    revisions.push({ manifest, key: dropKeyOf(manifest) });
    for (let revision = manifest.revision - 1; revision > 0; revision -= 1) {
      const bytes = await store.get(historyKey('trades', date, revision, 'manifest.json'));
      const replaced = JSON.parse(Buffer.from(bytes ?? []).toString('utf8')) as Manifest;
      revisions.push({
        manifest: replaced,
        key: historyKey('trades', date, revision, replaced.files[0].filename),
      });
    }
  }
  return revisions.sort((a, b) => Date.parse(a.manifest.sealed_at) - Date.parse(b.manifest.sealed_at));
}

/** What each snapshot must have, by the files of the ledger and its history. */
async function readTruth({ store }: TableToRead): Promise<TableAnswers> {
  const snapshots = await readSnapshots(store);
  const revisions = await listRevisions(store);
  expect(revisions).toHaveLength(snapshots.length);
  const truth = new Map<number | null, TableFacts>();
  let facts: TableFacts = {};
  for (const [index, { manifest, key }] of revisions.entries()) {
    const path = join(cwd, 'revision.parquet');
    expect(await store.download(key, path)).toBe(true);
    const exchanges = manifest.schema.some(({ name }) => name === 'exchange') ? 'count(exchange)' : '0';
    const [row] = await queryDuckDb(
      `SELECT count(*)::INTEGER AS n, sum(premium) AS p, md5(string_agg(id, ',' ORDER BY id)) AS ids, (${exchanges})::INTEGER AS e FROM read_parquet('${path}')`,
    );
    const day: DayFacts = [Number(row?.['n']), Number(row?.['p']), String(row?.['ids']), Number(row?.['e'])];
    expect(day[0]).toBe(manifest.rows);
    facts = { ...facts, [manifest.date]: day };
    truth.set(snapshots[index]?.['snapshot-id'] ?? 0, facts);
    truth.set(null, facts);
  }
  return truth;
}

/** Sums of doubles depend on the order of rows in their last digits. */
const rounded = (answers: TableAnswers) =>
  [...answers].map(
    ([snapshot, facts]) =>
      [
        snapshot,
        Object.fromEntries(
          Object.entries(facts)
            .sort(([a], [b]) => (a < b ? -1 : 1))
            .map(([date, [rows, premium, ids, exchanges]]) => [date, [rows, Math.round(premium), ids, exchanges]]),
        ),
      ] as const,
  );

function expectSame(found: TableAnswers, truth: TableAnswers): void {
  expect(new Map(rounded(found))).toEqual(new Map(rounded(truth)));
}

async function readEach(
  { store }: TableToRead,
  read: (snapshot: number | null) => Promise<TableFacts>,
): Promise<TableAnswers> {
  const answers = new Map<number | null, TableFacts>([[null, await read(null)]]);
  for (const snapshot of await readSnapshots(store))
    answers.set(snapshot['snapshot-id'], await read(snapshot['snapshot-id']));
  return answers;
}

describe(`the Iceberg table of a job in ${s3 ? 'S3' : 'a directory'}`, () => {
  let truth: TableAnswers;
  beforeAll(async () => {
    truth = await readTruth(table);
  });

  it('has a snapshot for each date, and one for each restatement', async () => {
    const operations = (await readSnapshots(table.store)).map(({ summary }) => summary['operation']);
    expect(operations).toEqual(['append', 'append', 'append', 'overwrite', 'overwrite']);
    const days = Object.values(truth.get(null) ?? {});
    expect(days.map(([rows, , , exchanges]) => [rows, exchanges])).toEqual([
      [2000, 0],
      [2500, 2500],
      [2500, 2500],
    ]);
  });

  it('is in order for verify', async () => {
    const job = await writeJob(cwd, { to: table.to, reports: '', drop: '  table: iceberg' });
    const { code, stdout } = await flowdrop(['verify', job], { cwd, env: table.env });
    expect(stdout).toContain('nothing is wrong');
    expect(code).toBe(0);
  });

  for (const reader of SCRIPT_READERS) {
    it.skipIf(reader.isMissing)(
      `is read by ${reader.reader}, now and at each snapshot`,
      async () => {
        expectSame(await readByScript(reader, table), truth);
      },
      400_000,
    );
  }

  it('is read by ClickHouse, now and at each snapshot', async () => {
    expectSame(await readEach(table, async (snapshot) => await readByClickHouse(engine, table, snapshot)), truth);
  });

  it('is read by icebird, now and at each snapshot', async () => {
    expectSame(await readEach(table, async (snapshot) => await readByIcebird(table, snapshot)), truth);
  });
});
