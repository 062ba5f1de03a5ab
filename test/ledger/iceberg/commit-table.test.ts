/**
 * The Iceberg table of a dataset in a directory store, read by ClickHouse (which is not our writer): appends, restated and
 * removed dates, time travel, repeated and competing commits, dates that a table cannot take. Columns that a job gets later
 * are in `test/contract/iceberg-readers.external.test.ts`.
 */
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openEmbeddedEngine } from '../../../src/engine/embedded.ts';
import type { Engine } from '../../../src/engine/engine.ts';
import { auditTable, commitTable, rebuildTable } from '../../../src/ledger/iceberg/table.ts';
import {
  KEPT_VERSIONS,
  keyOf,
  listTableDates,
  openTableLog,
  readTable,
} from '../../../src/ledger/iceberg/table-metadata.ts';
import {
  dropsPrefix,
  manifestKey,
  recordsPrefix,
  tableHintKey,
  tablePrefix,
  tableVersionKey,
} from '../../../src/ledger/layout.ts';
import { Ledger } from '../../../src/ledger/ledger.ts';
import { openDirectoryStore } from '../../../src/store/directory.ts';
import type { Store } from '../../../src/store/store.ts';
import { at, faultStore, wait } from '../../support/fault-store.ts';
import { makeFolder } from '../../support/flowdrop.ts';
import { listKeys, readText } from '../../support/store-keys.ts';
import { DATASET, recordDays, sealDay, type TableDay } from '../../support/table-days.ts';

const NOW = Date.parse('2026-12-01T00:00:00Z');
const [MONDAY, TUESDAY, NEXT_MONTH] = ['2026-11-23', '2026-11-24', '2026-12-01'];

const home = process.cwd();
let engine: Engine;
let removeEngine: () => Promise<void>;
beforeAll(async () => {
  const { path, remove } = await makeFolder();
  removeEngine = remove;
  // The engine reads tables only below the folder in which it was started.
  process.chdir(tmpdir());
  engine = await openEmbeddedEngine({ path: join(path, 'engine') });
});
afterAll(async () => {
  process.chdir(home);
  await engine.close();
  await removeEngine();
});

let store: Store;
let scratch: string;
beforeEach(async () => {
  const { path, remove } = await makeFolder();
  store = await openDirectoryStore(join(path, 'store'));
  scratch = join(path, 'scratch.parquet');
  return remove;
});

const ledger = (of = store) => new Ledger(of, DATASET);
const seal = async (...days: readonly TableDay[]) => {
  for (const day of days) await sealDay(store, day, scratch);
  return await recordDays(store);
};
const commit = async () => await commitTable(ledger(), NOW);

const audit = async () =>
  await auditTable(ledger(), new Map((await recordDays(store)).map((manifest) => [manifest.date, manifest])));

/** Rows and premium of each date, as ClickHouse reads the table. */
async function readByClickHouse(snapshot?: number): Promise<Readonly<Record<string, string>>> {
  const at = snapshot === undefined ? '' : ` SETTINGS iceberg_snapshot_id = ${snapshot}`;
  const rows = await engine.rows<{ d: string; n: string; p: string }>(
    `SELECT toString(date) AS d, toString(count()) AS n, toString(round(sum(premium), 3)) AS p FROM icebergLocal('${store.url}/${tablePrefix(DATASET)}') GROUP BY d ORDER BY d${at}`,
  );
  return Object.fromEntries(rows.map(({ d, n, p }) => [d, `${n} rows, ${p}`]));
}

/** What a revision has, by how `sealDay` writes it. */
const expected = (rows: number, revision: number) =>
  `${rows} rows, ${Math.round(rows * (rows - 1) * 500 + rows * revision) / 1000}`;

const snapshots = async () => (await readTable(store, DATASET))?.metadata.snapshots ?? [];

describe('a table', () => {
  it('has each sealed date once, the newest revision, and each revision by its snapshot', async () => {
    await seal({ date: MONDAY, rows: 100 }, { date: TUESDAY, rows: 50 });
    expect(await commit()).toEqual({ version: 1, dates: [MONDAY, TUESDAY], unfit: new Map() });
    await seal({ date: MONDAY, rows: 90 }, { date: NEXT_MONTH, rows: 10 });
    expect((await commit()).dates).toEqual([MONDAY, NEXT_MONTH]);
    expect(await readByClickHouse()).toEqual({
      [MONDAY]: expected(90, 2),
      [TUESDAY]: expected(50, 1),
      [NEXT_MONTH]: expected(10, 1),
    });
    const [first, second, third] = await snapshots();
    expect(await readByClickHouse(first?.['snapshot-id'])).toEqual({ [MONDAY]: expected(100, 1) });
    expect(await readByClickHouse(second?.['snapshot-id'])).toEqual({
      [MONDAY]: expected(100, 1),
      [TUESDAY]: expected(50, 1),
    });
    expect((await readByClickHouse(third?.['snapshot-id']))[MONDAY]).toBe(expected(90, 2));
    expect((await snapshots()).map(({ summary }) => summary['operation'])).toEqual([
      'append',
      'append',
      'overwrite',
      'append',
    ]);
    expect(await readText(store, tableHintKey(DATASET))).toBe('2');
    // Nothing but rows in the dataset's folder, both revisions of the restated date.
    expect(await listKeys(store, dropsPrefix(DATASET))).toEqual([
      `trades/session=${MONDAY}/trades.parquet`,
      `trades/session=${MONDAY}/trades.r2.parquet`,
      `trades/session=${TUESDAY}/trades.parquet`,
      `trades/session=${NEXT_MONTH}/trades.parquet`,
    ]);
  });

  it('is found by its hint again after a worker was killed between version and hint', async () => {
    await seal({ date: MONDAY, rows: 100 });
    await commit();
    await store.put(tableHintKey(DATASET), { bytes: Buffer.from('0') });
    expect((await audit()).behind).toEqual(['version-hint.text names version 0, not 1']);
    expect((await commit()).dates).toEqual([]);
    expect(await readText(store, tableHintKey(DATASET))).toBe('1');
  });

  it('is not written again when nothing changed', async () => {
    await seal({ date: MONDAY, rows: 100 });
    await commit();
    const before = await listKeys(store, tablePrefix(DATASET));
    expect(await commit()).toEqual({ version: 1, dates: [], unfit: new Map() });
    expect(await listKeys(store, tablePrefix(DATASET))).toEqual(before);
  });

  it('loses a date that is no longer sealed, and takes it again when it is', async () => {
    await seal({ date: MONDAY, rows: 100 }, { date: TUESDAY, rows: 50 });
    await commit();
    const manifest = (await store.get(manifestKey(DATASET, MONDAY))) ?? new Uint8Array();
    await store.remove(manifestKey(DATASET, MONDAY));
    await recordDays(store);
    expect((await commit()).dates).toEqual([MONDAY]);
    expect(await readByClickHouse()).toEqual({ [TUESDAY]: expected(50, 1) });
    await store.put(manifestKey(DATASET, MONDAY), { bytes: manifest });
    await recordDays(store);
    await commit();
    expect(await readByClickHouse()).toEqual({ [MONDAY]: expected(100, 1), [TUESDAY]: expected(50, 1) });
    const ids = (await snapshots()).map((one) => one['snapshot-id']);
    expect(new Set(ids).size).toBe(4);
  });

  it('keeps a date whose manifest exists although the conditions lack it', async () => {
    await seal({ date: MONDAY, rows: 100 });
    await commit();
    await store.remove(`${recordsPrefix(DATASET)}condition.json`);
    expect((await commit()).dates).toEqual([]);
    expect(await readByClickHouse()).toEqual({ [MONDAY]: expected(100, 1) });
  });

  it('leaves out what it cannot take, and says why', async () => {
    await seal({ date: MONDAY, rows: 100 }, { date: TUESDAY, rows: 50, rowDate: MONDAY });
    const { dates, unfit } = await commit();
    expect(dates).toEqual([MONDAY]);
    expect(unfit.get(TUESDAY)).toContain('its rows have the dates 2026-11-23 to 2026-11-23');
    expect(await readByClickHouse()).toEqual({ [MONDAY]: expected(100, 1) });
  });

  it('refuses to overwrite a file that it names, when the job no longer keeps a table', async () => {
    await seal({ date: MONDAY, rows: 100 });
    await commit();
    await expect(sealDay(store, { date: MONDAY, rows: 90, table: null }, scratch)).rejects.toMatchObject({
      code: 'DATASET_IS_TABLE',
    });
    expect(await readByClickHouse()).toEqual({ [MONDAY]: expected(100, 1) });
  });

  it('takes the dates that were sealed before the job kept a table', async () => {
    await sealDay(store, { date: MONDAY, rows: 100, table: null }, scratch);
    await sealDay(store, { date: MONDAY, rows: 90, table: null }, scratch);
    await seal({ date: MONDAY, rows: 80 });
    await commit();
    expect(await readByClickHouse()).toEqual({ [MONDAY]: expected(80, 3) });
    const { snapshots: count } = await rebuildTable(ledger(), NOW);
    expect(count).toBe(3);
    const [first, second] = await snapshots();
    expect(await readByClickHouse(first?.['snapshot-id'])).toEqual({ [MONDAY]: expected(100, 1) });
    expect(await readByClickHouse(second?.['snapshot-id'])).toEqual({ [MONDAY]: expected(90, 2) });
  });
});

describe('two workers', () => {
  it('both commit, and neither loses a date', async () => {
    const dates = Array.from({ length: 12 }, (_, day) => `2026-10-${String(day + 5).padStart(2, '0')}`);
    await seal(...dates.map((date) => ({ date, rows: 20 })));
    await Promise.all(Array.from({ length: 4 }, commit));
    expect(Object.keys(await readByClickHouse())).toEqual(dates);
    expect(await snapshots()).toHaveLength(12);
  });

  it('a worker that wakes up long after cannot take the table back', async () => {
    await seal({ date: MONDAY, rows: 20 });
    await commit();
    // Meanwhile others commit so often that its number is free again.
    const others = async () => {
      await seal({ date: MONDAY, rows: 21 });
      await commit();
      const log = openTableLog(store, DATASET);
      const { value } = await log.read();
      if (!value) throw new Error('there is no table');
      for (let more = 1; more <= KEPT_VERSIONS; more += 1) await log.replace(value);
    };
    const asleep = faultStore(store, at(/^putIfAbsent .*\.metadata\.json$/, wait(others), 1));
    await seal({ date: TUESDAY, rows: 50 });
    await commitTable(ledger(asleep), NOW);
    expect(await readByClickHouse()).toEqual({
      [MONDAY]: expected(21, 2),
      [TUESDAY]: expected(50, 1),
    });
    expect((await openTableLog(store, DATASET).listVersions()).length).toBeLessThanOrEqual(KEPT_VERSIONS);
    expect((await auditTable(ledger(), new Map())).findings).toEqual([]);
  });
});

describe('verify and rebuild', () => {
  it('find nothing in a whole table, and name what it lacks', async () => {
    await seal({ date: MONDAY, rows: 100 });
    expect((await audit()).behind).toEqual(['there is no Iceberg table yet']);
    await commit();
    expect(await audit()).toEqual({ findings: [], behind: [] });
    await seal({ date: MONDAY, rows: 90 });
    expect((await audit()).behind[0]).toContain(`lacks revision 2 of ${MONDAY}`);
  });

  it('find each damage, and make the same table again', async () => {
    await seal({ date: MONDAY, rows: 100 }, { date: TUESDAY, rows: 50, hasVenue: true });
    await commit();
    await seal({ date: MONDAY, rows: 90 });
    await commit();
    const whole = await readTable(store, DATASET);
    const newestList = async () => keyOf(store, (await snapshots()).at(-1)?.['manifest-list'] ?? '');
    for (const spoil of [
      async () => await store.put(tableVersionKey(DATASET, whole?.version ?? 0), { bytes: Buffer.from('{') }),
      async () => await store.remove(await newestList()),
      async () => await store.put(await newestList(), { bytes: Buffer.from('no avro') }),
      async () => await rm(join(store.url, tablePrefix(DATASET)), { recursive: true }),
    ]) {
      await spoil();
      const { findings, behind } = await audit();
      expect([...findings, ...behind].join()).toMatch(/rebuild|no Iceberg table/);
      const rebuilt = await rebuildTable(ledger(), NOW);
      expect(rebuilt).toMatchObject({ snapshots: 3, left: new Map() });
      expect(await audit()).toEqual({ findings: [], behind: [] });
      const again = await readTable(store, DATASET);
      expect(again?.metadata['table-uuid']).toBe(whole?.metadata['table-uuid']);
      expect(again && listTableDates(again.metadata)).toEqual(whole && listTableDates(whole.metadata));
      expect(new Set((await snapshots()).map((one) => one['snapshot-id']))).toEqual(
        new Set(whole?.metadata.snapshots.map((one) => one['snapshot-id'])),
      );
      expect(await readByClickHouse()).toEqual({ [MONDAY]: expected(90, 2), [TUESDAY]: expected(50, 1) });
    }
  });
});
