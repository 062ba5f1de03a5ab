/**
 * Two workers seal and commit at the same time, and each is killed in the middle of a commit, again and again. Afterwards
 * every snapshot is whole, and the table is that of the ledger, committed or rebuilt.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { asyncBufferFromFile, parquetMetadataAsync } from 'hyparquet';
import { expect, it } from 'vitest';
import { openEmbeddedEngine } from '../../../src/engine/embedded.ts';
import { auditTable } from '../../../src/ledger/iceberg/audit-table.ts';
import { commitTable } from '../../../src/ledger/iceberg/commit-table.ts';
import { rebuildTable } from '../../../src/ledger/iceberg/rebuild-table.ts';
import { keyOf, readTable } from '../../../src/ledger/iceberg/table-log.ts';
import { listTableDates, type TableMetadata } from '../../../src/ledger/iceberg/table-metadata.ts';
import { isLive, readManifestList, readTableManifest } from '../../../src/ledger/iceberg/table-snapshots.ts';
import { dropsPrefix, tablePrefix } from '../../../src/ledger/layout.ts';
import { openDirectoryStore } from '../../../src/store/directory.ts';
import type { Store } from '../../../src/store/store.ts';
import { makeFolder } from '../../support/flowdrop.ts';
import { chooseSeed, chooseSize } from '../../support/nightly.ts';
import { createRandom } from '../../support/random.ts';
import { DATASET, recordDays } from '../../support/table-days.ts';

const COMMITS = chooseSize(16, 300);
const SEED = chooseSeed(62_017);
const WORKER = new URL('table-worker.ts', import.meta.url).pathname;
/** A life begins at most this many commits. */
const MAX_BEGUN = 12;
/** Snapshots that are read by ClickHouse too: one takes some ten milliseconds. */
const MAX_READ = 60;

/** What happened to the workers. */
class Tally {
  begun = 0;
  done = 0;
  kills = 0;
  /** Kills of a commit that was begun and did not end. */
  inCommit = 0;
  /** Of the last commits that ended. */
  #took: number[] = [];

  noteDone(tookMs: number): void {
    this.done += 1;
    this.#took = [...this.#took, tookMs].slice(-20);
  }

  medianMs(): number {
    return [...this.#took].sort((a, b) => a - b)[this.#took.length >> 1] ?? 30;
  }
}

/** Starts a worker and kills it at a random moment of its n-th commit, n being random too. */
async function liveOnce(words: readonly string[], random: () => number, tally: Tally): Promise<void> {
  const child = spawn(process.execPath, ['--import', 'tsx', ...words], { stdio: ['ignore', 'pipe', 'inherit'] });
  const gone = once(child, 'close');
  const last = 1 + Math.floor(random() * MAX_BEGUN);
  let begun = 0;
  let beganAtMs = 0;
  let isIn = false;
  for await (const line of createInterface({ input: child.stdout })) {
    isIn = line === 'commit';
    if (!isIn) {
      tally.noteDone(performance.now() - beganAtMs);
      continue;
    }
    tally.begun += 1;
    begun += 1;
    beganAtMs = performance.now();
    if (begun === last) setTimeout(() => child.kill('SIGKILL'), random() * 1.2 * tally.medianMs());
  }
  const [code, signal] = await gone;
  expect(signal, `the worker ended by itself with ${code}`).toBe('SIGKILL');
  tally.kills += 1;
  if (isIn) tally.inCommit += 1;
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

it('workers that are killed in their commits leave every snapshot whole, and the table equal to the ledger', async () => {
  const { path, remove } = await makeFolder();
  const root = join(path, 'store');
  const store = await openDirectoryStore(root);
  const tally = new Tally();
  const work = async (worker: number) => {
    const random = createRandom(SEED + worker);
    for (let life = 1; tally.done < COMMITS; life += 1) {
      const seed = String(SEED + worker * 100_000 + life);
      await liveOnce([WORKER, root, join(path, `scratch-${worker}.parquet`), seed], random, tally);
    }
  };
  await Promise.all([work(1), work(2)]);
  const manifests = await recordDays(store);
  await commitTable(store, DATASET, Date.now());
  const byDate = new Map(manifests.map((manifest) => [manifest.date, manifest]));
  expect(await auditTable(store, DATASET, byDate), `seed ${SEED}`).toEqual({ findings: [], behind: [] });
  const committed = await readTable(store, DATASET);
  if (committed === undefined) throw new Error('there is no table');
  const { snapshots } = committed.metadata;
  console.log(
    `seed ${SEED}: ${tally.begun} commits begun, ${tally.done} ended, ${tally.kills} kills, ${tally.inCommit} of them in a commit; ${snapshots.length} snapshots, ${byDate.size} dates`,
  );
  expect(tally.inCommit).toBeGreaterThan(tally.kills / 4);
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
    const { left } = await rebuildTable(store, DATASET, Date.now());
    expect([...left]).toEqual([]);
    expect(await auditTable(store, DATASET, byDate)).toEqual({ findings: [], behind: [] });
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
