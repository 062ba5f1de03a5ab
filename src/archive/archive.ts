/**
 * The archive: SQL over all sealed drops of a store. Invariant: a statement runs only as the guard admitted it, in a
 * separate process, over views that show only whole, sealed dates. A date is left out only if the resolved statement
 * cannot touch it. There is no lookback, no row limit and no scan limit. The caller owns the folder.
 */

import { randomBytes } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { CalendarOverride } from '../calendar/session.ts';
import { Fault } from '../core/errors.ts';
import { quoteIdentifier } from '../engine/literal.ts';
import type { EnginePool, PooledEngine } from '../engine/pool.ts';
import type { WorkerPoolOptions } from '../engine/worker-pool.ts';
import { listTokens, type SqlToken } from '../guard/canonical-text.ts';
import { type Guard, openGuard } from '../guard/guard.ts';
import { openParser } from '../guard/parser.ts';
import type { StoreAccess } from '../store/access.ts';
import type { Store } from '../store/store.ts';
import type { AnswerTypes } from './archive-column.ts';
import { type ReadCost, readCost, subtractCost } from './cost.ts';
import { type Coverage, describeCoverage, type ShownTable } from './coverage.ts';
import { openStoreFiles, type StoreFiles } from './drop-files.ts';
import type { ReadManifest } from './drops.ts';
import { describeReadable, type OpenTable, openTables } from './open-table.ts';
import {
  type AnswerColumn,
  describeStatement,
  isBinary,
  type OutputFormat,
  readAnswerColumns,
} from './output-format.ts';
import { describeQueryFailure } from './query-failure.ts';
import type { TableRead } from './reads.ts';
import { readAll, resolveReads } from './resolve-reads.ts';
import { describeEmptyTable, describeView, listTables } from './sealed-tables.ts';
import { unite } from './time-bounds.ts';

interface ArchiveOptions {
  readonly store: Store;
  /** How the engine reaches the same objects. */
  readonly access: StoreAccess;
  /** Datasets of the store that statements may read. */
  readonly datasets: readonly string[];
  /** The one behind the API's two tables; absent: the only one of single trades. */
  readonly trades?: string | undefined;
  readonly types: AnswerTypes;
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
  /** Of each dataset that the statement reads. */
  readonly coverage: readonly Coverage[];
  /** Only of a binary format. */
  readonly columns: readonly AnswerColumn[];
  readonly cost: ReadCost;
}

/** Only small results, such as EXPLAIN output, return as messages; answers go to a file. */
const MAX_MESSAGE_BYTES = 64_000_000;
const OWNER = 'query';
const NAMES_DAY = /\b(today|yesterday)\b/i;

/** @throws Fault `ARCHIVE_LOCATION_INVALID` (usage), StoreFault, EngineFault */
export async function openArchive(options: ArchiveOptions): Promise<Archive> {
  const { signal } = options;
  const files = await openStoreFiles(options.access, options.folder);
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
    const tables = listTables(options.datasets, options.trades).map(({ name }) => name);
    const guard = await openGuard(openParser(pool), Object.values(names), [], tables);
    return new Archive(options, { files, pool, guard, names });
  } catch (error) {
    await pool.close();
    throw error;
  }
}

interface ArchiveParts {
  readonly files: StoreFiles;
  readonly pool: EnginePool;
  readonly guard: Guard;
  /** Databases with unguessable names: one to resolve statements in, one to run them in. */
  readonly names: { readonly resolve: string; readonly visible: string };
}

export class Archive {
  readonly #options: ArchiveOptions;
  readonly #parts: ArchiveParts;

  constructor(options: ArchiveOptions, parts: ArchiveParts) {
    this.#options = options;
    this.#parts = parts;
  }

  /**
   * Writes the answer of one statement to a file. Each statement lists the sealed dates again.
   * @throws Fault `INVALID_SQL`, `INVALID_QUERY`, `NO_TRADES`, `NO_SUMMARY`, `DATASET_UNCLEAR` (usage),
   *   `ARCHIVE_EMPTY`, `QUERY_TOO_BROAD`, `DROP_DAMAGED`, `MANIFEST_INVALID`, `ARCHIVE_UNREADABLE`, `OUT_FAILED`,
   *   `ENGINE_FAILED`, `INTERRUPTED`
   */
  async query({ sql, format, path }: ArchiveQuery): Promise<ArchiveAnswer> {
    const { pool, guard, files } = this.#parts;
    const { signal, types, datasets, trades, maxMemoryBytes } = this.#options;
    const known = listTables(datasets, trades);
    try {
      const admitted = await guard.admit(sql, { owner: OWNER, signal });
      return await pool.use({ owner: OWNER, signal }, async (engine) => {
        // Also where the process is a new one: types without a zone take the zone when a view is made.
        // The date of a file's path is a LowCardinality date while it is parsed.
        await engine.command("SET session_timezone = 'UTC', allow_suspicious_low_cardinality_types = 1");
        const named = new Set(listTokens(admitted).map(({ value }) => value));
        const tables = await openTables(
          known.filter(({ name }) => named.has(name)),
          { ...this.#options, engine, files },
        );
        const answer = async (reads: readonly TableRead[]) => {
          const coverage = await this.#show(engine, admitted, tables, reads);
          const columns = isBinary(format) ? await readAnswerColumns(engine, admitted) : [];
          const before = await readCost(engine);
          // Above this limit the statement fails, so the machine does not run out of memory.
          const limits = { max_memory_usage: maxMemoryBytes, ...files.threads };
          await engine.command(describeStatement(admitted, format, path, limits));
          return { coverage, columns, cost: subtractCost(await readCost(engine), before) };
        };
        const day = await readDay(engine);
        const answered = await answer(await this.#resolve(engine, admitted, tables));
        if (!NAMES_DAY.test(admitted) || (await readDay(engine)) === day) return answered;
        // Midnight has passed: `today()` may have been another day when the dates were chosen, so read them all.
        await rm(path, { force: true });
        return await answer(readAll(tables.map(describeReadable)));
      });
    } catch (error) {
      if (signal.aborted) {
        throw new Fault('INTERRUPTED', 'stopped before it was finished', {
          kind: 'interrupted',
          hint: 'Nothing was written; start the same command again.',
        });
      }
      const tables = known.map(({ name }) => name);
      throw describeQueryFailure(error, { sql, secrets: files.secrets, tables, types });
    }
  }

  /** Ends the engine's process, even in the middle of a statement. */
  async close(): Promise<void> {
    await this.#parts.pool.close();
  }

  /**
   * Finds what the statement reads. The newest manifest lists the columns. If the statement does not resolve with
   * these, it may name a column of older dates, so all manifests are read.
   */
  async #resolve(engine: PooledEngine, admitted: string, tables: readonly OpenTable[]): Promise<readonly TableRead[]> {
    const reads = await this.#resolveWith(engine, admitted, tables);
    if (reads !== undefined) return reads;
    for (const table of tables) await table.describeAll();
    return (await this.#resolveWith(engine, admitted, tables)) ?? readAll(tables.map(describeReadable));
  }

  async #resolveWith(engine: PooledEngine, admitted: string, tables: readonly OpenTable[]) {
    await engine.command(`USE ${this.#parts.names.resolve}`);
    for (const table of tables) {
      await engine.command(`DROP TABLE IF EXISTS ${quoteIdentifier(table.name)}`);
      await engine.command(describeEmptyTable(table.name, table.columns()));
    }
    return await resolveReads(engine, admitted, tables.map(describeReadable));
  }

  /** Creates views of the tables that the statement reads, with the dates that it can touch. */
  async #show(
    engine: PooledEngine,
    admitted: string,
    tables: readonly OpenTable[],
    reads: readonly TableRead[],
  ): Promise<readonly Coverage[]> {
    await engine.command(`USE ${this.#parts.names.visible}`);
    const shown: ShownTable[] = [];
    for (const table of tables) {
      await engine.command(`DROP TABLE IF EXISTS ${quoteIdentifier(table.name)}`);
      const own = reads.filter((read) => read.table === table.name);
      if (own.length === 0) continue;
      const dates = table.dates.filter((date) => own.some((read) => read.mayTouch(date)));
      const manifests = await table.drops.readManifests(dates);
      const time = own.map((read) => read.time).reduce(unite);
      await engine.command(describeView({ ...table.view(manifests), time }));
      shown.push({ table, reads: own, manifests });
    }
    const { lastSession, calendar } = this.#options;
    return describeCoverage(shown, { lastSession, calendar, isNamed: (column) => isNamed(admitted, column) });
  }
}

/** The day that `today()` means. */
async function readDay(engine: PooledEngine): Promise<string | undefined> {
  const [row] = await engine.rows<{ readonly day: string }>('SELECT toString(today()) AS day');
  return row?.day;
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
