/**
 * The archive: the API's SQL over all sealed drops of a dataset. Invariant: a statement runs only as the guard admitted
 * it, in a separate process, over views that show only whole, sealed dates. A date is left out only if the resolved
 * statement cannot touch it. There is no lookback, no row limit and no scan limit. The caller owns the folder.
 */

import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import type { CalendarOverride } from '../calendar/session.ts';
import { Fault } from '../core/errors.ts';
import { quoteIdentifier } from '../engine/literal.ts';
import type { EnginePool, PooledEngine } from '../engine/pool.ts';
import type { WorkerPoolOptions } from '../engine/worker-pool.ts';
import { listTokens, type SqlToken } from '../guard/canonical-text.ts';
import { type Guard, openGuard } from '../guard/guard.ts';
import { openParser } from '../guard/parser.ts';
import type { Manifest } from '../ledger/manifest.ts';
import type { StoreAccess } from '../store/access.ts';
import type { Store } from '../store/store.ts';
import { type ReadCost, readCost, subtractCost } from './cost.ts';
import { type Coverage, describeCoverage } from './coverage.ts';
import { openDropFiles, type SealedFiles } from './drop-files.ts';
import { type DropList, listDrops, type ReadManifest, readManifests } from './drops.ts';
import { describeStatement, type OutputFormat } from './output-format.ts';
import { describeQueryFailure } from './query-failure.ts';
import type { TableRead } from './reads.ts';
import { readAll, resolveReads } from './resolve-reads.ts';
import { describeEmptyTable, describeView, isLatestOnly, listColumns, listTables } from './sealed-tables.ts';
import { unite } from './time-bounds.ts';

interface ArchiveOptions {
  readonly store: Store;
  /** How the engine reaches the same objects. */
  readonly access: StoreAccess;
  readonly dataset: string;
  readonly readManifest: ReadManifest;
  /** The last session that should be sealed by now. */
  readonly lastSession: string;
  /** Calendar overrides; absent: none. */
  readonly calendar?: CalendarOverride | undefined;
  /** Absolute path of an empty folder that only this archive uses. */
  readonly folder: string;
  /** Memory limit of one statement, bytes. */
  readonly maxMemoryBytes: number;
  readonly signal: AbortSignal;
  openWorkers(options: Omit<WorkerPoolOptions, 'command'>): Promise<EnginePool>;
}

interface ArchiveQuery {
  readonly sql: string;
  readonly format: OutputFormat;
  /** File for the answer; it must not exist yet. */
  readonly path: string;
}

export interface ArchiveAnswer {
  readonly coverage: Coverage;
  readonly cost: ReadCost;
}

/** The tables that a statement reads, and the manifests whose columns were used to resolve it. */
interface Resolved {
  readonly reads: readonly TableRead[];
  readonly described: readonly Manifest[];
}

/** Only small results, such as EXPLAIN output, return as messages; answers go to a file. */
const MAX_MESSAGE_BYTES = 64_000_000;
const OWNER = 'query';

/** @throws Fault `ARCHIVE_EMPTY`, `ARCHIVE_LOCATION_INVALID` (usage), StoreFault, EngineFault */
export async function openArchive(options: ArchiveOptions): Promise<Archive> {
  const { store, dataset, signal } = options;
  const drops = await listDrops(store, dataset);
  if (drops.dates.length === 0) throw emptyArchive(store, dataset);
  const files = await openDropFiles(options.access, dataset, options.folder);
  const pool = await options.openWorkers({
    folder: join(options.folder, 'engine'),
    size: 1,
    maxWaiting: 1,
    maxResultBytes: MAX_MESSAGE_BYTES,
  });
  try {
    const names = {
      resolve: `resolve_${randomBytes(12).toString('hex')}`,
      visible: `archive_${randomBytes(12).toString('hex')}`,
    };
    await pool.use({ owner: OWNER, signal }, async (engine) => {
      // In memory, because the views of an S3 store contain its credentials.
      for (const name of Object.values(names)) await engine.command(`CREATE DATABASE ${name} ENGINE = Memory`);
    });
    const guard = await openGuard(openParser(pool), Object.values(names), [], listTables(options.dataset));
    return new Archive(options, { drops, files, pool, guard, names });
  } catch (error) {
    await pool.close();
    throw error;
  }
}

export function emptyArchive(store: Store, dataset: string): Fault {
  return new Fault('ARCHIVE_EMPTY', `nothing is sealed in ${store.url}/${dataset}`, {
    hint: 'Run the job first, or check the names of store and dataset; `flowdrop status` shows what is sealed.',
  });
}

interface ArchiveParts {
  readonly drops: DropList;
  readonly files: SealedFiles;
  readonly pool: EnginePool;
  readonly guard: Guard;
  /** Databases with unguessable names: one to resolve statements in, one to run them in. */
  readonly names: { readonly resolve: string; readonly visible: string };
}

export class Archive {
  readonly #options: ArchiveOptions;
  readonly #parts: ArchiveParts;
  readonly #manifests = new Map<string, Manifest>();
  readonly #tables: readonly string[];

  constructor(options: ArchiveOptions, parts: ArchiveParts) {
    this.#options = options;
    this.#parts = parts;
    this.#tables = listTables(options.dataset);
  }

  /** Sealed dates of the dataset, ascending. */
  get dates(): readonly string[] {
    return this.#parts.drops.dates;
  }

  /**
   * Writes the answer of one statement to a file.
   * @throws Fault `INVALID_SQL`, `INVALID_QUERY`, `NO_TRADES` (usage), `QUERY_TOO_BROAD`, `DROP_DAMAGED`,
   *   `MANIFEST_INVALID`, `ARCHIVE_UNREADABLE`, `OUT_FAILED`, `ENGINE_FAILED`, `INTERRUPTED`
   */
  async query({ sql, format, path }: ArchiveQuery): Promise<ArchiveAnswer> {
    const { pool, guard, files } = this.#parts;
    const { signal } = this.#options;
    try {
      const admitted = await guard.admit(sql, { owner: OWNER, signal });
      return await pool.use({ owner: OWNER, signal }, async (engine) => {
        const coverage = await this.#show(engine, admitted, await this.#resolve(engine, admitted));
        const before = await readCost(engine);
        await engine.command(describeStatement(admitted, format, path, this.#options.maxMemoryBytes));
        return { coverage, cost: subtractCost(await readCost(engine), before) };
      });
    } catch (error) {
      if (signal.aborted) {
        throw new Fault('INTERRUPTED', 'stopped before it was finished', {
          kind: 'interrupted',
          hint: 'Nothing was written; start the same command again.',
        });
      }
      throw describeQueryFailure(error, { sql, secrets: files.secrets });
    }
  }

  /** Ends the engine's process, even in the middle of a statement. */
  async close(): Promise<void> {
    await this.#parts.pool.close();
  }

  /**
   * Finds what the statement reads. The newest manifest lists the columns beyond the contract. If the statement does
   * not resolve with these, it may name a column of older dates, so all manifests are read.
   */
  async #resolve(engine: PooledEngine, admitted: string): Promise<Resolved> {
    const newest = await this.#readManifests(this.dates.slice(-1));
    assertTrades(newest);
    const reads = await this.#resolveWith(engine, admitted, newest);
    if (reads !== undefined) return { reads, described: newest };
    const all = await this.#readManifests(this.dates);
    return { reads: (await this.#resolveWith(engine, admitted, all)) ?? readAll(this.#tables), described: all };
  }

  async #resolveWith(engine: PooledEngine, admitted: string, manifests: readonly Manifest[]) {
    await engine.command(`USE ${this.#parts.names.resolve}`);
    for (const table of this.#tables) {
      await engine.command(`DROP TABLE IF EXISTS ${quoteIdentifier(table)}`);
      await engine.command(describeEmptyTable(table, manifests));
    }
    return await resolveReads(engine, admitted, this.#tables);
  }

  /** Creates views of the tables that the statement reads, with the dates that it can touch. */
  async #show(engine: PooledEngine, admitted: string, { reads, described }: Resolved): Promise<Coverage> {
    const { files, names, drops } = this.#parts;
    const touched = new Map<string, readonly Manifest[]>();
    for (const table of this.#tables) {
      const own = reads.filter((read) => read.table === table);
      if (own.length > 0) touched.set(table, await this.#readManifests(this.#listDates(table, own)));
    }
    const byDate = new Map([...touched.values()].flat().map((manifest) => [manifest.date, manifest]));
    const manifests = [...byDate.values()].sort((a, b) => (a.date < b.date ? -1 : 1));
    const columns = listColumns([...manifests, ...described]);
    await engine.command(`USE ${names.visible}`);
    for (const table of this.#tables) {
      await engine.command(`DROP TABLE IF EXISTS ${quoteIdentifier(table)}`);
      const own = touched.get(table);
      if (own === undefined) continue;
      const time = reads
        .filter((read) => read.table === table)
        .map((read) => read.time)
        .reduce(unite);
      await engine.command(describeView(table, files, columns, own, time));
    }
    return describeCoverage({
      sealed: drops.dates,
      manifests,
      lastSession: this.#options.lastSession,
      calendar: this.#options.calendar,
      columns: columns.map(({ name }) => name).filter((name) => isNamed(admitted, name)),
      mayTouch: (date) => reads.some((read) => !isLatestOnly(read.table) && mayTouch(read, date)),
    });
  }

  #listDates(table: string, reads: readonly TableRead[]): readonly string[] {
    const dates = isLatestOnly(table) ? this.dates.slice(-1) : this.dates;
    return dates.filter((date) => reads.some((read) => read.mayTouch(date)));
  }

  async #readManifests(dates: readonly string[]): Promise<readonly Manifest[]> {
    const unread = dates.filter((date) => !this.#manifests.has(date));
    for (const manifest of await readManifests(unread, this.#parts.drops, this.#options.readManifest)) {
      this.#manifests.set(manifest.date, manifest);
    }
    return dates.flatMap((date) => this.#manifests.get(date) ?? []);
  }
}

/** Snapshots and aggregates have dates and manifests too, but contain no single trades. */
export function assertTrades(manifests: readonly Manifest[]): void {
  for (const { dataset, schema } of manifests) {
    const lacking = ['id', 'time'].filter((name) => !schema.some((column) => column.name === name));
    if (lacking.length === 0) continue;
    throw new Fault(
      'NO_TRADES',
      `the drops of ${dataset} are not single trades: they have no ${lacking.join(' and no ')}`,
      {
        kind: 'usage',
        hint: 'Name a dataset of single trades; these drops are Parquet files that any reader opens.',
      },
    );
  }
}

/** Whether rows of an unsealed date could be in the answer. All times of a date lie on that date. */
function mayTouch(read: TableRead, date: string): boolean {
  const { from, to } = read.time;
  return read.mayTouch(date) && !(from !== undefined && `${date} 24` < from) && !(to !== undefined && to < date);
}

/**
 * Whether a statement may read a column, judged by its tokens: it names the column or selects all columns. This decides
 * only which missing columns are reported, never what is read.
 */
function isNamed(admitted: string, column: string): boolean {
  const tokens = listTokens(admitted).filter(({ text }) => text.trim() !== '');
  return tokens.some(({ value }, index) => value === column || value === 'COLUMNS' || isAllColumns(tokens, index));
}

/** Whether the token is a `*` for all columns. After a value it multiplies; in `count(*)` it reads no column. */
function isAllColumns(tokens: readonly SqlToken[], index: number): boolean {
  if (tokens[index]?.text !== '*') return false;
  const before = tokens[index - 1]?.text ?? '';
  if (before === '(') return tokens[index - 2]?.text.toLowerCase() !== 'count';
  return ['SELECT', 'DISTINCT', ',', '.', '['].includes(before);
}
