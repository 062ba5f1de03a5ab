/**
 * The archive for a service: many statements at a time, each in an engine process of a pool, while drops are sealed,
 * restated and removed. Invariant: an answer is computed from one set of sealed revisions. Nothing is locked: each
 * statement runs over the dates that were sealed a moment ago, and counts only if these are still the same afterwards;
 * otherwise it runs again. The types are the API's, and the statement is the guard's: this module admits nothing.
 */
import { randomBytes } from 'node:crypto';
import { TABLES } from '../api-contract/published-limits.ts';
import { type Clock, elapsedMs } from '../core/clock.ts';
import { Fault } from '../core/errors.ts';
import { formatSettings, quoteIdentifier } from '../engine/literal.ts';
import type { PooledEngine } from '../engine/pool.ts';
import type { Manifest } from '../ledger/manifest.ts';
import type { StoreAccess } from '../store/access.ts';
import type { Store } from '../store/store.ts';
import { assertTrades, emptyArchive } from './archive.ts';
import { openDropFiles, type SealedFiles } from './drop-files.ts';
import type { ReadManifest } from './drops.ts';
import { READ_SETTINGS } from './output-format.ts';
import type { TableRead } from './reads.ts';
import { readAll, resolveReads } from './resolve-reads.ts';
import { describeEmptyTable, describeView, isLatestOnly, listColumns } from './sealed-tables.ts';
import { type SealedSet, SealedWatch } from './sealed-watch.ts';
import { isBefore, unite } from './time-bounds.ts';

interface LiveArchiveOptions {
  readonly store: Store;
  readonly dataset: string;
  readonly readManifest: ReadManifest;
  /** How the engine reaches the objects; read again before temporary credentials expire. */
  readAccess(): Promise<StoreAccess>;
  /** Absolute path of a folder that only this archive uses. */
  readonly folder: string;
  readonly clock: Clock;
}

/** A statement that the guard admitted. */
interface LiveStatement {
  readonly text: string;
  readonly settings: Readonly<Record<string, string | number>>;
  /** ClickHouse's name of the format of its rows. */
  readonly format: string;
}

/** One run of a statement, which counts only if its dates are the same afterwards. */
interface Attempt {
  readonly sealed: SealedSet;
  /** Dates that it has read so far, or is about to read. */
  dates: readonly string[];
}

/** Length of `YYYY-MM-DD HH:MM:SS`. */
const SECONDS = 19;
/** Temporary credentials live for an hour or more. */
const RENEW_ACCESS_MS = 300_000;
/** A statement whose dates change all the time is given up after this long; a service has given up soon after. */
const RETRY_MS = 25_000;

/**
 * Settings of every statement. The caches know a file by its name and the second of its change, which a restatement
 * within that second would not alter.
 */
export const LIVE_SETTINGS: Readonly<Record<string, string | number>> = {
  ...READ_SETTINGS,
  use_cache_for_count_from_files: 0,
  use_parquet_metadata_cache: 0,
  use_query_condition_cache: 0,
  use_query_cache: 0,
};

/** @throws Fault `ARCHIVE_EMPTY`, `NO_TRADES`, `ARCHIVE_LOCATION_INVALID` (usage), `DROP_DAMAGED`, StoreFault */
export async function openLiveArchive(options: LiveArchiveOptions): Promise<LiveArchive> {
  const watch = new SealedWatch(options);
  const sealed = await watch.current();
  if (sealed.dates.length === 0) throw emptyArchive(options.store, options.dataset);
  const newest = await watch.readManifests(sealed, sealed.dates.slice(-1));
  assertTrades(newest);
  const archive = new LiveArchive(options, watch, newest);
  await archive.openFiles();
  return archive;
}

export class LiveArchive {
  /** Databases with unguessable names: one to resolve statements in, one to run them in. */
  readonly databases: readonly [string, string];
  readonly #options: LiveArchiveOptions;
  readonly #watch: SealedWatch;
  /** The newest manifest seen: its columns are those of an archive that has lost all dates. */
  #newest: readonly Manifest[];
  #files: { readonly files: SealedFiles; readonly isTemporary: boolean; readonly openedMs: number } | undefined;
  /** Engine processes that have the databases, with the columns of their empty tables. */
  readonly #prepared = new WeakMap<object, string>();

  constructor(options: LiveArchiveOptions, watch: SealedWatch, newest: readonly Manifest[]) {
    this.#options = options;
    this.#watch = watch;
    this.#newest = newest;
    const suffix = () => randomBytes(12).toString('hex');
    this.databases = [`resolve_${suffix()}`, `archive_${suffix()}`];
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
    const { clock } = this.#options;
    const untilMs = elapsedMs(clock) + RETRY_MS;
    await this.prepare(engine);
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
      if (elapsedMs(clock) > untilMs) {
        throw new Fault(
          'ARCHIVE_CHANGING',
          `dates of the query were restated all the time: ${attempt.dates.join(', ')}`,
        );
      }
    }
  }

  /** Creates the databases in an engine process, once. @throws EngineFault */
  async prepare(engine: PooledEngine): Promise<void> {
    if (this.#prepared.has(engine.state)) return;
    // In memory, because the views of an S3 store contain its credentials.
    for (const name of this.databases) await engine.command(`CREATE DATABASE ${name} ENGINE = Memory`);
    this.#prepared.set(engine.state, '');
  }

  /** The files as the engine reads them, with credentials that are valid for a while. */
  async openFiles(): Promise<SealedFiles> {
    const { clock, dataset, folder } = this.#options;
    const known = this.#files;
    const isGood = known && (!known.isTemporary || elapsedMs(clock) - known.openedMs < RENEW_ACCESS_MS);
    if (isGood) return known.files;
    const access = await this.#options.readAccess();
    const files = await openDropFiles(access, dataset, folder);
    const isTemporary = access.kind === 's3' && access.sessionToken !== undefined;
    this.#files = { files, isTemporary, openedMs: elapsedMs(clock) };
    return files;
  }

  /** Creates views of the tables that the statement reads, with the drops that it can touch. */
  async #show(engine: PooledEngine, text: string, attempt: Attempt): Promise<void> {
    const { reads, described } = await this.#resolve(engine, text, attempt);
    const files = await this.openFiles();
    const shown = new Map<string, readonly Manifest[]>();
    for (const table of TABLES) {
      const own = reads.filter((read) => read.table === table);
      if (own.length === 0) continue;
      const dates = isLatestOnly(table) ? attempt.sealed.dates.slice(-1) : attempt.sealed.dates;
      const manifests = await this.#readManifests(
        attempt,
        dates.filter((date) => own.some((read) => read.mayTouch(date))),
      );
      shown.set(
        table,
        manifests.filter((manifest) => own.some((read) => mayTouchTimes(read, manifest))),
      );
    }
    attempt.dates = [...new Set([...shown.values()].flat().map(({ date }) => date))];
    const columns = listColumns([...[...shown.values()].flat(), ...described]);
    await engine.command(`USE ${this.databases[1]}`);
    for (const table of TABLES) {
      await engine.command(`DROP TABLE IF EXISTS ${quoteIdentifier(table)}`);
      const own = shown.get(table);
      if (own === undefined) continue;
      const time = reads
        .filter((read) => read.table === table)
        .map((read) => read.time)
        .reduce(unite);
      await engine.command(describeView(table, files, columns, own, time));
    }
  }

  /**
   * Finds what the statement reads. The newest manifest lists the columns beyond the contract. If the statement does
   * not resolve with these, it may name a column of older dates, so all manifests are read.
   */
  async #resolve(engine: PooledEngine, text: string, attempt: Attempt) {
    const { dates } = attempt.sealed;
    const newest = await this.#readManifests(attempt, dates.slice(-1));
    if (newest.length > 0) this.#newest = newest;
    const reads = await this.#resolveWith(engine, text, this.#newest);
    if (reads !== undefined) return { reads, described: this.#newest };
    const all = [...this.#newest, ...(await this.#readManifests(attempt, dates))];
    return { reads: (await this.#resolveWith(engine, text, all)) ?? readAll(TABLES), described: all };
  }

  async #readManifests(attempt: Attempt, dates: readonly string[]): Promise<readonly Manifest[]> {
    attempt.dates = [...attempt.dates, ...dates];
    return await this.#watch.readManifests(attempt.sealed, dates);
  }

  async #resolveWith(
    engine: PooledEngine,
    text: string,
    manifests: readonly Manifest[],
  ): Promise<readonly TableRead[] | undefined> {
    await engine.command(`USE ${this.databases[0]}`);
    const tables = TABLES.map((table) => describeEmptyTable(table, manifests));
    const columns = tables.join(';\n');
    if (this.#prepared.get(engine.state) !== columns) {
      for (const [k, table] of TABLES.entries()) {
        await engine.command(`DROP TABLE IF EXISTS ${quoteIdentifier(table)}`);
        await engine.command(tables[k] ?? '');
      }
      this.#prepared.set(engine.state, columns);
    }
    return await resolveReads(engine, text, TABLES);
  }
}

/**
 * Whether rows of the drop can be in the answer, by the first and last time of its manifest. The text of `time` has
 * whole seconds.
 */
function mayTouchTimes({ mayTouch, time }: TableRead, { date, min_time, max_time }: Manifest): boolean {
  const [first, last] = [min_time?.slice(0, SECONDS), max_time?.slice(0, SECONDS)];
  const isTooEarly = time.from !== undefined && last !== undefined && isBefore(last, time.from);
  const isTooLate = time.to !== undefined && first !== undefined && isBefore(time.to, first);
  return mayTouch(date) && !isTooEarly && !isTooLate;
}
