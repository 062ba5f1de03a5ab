/**
 * The archive: SQL over the sealed drops of a store, for `flowdrop query` and for a service. Invariants: a statement runs
 * only as a guard admitted it, in a separate process, over views that show only whole, sealed dates; or on a ClickHouse
 * server over exactly these files. A date is left out only if the statement, its names resolved, cannot touch it. An answer
 * is computed from one set of sealed revisions: nothing is locked, and a statement whose dates have changed meanwhile runs
 * again. There is no lookback, no row limit and no scan limit.
 */

import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { TABLES } from '../api-contract/published-limits.ts';
import { elapsedMs, systemClock } from '../core/clock.ts';
import { Fault, findSqlPlaces, isFault } from '../core/errors.ts';
import { createRedactor } from '../core/redact.ts';
import { listFirst } from '../core/units.ts';
import { EngineFault } from '../engine/engine-fault.ts';
import { quoteIdentifier, quoteString } from '../engine/literal.ts';
import type { EnginePool, PooledEngine } from '../engine/pool.ts';
import type { WorkerPoolOptions } from '../engine/worker-pool.ts';
import { listTokens } from '../guard/canonical-text.ts';
import { type Guard, openGuard } from '../guard/guard.ts';
import { findDamagedFile, meaningOf, Refusal, toRefusal } from '../guard/refusal.ts';
import { Ledger } from '../ledger/ledger.ts';
import type { StoreAccess } from '../store/store.ts';
import type { AnswerTypes } from './archive-column.ts';
import { type Coverage, describeCoverage } from './coverage.ts';
import { openStoreFiles } from './drop-files.ts';
import { EmbeddedRunner, listNamed, type ReadCost } from './embedded-runner.ts';
import { type AnswerColumn, type AnswerFile, READ_SETTINGS, WITHOUT_CACHES } from './output-format.ts';
import { readAll } from './reads.ts';
import { dropDamaged, type SealedSet, watchSealed } from './sealed.ts';
import { type ArchiveServerOptions, openServerRunner } from './server-runner.ts';
import { listTables, type OpenTable, openTables, plainName, type TableOptions } from './tables.ts';

interface ArchiveOptions extends TableOptions {
  /** How the engine reaches the store's objects; asked again before temporary credentials expire. */
  readAccess(): Promise<StoreAccess>;
  /** The dataset behind the API's two tables; absent: the only one of single trades. */
  readonly trades?: string | undefined;
  /** Absolute path of a folder that only this archive uses; the caller makes and removes it. */
  readonly folder: string;
  /** Answers `query` in place of this machine; the caller closes its engine. */
  readonly server?: ArchiveServerOptions | undefined;
}

interface ArchiveQuery extends Omit<AnswerFile, 'limits'> {
  readonly sql: string;
  /** The last session that should be sealed by now. */
  readonly lastSession: string;
  /** Memory limit of the statement, bytes; on a server its own limits count. */
  readonly maxMemoryBytes: number;
}

export interface ArchiveAnswer {
  /** Of each dataset that the statement reads. */
  readonly coverage: readonly Coverage[];
  /** Only of a binary format. */
  readonly columns: readonly AnswerColumn[];
  /** `undefined` if a server answered. */
  readonly cost: ReadCost | undefined;
}

/** Dates that a statement has read or may have read, as they were listed. */
type DatesRead = readonly (readonly [SealedSet, readonly string[]])[];

/** Statements whose answer depends on the day. */
const NAMES_DAY = /\b(today|yesterday)\b/i;
/** Temporary credentials live for an hour or more. */
const RENEW_ACCESS_MS = 300_000;
/** How old a listing of a service may be: what is sealed appears this much later. One of years costs some requests. */
const MAX_LISTED_MS = 1_000;
/** A statement whose dates change all the time is given up after these; a service gives up soon after. */
const MIN_RUNS = 3;
const RETRY_MS = 25_000;
/** Dates that a message lists by name. */
const MAX_NAMED = 20;
/** Only small results, such as EXPLAIN output, return as messages; answers go to a file. */
const MAX_MESSAGE_BYTES = 64_000_000;
/** The only statements beside a SELECT, without comments. They do not run: we know the answer. */
const SHOW_TABLES = /^\s*show\s+tables[\s;]*$/i;
const DESCRIBE = /^\s*desc(?:ribe)?(?:\s+table)?\s+(?:([`"])([^`"\\]+)\1|(\w+))[\s;]*$/i;
const QUOTED_OR_COMMENT = /(['"`]).*?\1|--[^\n]*|#[^\n]*|\/\*.*?\*\//gs;

/** The pool for `query`, with an archive's folder; a caller starts it before it has found the store. */
export function describeWorkers(folder: string): Omit<WorkerPoolOptions, 'command'> {
  return { folder: join(folder, 'engine'), size: 1, maxWaiting: 1, maxResultBytes: MAX_MESSAGE_BYTES };
}

/** @throws Fault `ARCHIVE_LOCATION_INVALID` (usage), StoreFault; those of `openServerRunner` */
export async function openArchive(options: ArchiveOptions) {
  const { store, datasets, types, calendar } = options;
  const here = new EmbeddedRunner();
  let opened = await openFiles(options);
  const server = options.server && (await openServerRunner(opened.access, options.server, here));
  const runner = server ?? here;
  const known = listTables(datasets, options.trades);
  const names = known.map(({ name }) => name);
  /** By dataset: manifests that have not changed are not read again. */
  const watches = new Map<string, ReturnType<typeof watchSealed>>();
  let guard: Guard | undefined;
  return {
    databases: here.databases,
    /** Of statements of `stream`, besides its caller's limits. */
    settings: { ...READ_SETTINGS, ...WITHOUT_CACHES },
    readDates,
    stream,
    query,
  };

  /** The dates behind the API's tables, ascending. @throws Fault `ARCHIVE_EMPTY`, `NO_TRADES` (usage); those of `openTables` */
  async function readDates(): Promise<readonly string[]> {
    const all = known.filter(({ name }) => name === TABLES[0]);
    const [table] = await openTables(all, await openWith());
    return table?.dates ?? [];
  }

  /**
   * Runs a statement that the caller's guard admitted to its end; when it resolves, the query has succeeded. This machine
   * answers, in an engine of the caller's.
   * @throws EngineFault; Fault `DROP_DAMAGED`, `MANIFEST_INVALID`, `ARCHIVE_CHANGING`, StoreFault
   */
  async function stream<T>(engine: PooledEngine, text: string, run: () => Promise<T>): Promise<T> {
    return await settle(engine, text, MAX_LISTED_MS, async (tables) => {
      await here.show(engine, text, tables);
      return await run();
    });
  }

  /**
   * Writes the answer of one statement of a caller to a file. Each statement lists the sealed dates again.
   * @param pool by `describeWorkers`; the caller closes it, also in the middle of a statement
   * @throws Fault `INVALID_SQL`, `INVALID_QUERY`, `NO_TRADES`, `NO_SUMMARY`, `REPORT_COLUMNS_MISSING`,
   *   `DATASET_UNCLEAR` (usage), `ARCHIVE_EMPTY`, `ARCHIVE_CHANGING`, `QUERY_TOO_BROAD`, `DROP_DAMAGED`, `MANIFEST_INVALID`,
   *   `ARCHIVE_UNREADABLE`, `OUT_FAILED`, `ENGINE_FAILED`, `INTERRUPTED`; of a server `ENGINE_COLLECTION`,
   *   `ENGINE_CLUSTER`, `ENGINE_RIGHTS`, `ENGINE_UNREACHABLE`, `NAME_TAKEN` (usage)
   */
  async function query(pool: EnginePool, request: ArchiveQuery): Promise<ArchiveAnswer> {
    const { sql, signal } = request;
    const asker = { owner: 'query', signal };
    const bare = sql.replaceAll(QUOTED_OR_COMMENT, (part, quote) => (quote ? part : ' '));
    const isShow = SHOW_TABLES.test(bare);
    const [, , quoted, plain] = DESCRIBE.exec(bare) ?? [];
    const described = quoted ?? plain;
    const select = described === undefined ? sql : `SELECT * FROM ${quoteIdentifier(described)}`;
    try {
      guard ??= await openGuard(pool, here.databases, [], names);
      const shown = isShow ? selectTexts('description', await listShown()) : undefined;
      const text = shown ?? (await guard.admit(select, asker));
      return await pool.use(asker, async (engine) =>
        write(engine, described === undefined ? text : await describeTable(engine, text), request),
      );
    } catch (error) {
      if (signal.aborted) {
        throw new Fault('INTERRUPTED', 'stopped before it was finished', {
          kind: 'interrupted',
          hint: 'Nothing was written; start the same command again.',
        });
      }
      const { secrets } = opened.files;
      if (!(error instanceof Refusal)) throw describeQueryFailure(error, sql, types, secrets);
      if (error.cause !== undefined) throw describeQueryFailure(error.cause, sql, types, secrets);
      const shown = await listShown().catch(() => datasets.map((name) => [plainName(name)]));
      throw new Fault(error.code, error.message, {
        kind: 'usage',
        hint: `Allowed are SHOW TABLES, DESCRIBE TABLE and one SELECT over ${shown.map(([name]) => name).join(', ')}, in ClickHouse SQL, without settings, formats, files and addresses. \`flowdrop query "SHOW TABLES"\` describes them.`,
      });
    }
  }

  async function write(engine: PooledEngine, text: string, request: ArchiveQuery): Promise<ArchiveAnswer> {
    return await settle(engine, text, 0, async (tables, runs) => {
      const coverage = await readCoverage(text, tables, request.lastSession);
      const isAgain = runs > 1;
      if (isAgain) await rm(request.path, { force: true });
      // Above the first limit the statement fails, so the machine does not run out of memory.
      const own = { max_memory_usage: request.maxMemoryBytes, ...opened.files.threads };
      const limits = isAgain ? { ...own, ...WITHOUT_CACHES } : own;
      return { coverage, ...(await runner.write(engine, text, tables, { ...request, limits })) };
    });
  }

  /**
   * Opens and narrows the tables of a statement and runs it over them; again if what it read has changed meanwhile, or the
   * day, by which dates may be chosen.
   * @param maxListedMs how old listings may be @throws Fault `ARCHIVE_CHANGING`; those of opening and running
   */
  async function settle<T>(
    engine: PooledEngine,
    text: string,
    maxListedMs: number,
    run: (tables: readonly OpenTable[], runs: number) => Promise<T>,
  ): Promise<T> {
    const startedMs = elapsedMs(systemClock);
    const tokens = new Set(listTokens(text).map(({ value }) => value));
    const named = known.filter(({ name }) => tokens.has(name));
    let isAnyDay = false;
    let touched: DatesRead | undefined;
    for (let runs = 1; runs <= MIN_RUNS || elapsedMs(systemClock) - startedMs <= RETRY_MS; runs += 1) {
      const context = await openWith(engine, maxListedMs);
      touched = undefined;
      try {
        const days = await readDays(text);
        const tables = await openTables(named, context);
        const reads = isAnyDay ? readAll(tables) : await here.resolve(engine, text, tables);
        for (const table of tables) await table.narrow(reads);
        touched = tables.map((table) => [table.sealed, table.touched.map(({ date }) => date)]);
        const done = await run(tables, runs);
        const isNextDay = new Set([...days, ...(await readDays(text))]).size > 1;
        if ((isAnyDay || !isNextDay) && (await areUnchanged(touched))) return done;
        // The second run reads the dates of every day.
        isAnyDay ||= isNextDay;
      } catch (error) {
        // What was replaced while it was read looks damaged.
        const sets = (await Promise.allSettled(context.listed.values())).filter((one) => one.status === 'fulfilled');
        if (await areUnchanged(touched ?? sets.map(({ value }) => [value, value.dates]))) throw error;
      }
    }
    const dates = touched?.flatMap(([, some]) => some) ?? [];
    throw new Fault('ARCHIVE_CHANGING', `dates of the query kept being restated: ${listFirst(dates, MAX_NAMED)}`, {
      hint: 'Query again when the run that restates them has ended.',
    });
  }

  async function areUnchanged(read: DatesRead): Promise<boolean> {
    const found = await Promise.all(read.map(([set, dates]) => watchOf(set.dataset).isUnchanged(set, dates)));
    return !found.includes(false);
  }

  function watchOf(dataset: string) {
    const watch = watches.get(dataset) ?? watchSealed(store, dataset);
    watches.set(dataset, watch);
    return watch;
  }

  /** The days that `today()` means, here and on the server, if the statement names one. */
  async function readDays(text: string): Promise<readonly string[]> {
    if (!NAMES_DAY.test(text)) return [];
    const rows = (await server?.rows<{ readonly day: string }>('SELECT toString(today()) AS day')) ?? [];
    return [new Date(systemClock.now()).toISOString().slice(0, 10), ...rows.map(({ day }) => day)];
  }

  /** How tables are opened, with one listing of each dataset. @param engine absent: summaries are not read */
  async function openWith(engine?: PooledEngine, maxListedMs = 0) {
    if (elapsedMs(systemClock) >= opened.untilMs) opened = await openFiles(options);
    const listed = new Map<string, Promise<SealedSet>>();
    const openSealed = (dataset: string) => {
      const found = listed.get(dataset) ?? watchOf(dataset).list(maxListedMs);
      listed.set(dataset, found);
      return found;
    };
    const files = server?.files ?? opened.files;
    return { ...options, engine: engine && (server ?? engine), files, listed, openSealed };
  }

  /** The tables that can be read now, each by the name that needs no quotes if it has one. */
  async function listShown(): Promise<readonly (readonly [name: string, text: string])[]> {
    const shown = new Map<string, string>();
    const context = await openWith();
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
    const [table] = await openTables(named, await openWith(engine));
    // A name in another case: it fails as the SELECT does.
    if (table === undefined) return text;
    await table.describeAll();
    const columns = table.columns().map(({ name, type }) => [name, type]);
    return selectTexts('type', columns);
  }

  /** What the answer lacks; a date on which no row met the job's condition lacks in none. */
  async function readCoverage(
    text: string,
    tables: readonly OpenTable[],
    lastSession: string,
  ): Promise<readonly Coverage[]> {
    return await Promise.all(
      describeCoverage(tables, lastSession, calendar, listNamed(text)).map(async (one) => {
        if (one.missing.length === 0) return one;
        const { entries } = await new Ledger(store, one.dataset).conditions();
        return { ...one, missing: one.missing.filter((date) => entries.get(date)?.condition !== 'empty') };
      }),
    );
  }
}

/** How this machine reads the files, and how long it may. */
async function openFiles({ readAccess, folder }: Pick<ArchiveOptions, 'readAccess' | 'folder'>) {
  const access = await readAccess();
  const isTemporary = access.kind === 's3' && access.sessionToken !== undefined;
  const untilMs = isTemporary ? elapsedMs(systemClock) + RENEW_ACCESS_MS : Number.POSITIVE_INFINITY;
  return { access, files: await openStoreFiles(access, folder), untilMs };
}

/** A statement for these rows, with the columns `name` and another. */
function selectTexts(column: string, rows: readonly (readonly string[])[]): string {
  const list = rows.map((row) => `(${row.map(quoteString).join(', ')})`).join(', ');
  return `SELECT row.1 AS name, row.2 AS ${column} FROM (SELECT arrayJoin(CAST([${list}], 'Array(Tuple(String, String))')) AS row)`;
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
