/**
 * The archive for a service: many statements at a time, each in an engine process of a pool, while drops are sealed,
 * restated and removed. Invariant: an answer is computed from one set of sealed revisions. Nothing is locked: each
 * statement runs over the dates that were sealed a moment ago, and counts only if these are still the same afterwards;
 * otherwise it runs again. The types are the API's, and the statement is the guard's: this module admits nothing.
 */
import { elapsedMs, systemClock } from '../core/clock.ts';
import { Fault } from '../core/errors.ts';
import type { EngineSettings } from '../engine/literal.ts';
import type { PooledEngine } from '../engine/pool.ts';
import type { Store, StoreAccess } from '../store/store.ts';
import { openStoreFiles } from './drop-files.ts';
import { READ_SETTINGS } from './output-format.ts';
import { watchSealed } from './sealed.ts';
import { StatementViews } from './statement-views.ts';
import { assertTrades, listTables, OpenTable } from './tables.ts';

interface LiveArchiveOptions {
  readonly store: Store;
  readonly dataset: string;
  /** How the engine reaches the objects; read again before temporary credentials expire. */
  readAccess(): Promise<StoreAccess>;
  /** Absolute path of a folder that only this archive uses. */
  readonly folder: string;
}

/** Temporary credentials live for an hour or more. */
const RENEW_ACCESS_MS = 300_000;
/** A statement whose dates change all the time is given up after this long; a service has given up soon after. */
const RETRY_MS = 25_000;

/**
 * Settings of every statement. The caches know a file by its name and the second of its change, which a restatement
 * within that second would not alter.
 */
export const LIVE_SETTINGS: EngineSettings = {
  ...READ_SETTINGS,
  use_cache_for_count_from_files: 0,
  use_parquet_metadata_cache: 0,
  use_query_condition_cache: 0,
  use_query_cache: 0,
};

/** @throws Fault `ARCHIVE_EMPTY`; `NO_TRADES`, `ARCHIVE_LOCATION_INVALID` (usage); `DROP_DAMAGED`, StoreFault */
export async function openLiveArchive({ store, dataset, readAccess, folder }: LiveArchiveOptions) {
  const watch = watchSealed(store, dataset);
  const views = new StatementViews();
  const known = listTables([], dataset);
  const first = await watch.listSome();
  /** The newest manifest seen: its columns are those of an archive that has lost all dates. */
  let newest = await first.readManifests(first.dates.slice(-1));
  assertTrades(newest, 'Name a dataset of single trades. `flowdrop query` reads every dataset by its name.');
  let opened = await openFiles();

  async function openFiles() {
    const access = await readAccess();
    const isTemporary = access.kind === 's3' && access.sessionToken !== undefined;
    const untilMs = isTemporary ? elapsedMs(systemClock) + RENEW_ACCESS_MS : Number.POSITIVE_INFINITY;
    return { files: await openStoreFiles(access, folder), untilMs };
  }

  /**
   * Runs a statement that the guard admitted to its end; when it resolves, the query has succeeded over one set of sealed
   * revisions.
   * @throws EngineFault; Fault `DROP_DAMAGED`, `MANIFEST_INVALID`, `ARCHIVE_CHANGING`, StoreFault
   */
  async function stream(
    engine: PooledEngine,
    text: string,
    run: () => Promise<AsyncIterable<Uint8Array>>,
  ): Promise<AsyncIterable<Uint8Array>> {
    const untilMs = elapsedMs(systemClock) + RETRY_MS;
    for (;;) {
      const sealed = await watch.current();
      /** Dates that this run has read so far, or is about to read. */
      let dates = sealed.dates.slice(-1);
      const note = (more: readonly string[]) => {
        dates = [...dates, ...more];
      };
      try {
        const last = await sealed.readManifests(dates);
        if (last.length > 0) newest = last;
        if (elapsedMs(systemClock) >= opened.untilMs) opened = await openFiles();
        const context = { files: opened.files, types: 'api' } as const;
        const tables = known.map((table) => new OpenTable(table, sealed, newest, context));
        const reads = await views.resolve(engine, text, tables, note);
        for (const table of tables) await table.narrow(reads, note);
        await views.show(engine, text, tables);
        dates = [...new Set(tables.flatMap(({ touched }) => touched.map(({ date }) => date)))];
        const pieces = await run();
        if (await watch.isUnchanged(sealed, dates)) return pieces;
      } catch (error) {
        // A file that was replaced while it was read looks damaged.
        if (await watch.isUnchanged(sealed, dates)) throw error;
      }
      if (elapsedMs(systemClock) > untilMs)
        throw new Fault('ARCHIVE_CHANGING', `dates of the query kept being restated: ${dates.join(', ')}`);
    }
  }

  /** The sealed dates of a moment ago, ascending. @throws StoreFault */
  const readDates = async () => (await watch.current()).dates;
  return { databases: views.databases, readDates, stream };
}
