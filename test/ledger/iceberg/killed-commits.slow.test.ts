/**
 * Two workers seal and commit at the same time, and each dies at the first call of a commit, at the second, and so on.
 * Afterwards every snapshot is whole, and the table is that of the ledger, committed or rebuilt.
 */
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { asyncBufferFromFile, parquetMetadataAsync } from 'hyparquet';
import { expect, it } from 'vitest';
import { isFault } from '../../../src/core/errors.ts';
import { openEmbeddedEngine } from '../../../src/engine/embedded.ts';
import { auditTable, commitTable, rebuildTable } from '../../../src/ledger/iceberg/table.ts';
import { keyOf, listTableDates, readTable, type TableMetadata } from '../../../src/ledger/iceberg/table-metadata.ts';
import { isLive, readManifestList, readTableManifest } from '../../../src/ledger/iceberg/table-snapshots.ts';
import { dropsPrefix, tablePrefix } from '../../../src/ledger/layout.ts';
import { Ledger } from '../../../src/ledger/ledger.ts';
import { openDirectoryStore } from '../../../src/store/directory.ts';
import type { Store } from '../../../src/store/store.ts';
import { Died, dieAt, faultStore } from '../../support/fault-store.ts';
import { makeFolder } from '../../support/flowdrop.ts';
import { chooseSeed, chooseSize } from '../../support/nightly.ts';
import { createRandom } from '../../support/random.ts';
import { DATASET, recordDays, sealDay } from '../../support/table-days.ts';

/** How often each worker goes through all calls of a commit. */
const ROUNDS = chooseSize(3, 12);
const SEED = chooseSeed(62_017);
/** Three months of days, so that several manifests are at work. */
const DAYS = Array.from({ length: 60 }, (_, day) =>
  new Date(Date.parse('2026-08-10T00:00:00Z') + day * 86_400_000).toISOString().slice(0, 10),
);
/** Snapshots that are read by ClickHouse too: one takes some ten milliseconds. */
const MAX_READ = 60;

/** Seals a day or its next revision, and commits it. @returns dates that the commit brought to the table */
async function sealAndCommit(
  store: Store,
  dying: Store,
  scratch: string,
  random: () => number,
): Promise<readonly string[]> {
  const date = DAYS[Math.floor(random() * DAYS.length)] ?? '';
  try {
    await sealDay(store, { date, rows: 1 + Math.floor(random() * 50), hasVenue: random() < 0.3 }, scratch);
    await recordDays(store);
    return (await commitTable(new Ledger(dying, DATASET), Date.now())).dates;
  } catch (error) {
    // The other worker was just at the same date, or wrote the conditions at the same moment.
    const isOther = isFault(error) && ['SEALING_BROKEN', 'MANIFEST_INVALID', 'DOCUMENT_BUSY'].includes(error.code);
    const isExpected = error instanceof Died || isOther;
    if (!isExpected && !String(error).includes('condition.json failed: the file has different bytes')) throw error;
    return [];
  }
}

/** Dies at each call of a commit in turn, until a commit is through before that call. @returns how often it died */
async function dieAtEachCall(store: Store, scratch: string, random: () => number): Promise<number> {
  for (let call = 1; ; ) {
    const dying = faultStore(store, dieAt(call));
    const dates = await sealAndCommit(store, dying, scratch, random);
    if (dying.calls.length < call && dates.length > 0) return call - 1;
    if (dying.calls.length >= call) call += 1;
    // Otherwise the dates to commit would be ever more.
    await commitTable(new Ledger(store, DATASET), Date.now());
  }
}

/** Rows of each date by the footers of the files that a snapshot has, which must be those that its metadata counts. */
async function readSnapshotRows(
  store: Store,
  snapshot: TableMetadata['snapshots'][number],
  footers: Map<string, number>,
): Promise<Readonly<Record<string, number>>> {
  const rows: Record<string, number> = {};
  for (const { manifest_path: path } of await readManifestList(store, snapshot)) {
    for (const { data_file: file } of (await readTableManifest(store, path)).filter(isLive)) {
      const key = keyOf(store, file.file_path);
      const footer = footers.get(key) ?? (await readFooterRows(join(store.url, key)));
      footers.set(key, footer);
      expect(file.record_count, key).toBe(footer);
      const date = key.slice(`${dropsPrefix(DATASET)}session=`.length).slice(0, 'YYYY-MM-DD'.length);
      expect(rows, `${date} is twice in a snapshot`).not.toHaveProperty(date);
      rows[date] = footer;
    }
  }
  return rows;
}

async function readFooterRows(path: string): Promise<number> {
  return Number((await parquetMetadataAsync(await asyncBufferFromFile(path))).num_rows);
}

it('workers that die in their commits leave every snapshot whole, and the table equal to the ledger', async () => {
  const { path, remove } = await makeFolder();
  const root = join(path, 'store');
  const store = await openDirectoryStore(root);
  let deaths = 0;
  const work = async (worker: number) => {
    const random = createRandom(SEED + worker);
    for (let round = 0; round < ROUNDS; round += 1)
      deaths += await dieAtEachCall(store, join(path, `scratch-${worker}.parquet`), random);
  };
  await Promise.all([work(1), work(2)]);
  const manifests = await recordDays(store);
  await commitTable(new Ledger(store, DATASET), Date.now());
  const byDate = new Map(manifests.map((manifest) => [manifest.date, manifest]));
  expect(await auditTable(new Ledger(store, DATASET), byDate), `seed ${SEED}`).toEqual({ findings: [], behind: [] });
  const committed = await readTable(store, DATASET);
  if (committed === undefined) throw new Error('there is no table');
  const { snapshots } = committed.metadata;
  console.log(`seed ${SEED}: ${deaths} deaths; ${snapshots.length} snapshots, ${byDate.size} dates`);
  expect(deaths).toBeGreaterThan(10 * ROUNDS);
  const home = process.cwd();
  process.chdir(tmpdir());
  const engine = await openEmbeddedEngine({ path: join(path, 'engine') });
  const readRows = async (snapshot?: number) => {
    const at = snapshot === undefined ? '' : ` SETTINGS iceberg_snapshot_id = ${snapshot}`;
    const rows = await engine.rows<{ d: string; n: number }>(
      `SELECT toString(date) AS d, toUInt32(count()) AS n FROM icebergLocal('${root}/${tablePrefix(DATASET)}') GROUP BY d${at}`,
    );
    return Object.fromEntries(rows.map(({ d, n }) => [d, n]));
  };
  /** Each snapshot is the one before with the rows of its own date. */
  const expectWhole = async (table: TableMetadata) => {
    const footers = new Map<string, number>();
    const expected: Record<string, number> = {};
    for (const [index, snapshot] of table.snapshots.entries()) {
      const { summary } = snapshot;
      expected[summary['flowdrop.date'] ?? ''] = Number(summary['added-records']);
      expect(await readSnapshotRows(store, snapshot, footers)).toEqual(expected);
      const isRead = index % Math.ceil(table.snapshots.length / MAX_READ) === 0;
      if (isRead) expect(await readRows(snapshot['snapshot-id'])).toEqual(expected);
    }
  };
  try {
    const expected = Object.fromEntries(manifests.map(({ date, rows }) => [date, rows]));
    expect(await readRows()).toEqual(expected);
    await expectWhole(committed.metadata);
    const { left } = await rebuildTable(new Ledger(store, DATASET), Date.now());
    expect([...left]).toEqual([]);
    expect(await auditTable(new Ledger(store, DATASET), byDate)).toEqual({ findings: [], behind: [] });
    expect(await readRows()).toEqual(expected);
    const rebuilt = (await readTable(store, DATASET))?.metadata;
    if (rebuilt === undefined) throw new Error('there is no table');
    await expectWhole(rebuilt);
    expect(listTableDates(rebuilt)).toEqual(listTableDates(committed.metadata));
    // A revision that was replaced before it was committed is in the ledger only.
    const ids = new Set(rebuilt.snapshots.map((one) => one['snapshot-id']));
    expect(snapshots.filter((one) => !ids.has(one['snapshot-id']))).toEqual([]);
  } finally {
    await engine.close();
    process.chdir(home);
    await remove();
  }
}, 3_600_000);
