/**
 * The archive: the API's SQL over all sealed drops of a dataset. Invariant: a statement runs only as the guard admitted
 * it, in a process of its own, over views that show nothing but whole, sealed dates; dates are left out only where the
 * resolved statement cannot touch them. There is no lookback, no row limit and no scan limit. The caller owns the folder.
 */

import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import type { CalendarOverride } from '../calendar/session.ts';
import { Fault } from '../core/errors.ts';
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
import { describeEmptyTable, describeView, listColumns, TRADE_TABLES, type TradeTable } from './sealed-tables.ts';
import { unite } from './time-bounds.ts';

interface ArchiveOptions {
  readonly store: Store;
  /** How the engine reaches the same objects. */
  readonly access: StoreAccess;
  readonly dataset: string;
  readonly readManifest: ReadManifest;
  /** The last session that should be sealed by now. */
  readonly lastSession: string;
  /** What is otherwise than the rules of the exchange say. */
  readonly calendar?: CalendarOverride | undefined;
  /** An empty folder of this archive's own, absolute. */
  readonly folder: string;
  /** Memory that one statement may take, bytes. */
  readonly maxMemoryBytes: number;
  readonly signal: AbortSignal;
  openWorkers(options: Omit<WorkerPoolOptions, 'command'>): Promise<EnginePool>;
}

interface ArchiveQuery {
  readonly sql: string;
  readonly format: OutputFormat;
  /** A file that does not exist yet; the answer is written there. */
  readonly path: string;
}

export interface ArchiveAnswer {
  readonly coverage: Coverage;
  readonly cost: ReadCost;
}

/** What a statement reads, and the manifests whose columns it was resolved with. */
interface Resolved {
  readonly reads: readonly TableRead[];
  readonly described: readonly Manifest[];
}

/** Nothing but explanations leaves the engine as a message. */
const MAX_MESSAGE_BYTES = 64_000_000;
const OWNER = 'query';

/** @throws Fault `ARCHIVE_EMPTY`, `ARCHIVE_LOCATION_INVALID` (usage), StoreFault, EngineFault */
export async function openArchive(options: ArchiveOptions): Promise<Archive> {
  const { store, dataset, signal } = options;
  const drops = await listDrops(store, dataset);
  if (drops.dates.length === 0) {
    throw new Fault('ARCHIVE_EMPTY', `nothing is sealed in ${store.url}/${dataset}`, {
      hint: 'Run the job first, or look whether store and dataset are named right; `flowdrop status` shows what is sealed.',
    });
  }
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
      // In memory, because the views of an S3 store have its credentials in them.
      for (const name of Object.values(names)) await engine.command(`CREATE DATABASE ${name} ENGINE = Memory`);
    });
    const guard = await openGuard(openParser(pool), Object.values(names));
    return new Archive(options, { drops, files, pool, guard, names });
  } catch (error) {
    await pool.close();
    throw error;
  }
}

interface ArchiveParts {
  readonly drops: DropList;
  readonly files: SealedFiles;
  readonly pool: EnginePool;
  readonly guard: Guard;
  /** Databases that no statement can spell: one to resolve statements in, one to run them in. */
  readonly names: { readonly resolve: string; readonly visible: string };
}

export class Archive {
  readonly #options: ArchiveOptions;
  readonly #parts: ArchiveParts;
  readonly #manifests = new Map<string, Manifest>();

  constructor(options: ArchiveOptions, parts: ArchiveParts) {
    this.#options = options;
    this.#parts = parts;
  }

  /** Sealed dates of the dataset, ascending. */
  get dates(): readonly string[] {
    return this.#parts.drops.dates;
  }

  /**
   * Answers one statement into a file.
   * @throws Fault `INVALID_SQL`, `INVALID_QUERY`, `NO_TRADES` (usage), `QUERY_TOO_BROAD`, `DROP_DAMAGED`, `MANIFEST_INVALID`,
   *   `ARCHIVE_UNREADABLE`, `INTERRUPTED`
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

  /** Ends the engine's process, whatever it computes. */
  async close(): Promise<void> {
    await this.#parts.pool.close();
  }

  /**
   * What the statement reads. Columns beyond the contract are told by the newest manifest; a statement that is not
   * understood with those may name one of older dates, so all of them are asked then.
   */
  async #resolve(engine: PooledEngine, admitted: string): Promise<Resolved> {
    const newest = await this.#readManifests(this.dates.slice(-1));
    assertTrades(newest);
    const reads = await this.#resolveWith(engine, admitted, newest);
    if (reads !== undefined) return { reads, described: newest };
    const all = await this.#readManifests(this.dates);
    return { reads: (await this.#resolveWith(engine, admitted, all)) ?? readAll(), described: all };
  }

  async #resolveWith(engine: PooledEngine, admitted: string, manifests: readonly Manifest[]) {
    await engine.command(`USE ${this.#parts.names.resolve}`);
    for (const table of TRADE_TABLES) {
      await engine.command(`DROP TABLE IF EXISTS ${table}`);
      await engine.command(describeEmptyTable(table, manifests));
    }
    return await resolveReads(engine, admitted);
  }

  /** Makes the tables that the statement reads, of the dates that it can touch. */
  async #show(engine: PooledEngine, admitted: string, { reads, described }: Resolved): Promise<Coverage> {
    const { files, names, drops } = this.#parts;
    const touched = new Map<TradeTable, readonly Manifest[]>();
    for (const table of TRADE_TABLES) {
      const own = reads.filter((read) => read.table === table);
      if (own.length > 0) touched.set(table, await this.#readManifests(this.#listDates(table, own)));
    }
    const byDate = new Map([...touched.values()].flat().map((manifest) => [manifest.date, manifest]));
    const manifests = [...byDate.values()].sort((a, b) => (a.date < b.date ? -1 : 1));
    const columns = listColumns([...manifests, ...described]);
    await engine.command(`USE ${names.visible}`);
    for (const table of TRADE_TABLES) {
      await engine.command(`DROP TABLE IF EXISTS ${table}`);
      const own = touched.get(table);
      if (own === undefined) continue;
      const time = reads
        .filter((read) => read.table === table)
        .map((read) => read.time)
        .reduce(unite);
      await engine.command(
        describeView(
          table,
          files,
          columns,
          own.map(({ date }) => date),
          time,
        ),
      );
    }
    return describeCoverage({
      sealed: drops.dates,
      manifests,
      lastSession: this.#options.lastSession,
      calendar: this.#options.calendar,
      columns: columns.map(({ name }) => name).filter((name) => isNamed(admitted, name)),
      mayTouch: (date) => reads.some((read) => read.table === TRADE_TABLES[0] && mayTouch(read, date)),
    });
  }

  #listDates(table: TradeTable, reads: readonly TableRead[]): readonly string[] {
    const dates = table === TRADE_TABLES[0] ? this.dates : this.dates.slice(-1);
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

/** Snapshots and aggregates have dates and manifests as well, but are no answer to a question about trades. */
function assertTrades(manifests: readonly Manifest[]): void {
  for (const { dataset, schema } of manifests) {
    const lacking = ['id', 'time'].filter((name) => !schema.some((column) => column.name === name));
    if (lacking.length === 0) continue;
    throw new Fault(
      'NO_TRADES',
      `the drops of ${dataset} are no single trades: they have no ${lacking.join(' and no ')}`,
      {
        kind: 'usage',
        hint: 'Name a dataset of single trades; these drops are Parquet files that any reader opens.',
      },
    );
  }
}

/** Whether rows of a date that nobody has could be in the answer: its times are those of the date. */
function mayTouch(read: TableRead, date: string): boolean {
  const { from, to } = read.time;
  return read.mayTouch(date) && !(from !== undefined && `${date} 24` < from) && !(to !== undefined && to < date);
}

/**
 * Whether a statement may read a column, judged by its words: it names it, or takes all there are. Only what is reported of
 * dates that lack a column depends on it, never what is read.
 */
function isNamed(admitted: string, column: string): boolean {
  const tokens = listTokens(admitted).filter(({ text }) => text.trim() !== '');
  return tokens.some(({ value }, index) => value === column || value === 'COLUMNS' || isAllColumns(tokens, index));
}

/** A `*` behind a value multiplies, and that of `count(*)` reads no column. */
function isAllColumns(tokens: readonly SqlToken[], index: number): boolean {
  if (tokens[index]?.text !== '*') return false;
  const before = tokens[index - 1]?.text ?? '';
  if (before === '(') return tokens[index - 2]?.text.toLowerCase() !== 'count';
  return ['SELECT', 'DISTINCT', ',', '.', '['].includes(before);
}
