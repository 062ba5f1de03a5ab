/**
 * The archive: SQL over all sealed drops of a store. Invariant: a statement runs only as the guard admitted it, in a
 * separate process, over views that show only whole, sealed dates; or on a ClickHouse server over exactly these files
 * (`archive-server.ts`). A date is left out only if the statement, its names resolved, cannot touch it. There is no
 * lookback, no row limit and no scan limit. The caller makes and removes the folder of the engine.
 */

import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { CalendarOverride } from '../calendar/session.ts';
import { Fault } from '../core/errors.ts';
import { EngineFault } from '../engine/engine-fault.ts';
import { formatSettings, quoteString } from '../engine/literal.ts';
import type { EnginePool, PooledEngine } from '../engine/pool.ts';
import type { WorkerPoolOptions } from '../engine/worker-pool.ts';
import { listTokens } from '../guard/canonical-text.ts';
import { type Guard, openGuard } from '../guard/guard.ts';
import { Ledger } from '../ledger/ledger.ts';
import type { Store, StoreAccess } from '../store/store.ts';
import type { AnswerTypes } from './archive-column.ts';
import { type ArchiveServer, type ArchiveServerOptions, nameTables, openArchiveServer } from './archive-server.ts';
import { type Coverage, describeCoverage } from './coverage.ts';
import { openStoreFiles, type StoreFiles } from './drop-files.ts';
import {
  type AnswerColumn,
  describeStatement,
  isBinary,
  type OutputFormat,
  READ_SETTINGS,
  readAnswerColumns,
} from './output-format.ts';
import { describeQueryFailure } from './query-failure.ts';
import { readAll, type TableRead } from './reads.ts';
import { type SealedSet, SealedWatch } from './sealed.ts';
import { listNamed, NAMES_DAY, Remembered, StatementViews } from './statement-views.ts';
import { listTables, type OpenTable, openTables } from './tables.ts';
import { describeBound, describeProbe } from './top-rows.ts';

interface ArchiveOptions {
  readonly store: Store;
  /** How the engine reaches the same objects. */
  readonly access: StoreAccess;
  /** Datasets of the store that statements may read. */
  readonly datasets: readonly string[];
  /** The one behind the API's two tables; absent: the only one of single trades. */
  readonly trades?: string | undefined;
  readonly types: AnswerTypes;
  /** The last session that should be sealed by now. */
  readonly lastSession: string;
  /** Calendar overrides; absent: none. */
  readonly calendar?: CalendarOverride | undefined;
  /** Absolute path of an empty folder that only this archive uses. */
  readonly folder: string;
  /** Memory limit of one statement, bytes; on a server its own limits count. */
  readonly maxMemoryBytes: number;
  readonly signal: AbortSignal;
  /** Answers in place of this machine; the caller closes its engine. */
  readonly server?: ArchiveServerOptions | undefined;
  /** The archive closes the pool. @param options see `describeWorkers` */
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
  /** `undefined` if a server answered. */
  readonly cost: ReadCost | undefined;
}

/** The engine's counters of what it reads. They are per process, which runs one statement at a time. */
const EVENTS = {
  rowGroups: 'ParquetReadRowGroups',
  /** Skipped because of statistics or bloom filters. */
  prunedRowGroups: 'ParquetPrunedRowGroups',
  s3Bytes: 'ReadBufferFromS3Bytes',
  files: 'EngineFileLikeReadFiles',
} as const;

/** What the engine read for an answer. */
export type ReadCost = Readonly<Record<keyof typeof EVENTS, number>>;

/** Only small results, such as EXPLAIN output, return as messages; answers go to a file. */
const MAX_MESSAGE_BYTES = 64_000_000;
const OWNER = 'query';

/** The pool of an archive in `folder`, for a caller that starts its process before it has found the store. */
export function describeWorkers(folder: string): Omit<WorkerPoolOptions, 'command'> {
  return { folder: join(folder, 'engine'), size: 1, maxWaiting: 1, maxResultBytes: MAX_MESSAGE_BYTES };
}

/** @throws Fault `ARCHIVE_LOCATION_INVALID` (usage), StoreFault, EngineFault; those of `openArchiveServer` */
export async function openArchive(options: ArchiveOptions): Promise<Archive> {
  const { signal } = options;
  const server = options.server && (await openArchiveServer(options.access, options.server));
  const files = await openStoreFiles(options.access, options.folder);
  const pool = await options.openWorkers(describeWorkers(options.folder));
  try {
    const views = new StatementViews();
    // At once: a name of a database is refused in statements only if the engine has it.
    await pool.use({ owner: OWNER, signal }, async (engine) => await views.prepare(engine));
    const tables = listTables(options.datasets, options.trades).map(({ name }) => name);
    const guard = await openGuard(pool, views.databases, [], tables);
    return new Archive(options, { files, pool, guard, views, server });
  } catch (error) {
    await pool.close();
    throw error;
  }
}

interface ArchiveParts {
  readonly files: StoreFiles;
  readonly pool: EnginePool;
  readonly guard: Guard;
  readonly views: StatementViews;
  readonly server: ArchiveServer | undefined;
}

export class Archive {
  readonly #options: ArchiveOptions;
  readonly #parts: ArchiveParts;
  /** By dataset. */
  readonly #watches = new Map<string, SealedWatch>();
  readonly #admitted = new Remembered<string>();

  constructor(options: ArchiveOptions, parts: ArchiveParts) {
    this.#options = options;
    this.#parts = parts;
  }

  /**
   * Writes the answer of one statement to a file. Each statement lists the sealed dates again.
   * @throws Fault `INVALID_SQL`, `INVALID_QUERY`, `NO_TRADES`, `NO_SUMMARY`, `DATASET_UNCLEAR` (usage),
   *   `ARCHIVE_EMPTY`, `QUERY_TOO_BROAD`, `DROP_DAMAGED`, `MANIFEST_INVALID`, `ARCHIVE_UNREADABLE`, `OUT_FAILED`,
   *   `ENGINE_FAILED`, `INTERRUPTED`; of a server `ENGINE_COLLECTION`, `ENGINE_CLUSTER`, `ENGINE_RIGHTS`,
   *   `ENGINE_UNREACHABLE`, `NAME_TAKEN` (usage)
   */
  async query(request: ArchiveQuery): Promise<ArchiveAnswer> {
    const { sql } = request;
    const { pool, files, server } = this.#parts;
    const { signal, types, datasets, trades } = this.#options;
    const known = listTables(datasets, trades);
    try {
      const admitted = await this.#admit(sql);
      return await pool.use({ owner: OWNER, signal }, async (engine) => {
        const named = new Set(listTokens(admitted).map(({ value }) => value));
        const tables = await openTables(
          known.filter(({ name }) => named.has(name)),
          {
            ...this.#options,
            ...(server === undefined ? { engine, files } : { engine: server, files: server.files }),
            openSealed: (dataset) => this.#openSealed(dataset),
          },
        );
        const answer = async (reads: readonly TableRead[]) => {
          for (const table of tables) await table.narrow(reads);
          return server === undefined
            ? await this.#answer(engine, admitted, tables, request)
            : await this.#askServer(engine, server, admitted, tables, request);
        };
        // The dates are chosen by the day here, and the server may be in another one.
        const readDays = async () => [await readDay(engine), ...(server === undefined ? [] : [await readDay(server)])];
        const { views } = this.#parts;
        if (!NAMES_DAY.test(admitted)) return await answer(await views.resolve(engine, admitted, tables));
        const before = await readDays();
        const answered = await answer(await views.resolve(engine, admitted, tables));
        if (new Set([...before, ...(await readDays())]).size === 1) return answered;
        // Midnight has passed: `today()` may have been another day when the dates were chosen, so read them all.
        await rm(request.path, { force: true });
        return await answer(readAll(tables));
      });
    } catch (error) {
      if (signal.aborted) {
        throw new Fault('INTERRUPTED', 'stopped before it was finished', {
          kind: 'interrupted',
          hint: 'Nothing was written; start the same command again.',
        });
      }
      const tables = known.map(({ name }) => name);
      throw describeQueryFailure(error, sql, tables, types, files.secrets);
    }
  }

  /** Ends the engine's process, even in the middle of a statement. */
  async close(): Promise<void> {
    await this.#parts.pool.close();
  }

  async #answer(
    engine: PooledEngine,
    admitted: string,
    tables: readonly OpenTable[],
    { format, path }: ArchiveQuery,
  ): Promise<ArchiveAnswer> {
    const { views, files } = this.#parts;
    const { maxMemoryBytes } = this.#options;
    // Above this limit the statement fails, so the machine does not run out of memory.
    const limits = { max_memory_usage: maxMemoryBytes, ...files.threads };
    const before = await readCost(engine);
    await views.show(engine, admitted, tables);
    const bound = await this.#findBound(engine, admitted, tables, limits);
    if (bound !== undefined) await views.show(engine, admitted, tables, bound);
    const coverage = await this.#readCoverage(admitted, tables);
    const columns = isBinary(format) ? await readAnswerColumns(engine, admitted) : [];
    await engine.command(describeStatement(admitted, format, path, limits));
    return { coverage, columns, cost: await readCost(engine, before) };
  }

  async #askServer(
    engine: PooledEngine,
    server: ArchiveServer,
    admitted: string,
    tables: readonly OpenTable[],
    { format, path }: ArchiveQuery,
  ): Promise<ArchiveAnswer> {
    const { signal } = this.#options;
    const coverage = await this.#readCoverage(admitted, tables);
    // A wrong statement fails here, in the caller's words.
    const columns = await this.#parts.views.describeAnswer(engine, admitted, tables);
    const statement = nameTables(admitted, tables);
    await server.assertFiles(tables);
    await server.write(statement, format, path, signal);
    return { coverage, columns: isBinary(format) ? columns : [], cost: undefined };
  }

  /** What the answer lacks; a date on which no row met the job's condition lacks in none. */
  async #readCoverage(admitted: string, tables: readonly OpenTable[]): Promise<readonly Coverage[]> {
    const { lastSession, calendar } = this.#options;
    return await Promise.all(
      describeCoverage(tables, { lastSession, calendar, isNamed: listNamed(admitted) }).map(async (one) => {
        if (one.missing.length === 0) return one;
        const { entries } = await new Ledger(this.#options.store, one.dataset).conditions();
        return { ...one, missing: one.missing.filter((date) => entries.get(date)?.condition !== 'empty') };
      }),
    );
  }

  /** The condition that the first rows of a table meet, if the answer is these; see `top-rows.ts`. */
  async #findBound(
    engine: PooledEngine,
    admitted: string,
    tables: readonly OpenTable[],
    limits: Readonly<Record<string, number>>,
  ): Promise<string | undefined> {
    const table = tables.find(({ reads }) => reads[0]?.top !== undefined);
    const top = table?.reads[0]?.top;
    const column = table?.columns().find(({ name }) => name === top?.column);
    const probe = top && column && describeProbe(admitted, top, column);
    if (top === undefined || column === undefined || probe === undefined) return undefined;
    try {
      const settings = formatSettings({ ...READ_SETTINGS, ...limits });
      const [found] = await engine.rows<{ rows: number; bound: string | null }>(`${probe} ${settings}`);
      return found?.rows === top.count ? describeBound(top, column, found.bound ?? '') : undefined;
    } catch (error) {
      // Then the statement itself fails, and says why.
      if (error instanceof EngineFault && error.clickhouseCode !== 0) return undefined;
      throw error;
    }
  }

  /** The guard's text of a statement, which is the same each time. */
  async #admit(sql: string): Promise<string> {
    const { signal } = this.#options;
    const known = this.#admitted.get(sql);
    if (known !== undefined) return known;
    const admitted = await this.#parts.guard.admit(sql, { owner: OWNER, signal });
    this.#admitted.set(sql, admitted);
    return admitted;
  }

  /** The dates that are sealed now; manifests that have not changed are not read again. */
  async #openSealed(dataset: string): Promise<SealedSet> {
    const watch = this.#watches.get(dataset) ?? new SealedWatch(this.#options.store, dataset);
    this.#watches.set(dataset, watch);
    return await watch.listSome();
  }
}

/** The day that `today()` means. */
async function readDay(engine: Pick<PooledEngine, 'rows'>): Promise<string | undefined> {
  const [row] = await engine.rows<{ readonly day: string }>('SELECT toString(today()) AS day');
  return row?.day;
}

/** Reads the totals since the process started, less those of `before`. */
async function readCost(engine: PooledEngine, before?: ReadCost): Promise<ReadCost> {
  const names = Object.values(EVENTS).map(quoteString).join(', ');
  const rows = await engine.rows<{ event: string; value: number }>(
    `SELECT event, value FROM system.events WHERE event IN (${names})`,
  );
  const values = new Map(rows.map(({ event, value }) => [event, Number(value)]));
  const read = (name: keyof ReadCost) => (values.get(EVENTS[name]) ?? 0) - (before?.[name] ?? 0);
  return {
    ...{ files: read('files'), rowGroups: read('rowGroups') },
    ...{ prunedRowGroups: read('prunedRowGroups'), s3Bytes: read('s3Bytes') },
  };
}
