/**
 * The archive: SQL over all sealed drops of a store. Invariant: a statement runs only as the guard admitted it, in a
 * separate process, over views that show only whole, sealed dates; or on a ClickHouse server over exactly these files
 * (`archive-server.ts`). A date is left out only if the statement, its names resolved, cannot touch it. There is no
 * lookback, no row limit and no scan limit. The caller makes and removes the folder of the engine.
 */

import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Families } from '../api-contract/family.ts';
import type { CalendarOverride } from '../calendar/session.ts';
import { Fault, findSqlPlaces, isFault } from '../core/errors.ts';
import { createRedactor } from '../core/redact.ts';
import { EngineFault } from '../engine/engine-fault.ts';
import { formatSettings, quoteIdentifier, quoteString } from '../engine/literal.ts';
import type { EnginePool, PooledEngine } from '../engine/pool.ts';
import type { WorkerPoolOptions } from '../engine/worker-pool.ts';
import { listTokens } from '../guard/canonical-text.ts';
import { openGuard } from '../guard/guard.ts';
import { findDamagedFile, meaningOf, Refusal, toRefusal } from '../guard/refusal.ts';
import { Ledger } from '../ledger/ledger.ts';
import type { Store, StoreAccess } from '../store/store.ts';
import type { AnswerTypes } from './archive-column.ts';
import { type ArchiveServerOptions, nameTables, openArchiveServer } from './archive-server.ts';
import { type Coverage, describeCoverage } from './coverage.ts';
import { openStoreFiles } from './drop-files.ts';
import {
  type AnswerColumn,
  describeStatement,
  isBinary,
  type OutputFormat,
  READ_SETTINGS,
  readAnswerColumns,
} from './output-format.ts';
import { readAll, type TableRead } from './reads.ts';
import { dropDamaged, type SealedSet, watchSealed } from './sealed.ts';
import { listNamed, NAMES_DAY, Remembered, StatementViews } from './statement-views.ts';
import { listTables, type OpenTable, openTables, plainName } from './tables.ts';
import { describeProbe } from './top-rows.ts';

interface ArchiveOptions {
  readonly store: Store;
  /** How the engine reaches the same objects. */
  readonly access: StoreAccess;
  /** Datasets of the store that statements may read. */
  readonly datasets: readonly string[];
  /** The one behind the API's two tables; absent: the only one of single trades. */
  readonly trades?: string | undefined;
  readonly types: AnswerTypes;
  /** Of the column `family`; absent: tables have none. */
  readonly families?: Families | undefined;
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
  /** The engine of this machine, by `describeWorkers`; the caller closes it, also in the middle of a statement. */
  readonly workers: Promise<EnginePool>;
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
/** The only statements beside a SELECT, without comments. They do not run: we know the answer. */
const SHOW_TABLES = /^\s*show\s+tables[\s;]*$/i;
const DESCRIBE = /^\s*desc(?:ribe)?(?:\s+table)?\s+(?:([`"])([^`"\\]+)\1|(\w+))[\s;]*$/i;
const QUOTED_OR_COMMENT = /(['"`]).*?\1|--[^\n]*|#[^\n]*|\/\*.*?\*\//gs;

/** The pool of an archive in `folder`, which a caller starts before it has found the store. */
export function describeWorkers(folder: string): Omit<WorkerPoolOptions, 'command'> {
  return { folder: join(folder, 'engine'), size: 1, maxWaiting: 1, maxResultBytes: MAX_MESSAGE_BYTES };
}

export type Archive = Awaited<ReturnType<typeof openArchive>>;

/** @throws Fault `ARCHIVE_LOCATION_INVALID` (usage), StoreFault, EngineFault; those of `openArchiveServer` */
export async function openArchive(options: ArchiveOptions) {
  const { signal, store, access, datasets, trades, types, families, lastSession, calendar } = options;
  const server = options.server && (await openArchiveServer(access, options.server));
  const files = await openStoreFiles(access, options.folder);
  const pool = await options.workers;
  const asker = { owner: 'query', signal };
  const views = new StatementViews();
  const known = listTables(datasets, trades);
  const admitted = new Remembered<string>();
  /** By dataset: manifests that have not changed are not read again. */
  const watches = new Map(datasets.map((dataset) => [dataset, watchSealed(store, dataset)]));
  // Above the first limit the statement fails, so the machine does not run out of memory.
  const limits = { max_memory_usage: options.maxMemoryBytes, ...files.threads };
  // At once: a name of a database is refused in statements only if the engine has it.
  await pool.use(asker, (engine) => views.prepare(engine));
  const names = known.map(({ name }) => name);
  const guard = await openGuard(pool, views.databases, [], names);
  return { query };

  /**
   * Writes the answer of one statement to a file. Each statement lists the sealed dates again.
   * @throws Fault `INVALID_SQL`, `INVALID_QUERY`, `NO_TRADES`, `NO_SUMMARY`, `REPORT_COLUMNS_MISSING`,
   *   `DATASET_UNCLEAR` (usage), `ARCHIVE_EMPTY`, `QUERY_TOO_BROAD`, `DROP_DAMAGED`, `MANIFEST_INVALID`, `ARCHIVE_UNREADABLE`, `OUT_FAILED`,
   *   `ENGINE_FAILED`, `INTERRUPTED`; of a server `ENGINE_COLLECTION`, `ENGINE_CLUSTER`, `ENGINE_RIGHTS`,
   *   `ENGINE_UNREACHABLE`, `NAME_TAKEN` (usage)
   */
  async function query(request: ArchiveQuery): Promise<ArchiveAnswer> {
    const { sql } = request;
    const bare = sql.replaceAll(QUOTED_OR_COMMENT, (part, quote) => (quote ? part : ' '));
    const isShow = SHOW_TABLES.test(bare);
    const [, , quoted, plain] = DESCRIBE.exec(bare) ?? [];
    const described = quoted ?? plain;
    const select = described === undefined ? sql : `SELECT * FROM ${quoteIdentifier(described)}`;
    try {
      const shown = isShow ? selectTexts('description', await listShown()) : undefined;
      const text = shown ?? admitted.get(select) ?? (await guard.admit(select, asker));
      if (!isShow) admitted.set(select, text);
      return await pool.use(asker, async (engine) =>
        answer(engine, described === undefined ? text : await describeTable(engine, text), request),
      );
    } catch (error) {
      if (signal.aborted) {
        throw new Fault('INTERRUPTED', 'stopped before it was finished', {
          kind: 'interrupted',
          hint: 'Nothing was written; start the same command again.',
        });
      }
      if (!(error instanceof Refusal)) throw describeQueryFailure(error, sql, types, files.secrets);
      if (error.cause !== undefined) throw describeQueryFailure(error.cause, sql, types, files.secrets);
      const shown = await listShown().catch(() => datasets.map((name) => [plainName(name)]));
      throw new Fault(error.code, error.message, {
        kind: 'usage',
        hint: `Allowed are SHOW TABLES, DESCRIBE TABLE and one SELECT over ${shown.map(([name]) => name).join(', ')}, in ClickHouse SQL, without settings, formats, files and addresses. \`flowdrop query "SHOW TABLES"\` describes them.`,
      });
    }
  }

  /** How tables are opened, with one listing of each dataset. @param engine absent: summaries are not read */
  function openWith(engine?: PooledEngine) {
    const listed = new Map<string, Promise<SealedSet>>();
    const openSealed = (dataset: string) => {
      const found = listed.get(dataset) ?? (watches.get(dataset) ?? watchSealed(store, dataset)).listSome();
      listed.set(dataset, found);
      return found;
    };
    const from = { engine: engine && (server ?? engine), files: server?.files ?? files };
    return { store, datasets, types, families, calendar, ...from, openSealed };
  }

  /** The tables that can be read now, each by the name that needs no quotes if it has one. */
  async function listShown(): Promise<readonly (readonly [name: string, text: string])[]> {
    const shown = new Map<string, string>();
    const context = openWith();
    for (const one of known) {
      const text = await openTables([one], context).then(
        ([table]) =>
          table && `${table.rows} rows of ${table.sealed.dataset}, ${table.dates[0]} to ${table.dates.at(-1)}`,
        (error: unknown) => {
          // Nothing is sealed yet, or the rows are of another kind.
          if (isFault(error) && (error.kind === 'usage' || error.code === 'ARCHIVE_EMPTY')) return undefined;
          if (!isFault(error) || !['DROP_DAMAGED', 'MANIFEST_INVALID'].includes(error.code)) throw error;
          // What else there is of it, no one can say.
          return one.rows === 'all' ? `cannot be read: ${error.message}` : undefined;
        },
      );
      if (text === undefined) continue;
      if (one.dataset !== undefined && one.name === plainName(one.dataset)) shown.delete(one.dataset);
      shown.set(one.name, text);
    }
    return [...shown].sort(([a], [b]) => (a < b ? -1 : 1));
  }

  /** @param text reads one table and nothing else */
  async function describeTable(engine: PooledEngine, text: string): Promise<string> {
    const named = known.filter(({ name }) => name === listTokens(text).at(-1)?.value);
    const [table] = await openTables(named, openWith(engine));
    // A name in another case: it fails as the SELECT does.
    if (table === undefined) return text;
    await table.describeAll();
    const columns = table.columns().map(({ name, type }) => [name, type]);
    return selectTexts('type', columns);
  }

  async function answer(engine: PooledEngine, text: string, { format, path }: ArchiveQuery): Promise<ArchiveAnswer> {
    const names = new Set(listTokens(text).map(({ value }) => value));
    const named = known.filter(({ name }) => names.has(name));
    const tables = await openTables(named, openWith(engine));
    const run = async (reads: readonly TableRead[]): Promise<ArchiveAnswer> => {
      for (const table of tables) await table.narrow(reads);
      const coverage = await readCoverage(text, tables);
      if (server !== undefined) {
        // A wrong statement fails here, in the caller's words.
        const columns = await views.describeAnswer(engine, text, tables);
        const statement = nameTables(text, tables);
        await server.assertFiles(tables);
        await server.write(statement, format, path, signal);
        return { coverage, columns: isBinary(format) ? columns : [], cost: undefined };
      }
      const before = await readCost(engine);
      await views.show(engine, text, tables);
      const bound = await findBound(engine, text, tables);
      if (bound !== undefined) await views.show(engine, text, tables, bound);
      const columns = isBinary(format) ? await readAnswerColumns(engine, text) : [];
      await engine.command(describeStatement(text, format, path, limits));
      return { coverage, columns, cost: await readCost(engine, before) };
    };
    if (!NAMES_DAY.test(text)) return await run(await views.resolve(engine, text, tables));
    // The dates are chosen by the day here, and the server may be in another one.
    const readDays = async () => [await readDay(engine), ...(server === undefined ? [] : [await readDay(server)])];
    const before = await readDays();
    const answered = await run(await views.resolve(engine, text, tables));
    if (new Set([...before, ...(await readDays())]).size === 1) return answered;
    // Midnight has passed: `today()` may have been another day when the dates were chosen, so read them all.
    await rm(path, { force: true });
    return await run(readAll(tables));
  }

  /** What the answer lacks; a date on which no row met the job's condition lacks in none. */
  async function readCoverage(text: string, tables: readonly OpenTable[]): Promise<readonly Coverage[]> {
    return await Promise.all(
      describeCoverage(tables, lastSession, calendar, listNamed(text)).map(async (one) => {
        if (one.missing.length === 0) return one;
        const { entries } = await new Ledger(store, one.dataset).conditions();
        return { ...one, missing: one.missing.filter((date) => entries.get(date)?.condition !== 'empty') };
      }),
    );
  }

  /** The condition that the first rows of a table meet, if the answer is these; see `top-rows.ts`. */
  async function findBound(
    engine: PooledEngine,
    text: string,
    tables: readonly OpenTable[],
  ): Promise<string | undefined> {
    const table = tables.find(({ reads }) => reads[0]?.top !== undefined);
    const top = table?.reads[0]?.top;
    const column = table?.columns().find(({ name }) => name === top?.column);
    const probe = top && column && describeProbe(text, top, column);
    if (probe === undefined) return undefined;
    try {
      const settings = formatSettings({ ...READ_SETTINGS, ...limits });
      const [found] = await engine.rows<{ rows: number; bound: string | null }>(`${probe.sql} ${settings}`);
      return found?.rows === top?.count ? probe.describeBound(found?.bound ?? '') : undefined;
    } catch (error) {
      // Then the statement itself fails, and says why.
      if (error instanceof EngineFault && error.clickhouseCode !== 0) return undefined;
      throw error;
    }
  }
}

/** A statement for these rows, with the columns `name` and another. */
function selectTexts(column: string, rows: readonly (readonly string[])[]): string {
  const list = rows.map((row) => `(${row.map(quoteString).join(', ')})`).join(', ');
  return `SELECT row.1 AS name, row.2 AS ${column} FROM (SELECT arrayJoin(CAST([${list}], 'Array(Tuple(String, String))')) AS row)`;
}

/** The day that `today()` means. */
async function readDay(engine: Pick<PooledEngine, 'rows'>): Promise<string | undefined> {
  const [row] = await engine.rows<{ readonly day: string }>('SELECT toString(today()) AS day');
  return row?.day;
}

/** Reads the totals since the process started, less those of `before`. */
async function readCost(engine: PooledEngine, before?: ReadCost): Promise<ReadCost | undefined> {
  const sums = Object.entries(EVENTS).map(
    ([name, event]) =>
      `sumIf(toFloat64(value), event = '${event}') - ${before?.[name as keyof ReadCost] ?? 0} AS ${name}`,
  );
  const [cost] = await engine.rows<ReadCost>(`SELECT ${sums.join(', ')} FROM system.events`);
  return cost;
}

/** The engine's codes, version and stack trace, which help only its developers. */
const ENGINE_FRAME =
  /: \(in file\/uri .*$|\bCode: \d+\. |\bDB::\w*Exception: |\s*\((?:version [^)]*|[A-Z0-9_]+)\)\s*\.?|Stack trace:.*$/gs;
const API_TYPES = 'With --api-types, values are text, as the API sends them.';
const HIDDEN = /\b(?:archive|resolve)_[0-9a-f]{24}\./g;

/**
 * The fault of a failed statement; its kind is `usage` if the statement is wrong. The caller gets the engine's own message,
 * because the caller may see every row of the archive, but without our internal names, folders, addresses and credentials.
 * @param secrets texts that must be hidden in messages
 */
function describeQueryFailure(error: unknown, sql: string, types: AnswerTypes, secrets: readonly string[]): unknown {
  if (!(error instanceof EngineFault)) return error;
  const words = cleanWords(error.message, secrets);
  const meaning = meaningOf(error);
  if (meaning === 'UNREADABLE') {
    return new Fault('ARCHIVE_UNREADABLE', `the drops cannot be read: ${words}`, {
      hint: 'Run `flowdrop verify JOB`; check whether the store is reachable.',
    });
  }
  if (meaning === 'UNWRITABLE') {
    return new Fault('OUT_FAILED', `the answer cannot be written: ${words}`, {
      hint: 'Make room, or name another place with --out.',
    });
  }
  if (meaning === 'TOO_BROAD' || meaning === 'TIMEOUT') {
    return new Fault('QUERY_TOO_BROAD', `the query needs more than this machine has: ${words}`, {
      hint: 'Query fewer dates, symbols or columns at a time.',
    });
  }
  const damaged = findDamagedFile(error);
  if (damaged !== undefined) {
    const date = /session=(\d{4}-\d{2}-\d{2})/.exec(damaged)?.[1] ?? '';
    return dropDamaged(date, `its file cannot be read: ${words}`);
  }
  const refusal = toRefusal(error, sql);
  if (!(refusal instanceof Refusal)) return new Fault('ENGINE_FAILED', words);
  return new Fault(refusal.code, `${refusal.message} ClickHouse says: ${words}`, {
    kind: 'usage',
    places: findSqlPlaces(sql, refusal.message),
    hint: `Reason ${refusal.reason ?? 'unknown'}. ${explainTypes(error.message, types) ?? "DESCRIBE and a table's name list its columns; the SQL is ClickHouse's."}`,
  });
}

/** What to write where a statement takes a date, a time or a null for a text. */
function explainTypes(message: string, types: AnswerTypes): string | undefined {
  if (types === 'api') return undefined;
  if (/converting '' to|after eof/i.test(message))
    return `Unknown values are null, not '': write column IS NULL instead of column = ''. ${API_TYPES}`;
  if (/Date32 and (Nullable\()?Date32.*function minus/.test(message))
    return "For the days between two dates, write dateDiff('day', date, expiration_date).";
  if (/Cannot (parse|read) (date|time|DateTime)/i.test(message))
    return `Write dates as '2026-11-19' and times as '2026-11-19 09:30:00'. ${API_TYPES}`;
  if (/OrZero|OrNull|OrDefault/.test(message))
    return `Number columns are already numbers: leave out the conversion. ${API_TYPES}`;
  if (/\bDate(32|Time(64)?)?\b/.test(message))
    return `Dates and times are typed: use date functions, or toString(date) for text functions such as LIKE. ${API_TYPES}`;
  return undefined;
}

function cleanWords(message: string, secrets: readonly string[]): string {
  const clean = message.replace(ENGINE_FRAME, '').replace(HIDDEN, '').trim();
  return createRedactor([...secrets])(clean);
}
