/**
 * The archive for a service: many statements at a time, each in an engine process of a pool, while drops are sealed,
 * restated and removed. Invariant: an answer is computed from one set of sealed revisions. Nothing is locked: each
 * statement runs over the dates that were sealed a moment ago, and counts only if these are still the same afterwards;
 * otherwise it runs again. The types are the API's, and the statement is the guard's: this module admits nothing.
 */
import { elapsedMs, systemClock } from '../core/clock.ts';
import { Fault } from '../core/errors.ts';
import { type EngineSettings, formatSettings } from '../engine/literal.ts';
import type { PooledEngine } from '../engine/pool.ts';
import type { Manifest } from '../ledger/manifest.ts';
import type { Store, StoreAccess } from '../store/store.ts';
import { holdsTrades } from './archive-column.ts';
import { openStoreFiles, type StoreFiles } from './drop-files.ts';
import { READ_SETTINGS } from './output-format.ts';
import { type SealedSet, SealedWatch } from './sealed.ts';
import { StatementViews } from './statement-views.ts';
import { listTables, OpenTable } from './tables.ts';

interface LiveArchiveOptions {
  readonly store: Store;
  readonly dataset: string;
  /** How the engine reaches the objects; read again before temporary credentials expire. */
  readAccess(): Promise<StoreAccess>;
  /** Absolute path of a folder that only this archive uses. */
  readonly folder: string;
}

/** A statement that the guard admitted. */
interface LiveStatement {
  readonly text: string;
  readonly settings: EngineSettings;
  /** ClickHouse's name of the format of its rows. */
  readonly format: string;
}

/** One run of a statement, which counts only if its dates are the same afterwards. */
interface Attempt {
  readonly sealed: SealedSet;
  /** Dates that it has read so far, or is about to read. */
  dates: readonly string[];
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
export async function openLiveArchive(options: LiveArchiveOptions): Promise<LiveArchive> {
  const { store, dataset } = options;
  const watch = new SealedWatch(store, dataset);
  const drops = await watch.listSome();
  const newest = await drops.readManifests(drops.dates.slice(-1));
  if (!newest.every(holdsTrades)) {
    throw new Fault('NO_TRADES', `the drops of ${dataset} are not single trades, so they are not the API's tables`, {
      kind: 'usage',
      hint: 'Name a dataset of single trades. `flowdrop query` reads every dataset by its name.',
    });
  }
  const archive = new LiveArchive(options, watch, newest);
  await archive.openFiles();
  return archive;
}

class LiveArchive {
  readonly #options: LiveArchiveOptions;
  readonly #watch: SealedWatch;
  readonly #views = new StatementViews();
  /** The newest manifest seen: its columns are those of an archive that has lost all dates. */
  #newest: readonly Manifest[];
  #files: { readonly files: StoreFiles; readonly isTemporary: boolean; readonly openedMs: number } | undefined;

  constructor(options: LiveArchiveOptions, watch: SealedWatch, newest: readonly Manifest[]) {
    this.#options = options;
    this.#watch = watch;
    this.#newest = newest;
  }

  get databases(): StatementViews['databases'] {
    return this.#views.databases;
  }

  /** The sealed dates of a moment ago, ascending. @throws StoreFault */
  async readDates(): Promise<readonly string[]> {
    return (await this.#watch.current()).dates;
  }

  /**
   * Runs a statement to its end; when it resolves, the query has succeeded over one set of sealed revisions.
   * @throws EngineFault; Fault `DROP_DAMAGED`, `MANIFEST_INVALID`, `ARCHIVE_CHANGING`, StoreFault
   */
  async stream(engine: PooledEngine, statement: LiveStatement): Promise<AsyncIterable<Uint8Array>> {
    const untilMs = elapsedMs(systemClock) + RETRY_MS;
    for (;;) {
      const attempt: Attempt = { sealed: await this.#watch.current(), dates: [] };
      try {
        await this.#show(engine, statement.text, attempt);
        const settings = formatSettings(statement.settings);
        const pieces = await engine.stream(`${statement.text} ${settings}`, statement.format);
        if (await this.#watch.isUnchanged(attempt.sealed, attempt.dates)) return pieces;
      } catch (error) {
        // A file that was replaced while it was read looks damaged.
        if (await this.#watch.isUnchanged(attempt.sealed, attempt.dates)) throw error;
      }
      if (elapsedMs(systemClock) > untilMs) {
        throw new Fault('ARCHIVE_CHANGING', `dates of the query kept being restated: ${attempt.dates.join(', ')}`);
      }
    }
  }

  /** The files as the engine reads them, with credentials that are valid for a while. */
  async openFiles(): Promise<StoreFiles> {
    const { folder } = this.#options;
    const known = this.#files;
    const isGood = known && (!known.isTemporary || elapsedMs(systemClock) - known.openedMs < RENEW_ACCESS_MS);
    if (isGood) return known.files;
    const access = await this.#options.readAccess();
    const files = await openStoreFiles(access, folder);
    const isTemporary = access.kind === 's3' && access.sessionToken !== undefined;
    this.#files = { files, isTemporary, openedMs: elapsedMs(systemClock) };
    return files;
  }

  /** Creates views of the tables that the statement reads, with the drops that it can touch. */
  async #show(engine: PooledEngine, text: string, attempt: Attempt): Promise<void> {
    const note = (dates: readonly string[]) => {
      attempt.dates = [...attempt.dates, ...dates];
    };
    const tables = await this.#openTables(attempt);
    const reads = await this.#views.resolve(engine, text, tables, note);
    for (const table of tables) await table.narrow(reads, note);
    await this.#views.show(engine, text, tables);
    attempt.dates = [...new Set(tables.flatMap(({ touched }) => touched.map(({ date }) => date)))];
  }

  /** The API's tables, with the columns of the newest date. */
  async #openTables(attempt: Attempt): Promise<readonly OpenTable[]> {
    const drops = attempt.sealed;
    attempt.dates = drops.dates.slice(-1);
    const newest = await drops.readManifests(attempt.dates);
    if (newest.length > 0) this.#newest = newest;
    const context = { files: await this.openFiles(), types: 'api' } as const;
    return listTables([], this.#options.dataset).map((table) => new OpenTable(table, drops, this.#newest, context));
  }
}
