/**
 * The dates of a ClickHouse server's table. It has no lookback, so any date can be named; a run without dates exports only
 * the last sessions, so that a new job does not copy years. A date is counted, streamed as a Parquet file from the server to
 * this disk, and sealed. Invariant: the published file has the server's own count and checksum, and another reader than its
 * writer confirms it. Nothing is staged: an interrupted date is streamed again. Values of every type are first written
 * as the stage would hold them, then typed by the same expressions as in every drop, so that a column means the same
 * wherever its rows came from.
 */
import { SESSION_END_SECOND } from '../../calendar/segments.ts';
import { type CalendarOverride, previousSessions } from '../../calendar/session.ts';
import { addDays, formatSecond, formatWallDate, parseSecond } from '../../calendar/wall-clock.ts';
import { Fault } from '../../core/errors.ts';
import { COLUMN_TYPES } from '../../engine/column-types.ts';
import { formatSettings, quoteIdentifier, quoteString } from '../../engine/literal.ts';
import { HAS_ID, selectRepeatedIds, selectSharedIds, tradeKeySql, versionKeySql } from '../../engine/repeated-ids.ts';
import { repeatsSql } from '../../engine/update-mark.ts';
import type { JobColumn } from '../../job/job.ts';
import type { Manifest } from '../../ledger/manifest.ts';
import type { CountTotals } from '../../plan/counts.ts';
import { assertNotFuture, lookbackOf } from '../../plan/dates.ts';
import { lateSecond, showsEnd, tailSecond } from '../../plan/session-end.ts';
import type { OpenedTable } from '../../run/open-source.ts';
import type { ExportRun } from '../../run/run.ts';
import {
  type DropChecksum,
  encodingOf,
  listDropColumns,
  readChecksum,
  readIndependently,
} from '../../seal/write-parquet.ts';
import { quoteTable } from '../../source/server-table.ts';
import { NO_QUARANTINE } from '../../stage/quarantine.ts';
import { type ExampleId, mostRepeated, repeatedFault } from '../../stage/window-conflicts.ts';
import type { DateExport, DateSource, ExportPlan, NoRows, PlannedDate, Waiting } from '../date-source.ts';
import type { DateSelection } from '../select-dates.ts';

/** Older servers declare texts as bytes, and may lack the memory to sort a day. */
const SERVER_SETTINGS = { output_format_parquet_string_as_string: 1, max_bytes_before_external_sort: 2_000_000_000 };

/** Sessions of a server's table that a run without dates exports. */
const RUN_SESSIONS = 15;

/** Count before, file, checksum. */
const STATEMENTS_A_DATE = 3;

/** After so many days a session counts as fully loaded, even if no later row exists. */
const LOADED_DAYS = 7;

export class TableDates implements DateSource {
  readonly #opened: OpenedTable;

  constructor(opened: OpenedTable) {
    this.#opened = opened;
  }

  /** @throws Fault `SERVER_TOO_OLD`, `TABLE_UNFIT` */
  async plan({ range, isWanted }: DateSelection): Promise<ExportPlan> {
    const { clocks, calendar, job } = this.#opened;
    const sql = await this.#readSql();
    const nowMs = clocks.earliest();
    const lookback = lookbackOf(job, nowMs, calendar);
    const { contested } = clocks.agreeOnDates(false);
    assertNotFuture(range, lookback, clocks.latest());
    const sessions = previousSessions(lookback.lastSettled ?? formatWallDate(nowMs), RUN_SESSIONS, calendar);
    const { from, to } = range ?? { from: sessions[0] ?? '', to: lookback.lastSettled ?? '' };
    const counted = await sql.ask<{ d: string; n: number }>(sql.dates(from, to));
    const settled = counted.filter(({ d }) => isWanted(d) && nowMs >= clocks.settledAt(d));
    const last = settled.at(-1)?.d ?? '';
    const isRecent = last !== '' && last >= addDays(lookback.lastSettled ?? last, -LOADED_DAYS);
    const unseen = isRecent && clocks.isChecked ? await this.#explainEnd(sql, last) : undefined;
    const found = settled.filter(({ d }) => unseen === undefined || d !== last);
    const isEmpty = (date: string) => !counted.some(({ d }) => d === date) && isWanted(date);
    return {
      lookback,
      dates: found.map(({ d, n }) => ({
        ...{ date: d, counts: [], rows: Number(n), pages: STATEMENTS_A_DATE },
        expiresAtMs: Number.POSITIVE_INFINITY,
      })),
      held: [
        ...contested.filter(({ date }) => isWanted(date)),
        ...(unseen === undefined ? [] : [{ date: last, reason: unseen }]),
      ],
      empty: new Set(range ? [] : sessions.filter(isEmpty)),
    };
  }

  async open(run: ExportRun, { date, rows: planned }: PlannedDate): Promise<DateExport | NoRows | Waiting> {
    const { source, job, clocks, signal } = this.#opened;
    const { onEvent, state } = run;
    const shape = await source.describe(signal);
    onEvent({ kind: 'date', date, rows: planned, staged: 0, pages: STATEMENTS_A_DATE });
    const sql = new TableSql(this.#opened, shape.types);
    const counts = await sql.count(date);
    const { rows, ids, trades } = counts;
    if (rows === 0) return { missing: [] };
    const held = clocks.explainHold(date, false);
    if (held !== undefined) return { held };
    const shared = ids < rows ? rows - ids - (await sql.countRepeats(date, 'key')) : 0;
    if (shared > mostRepeated(rows)) {
      const examples = await sql.ask<ExampleId>(sql.examples(date));
      const hint =
        'Nothing was published. Give each trade of the table a unique id, or set `source.table` to a view that does.';
      const what = `${shared} of ${rows} rows have the id of another trade, or none`;
      throw repeatedFault(date, what, examples, hint);
    }
    const query = sql.rows(job.drop.sort, date, trades < rows);
    const settings = formatSettings(shape.keepKnown({ ...encodingOf(job.drop.compression), ...SERVER_SETTINGS }));
    const path = state.drop(date);
    let checksum: DropChecksum;
    return {
      stage: { ...standIn(date, job.source.table, counts), countRepeats: (one) => sql.countRepeats(date, one) },
      file: { path, write: async () => checksum, discard: async () => undefined },
      fetch: async () => {
        await source.download(`${query.sorted} ${settings}`, 'Parquet', path, signal);
        // A truncated file has no footer: an interrupted stream, not a bug.
        await readIndependently(path);
        checksum = await readChecksum(source, query.select, listDropColumns(job.source.columns, [], []), { signal });
        onEvent({ kind: 'page', date, window: job.source.table, rows: checksum.rows });
      },
      prove: async () => {
        if (trades !== checksum.rows) throw unsettled(date, trades, checksum.rows);
        return { query: query.sorted, counted: counts };
      },
      explainUnsettled: () => unsettled(date, trades, checksum.rows),
    };
  }

  async findPresent(dates: readonly string[]) {
    const sql = await this.#readSql();
    const found = await sql.ask<{ d: string }>(sql.dates(dates[0] ?? '', dates.at(-1) ?? '', true));
    return { over: dates.filter((date) => found.some(({ d }) => d === date)), unsure: [] };
  }

  async compare(sealed: Manifest): Promise<readonly string[]> {
    const sql = await this.#readSql();
    const { rows, trades } = await sql.count(sealed.date);
    const found = sql.hasId ? trades : rows;
    if (found === sealed.rows) return [];
    return [`the source now has ${found} ${sql.hasId ? 'distinct ids' : 'rows'}, the drop ${sealed.rows} rows`];
  }

  async #readSql(): Promise<TableSql> {
    const { source, signal } = this.#opened;
    return new TableSql(this.#opened, (await source.describe(signal)).types);
  }

  /**
   * Why a date may not be fully loaded, in words; `undefined` when rows of a later date, or of the session's end, show that
   * it is. Rows exported without their time show nothing: then the clocks alone decide.
   */
  async #explainEnd(sql: TableSql, date: string): Promise<string | undefined> {
    const { calendar, job } = this.#opened;
    if (!job.source.columns.some(({ name }) => name === 'time')) return undefined;
    const [later] = await sql.ask<{ n: number }>(sql.later(date));
    if (Number(later?.n ?? 0) > 0) return undefined;
    const [end] = await sql.ask<{ n: number; late: number; newest: string }>(sql.tail(date, calendar));
    const rows = Number(end?.n ?? 0);
    const newest = rows === 0 ? undefined : parseSecond(end?.newest ?? '');
    if (showsEnd(date, { newest, tail: rows, late: Number(end?.late ?? 0) }, true, calendar)) return undefined;
    const seen =
      newest === undefined ? 'no rows from its last minutes' : `rows until ${formatSecond(newest)} (exchange time)`;
    return `the table has ${seen}, and no rows of a later date: it may not be completely loaded`;
  }
}

/** The server's rows take the place of a stage. */
function standIn(date: string, table: string, counts: TableCounts): Omit<DateExport['stage'], 'countRepeats'> {
  return {
    date,
    extraFields: async () => [],
    totals: async () => counts,
    countReplaced: async () => counts.rows - counts.trades,
    pages: async () => [{ window: table, rows: counts.rows }],
    quarantine: async () => NO_QUARANTINE,
    writeQuarantine: async () => undefined,
    forgetBad: async () => undefined,
    discard: async () => undefined,
  };
}

function unsettled(date: string, counted: number, streamed: number): Fault {
  return new Fault('DATE_UNSETTLED', `the server had ${counted} rows of ${date}, and ${streamed} a moment later`, {
    hint: 'Rows are still being loaded. Run again later; nothing was published.',
  });
}

/** ClickHouse type of each column of the table. */
type ColumnTypes = ReadonlyMap<string, string>;

class TableSql {
  readonly #opened: OpenedTable;
  readonly #types: ColumnTypes;
  readonly #names: readonly string[];
  readonly #table: string;
  /** The date of a row, comparable with a literal; the plain column where it can be, for the sake of the table's index. */
  readonly #day: string;
  readonly hasId: boolean;

  constructor(opened: OpenedTable, types: ColumnTypes) {
    const { source } = opened.job;
    this.#opened = opened;
    this.#types = types;
    this.#names = source.columns.map(({ name }) => name);
    this.#table = quoteTable(source.table);
    this.#day = types.get('date')?.includes('DateTime') ? 'toDate(date)' : 'date';
    this.hasId = this.#names.includes('id');
  }

  /** `d, n`: dates of `[from, to]` with rows, and their rows. @param isAll whatever the job's condition */
  dates(from: string, to: string, isAll = false): string {
    const range = `${this.#day} >= ${quoteString(from)} AND ${this.#day} <= ${quoteString(to)}`;
    const where = isAll ? range : this.#condition(range);
    return `SELECT toString(${this.#day}) AS d, count() AS n FROM ${this.#table} WHERE ${where} GROUP BY d ORDER BY d`;
  }

  async ask<Row extends object>(sql: string): Promise<readonly Row[]> {
    const { source, signal } = this.#opened;
    return await source.rows<Row>(sql, { signal });
  }

  /** The server's count of a date. */
  async count(date: string): Promise<TableCounts> {
    const distinct = this.hasId ? 'uniqExact(id)' : 'count()';
    const sql = `SELECT count() AS n, ${distinct} AS u FROM ${this.#table} WHERE ${this.#of(date)}`;
    const [counted] = await this.ask<{ n: number; u: number }>(sql);
    const [rows, ids] = [Number(counted?.n ?? 0), Number(counted?.u ?? 0)];
    return { rows, ids, trades: ids < rows ? rows - (await this.countRepeats(date, 'trade')) : rows };
  }

  /** `n`: whether the table has rows of a later date; 0 or 1. */
  later(date: string): string {
    return `SELECT count() AS n FROM (SELECT 1 FROM ${this.#table} WHERE ${this.#day} > ${quoteString(date)} LIMIT 1)`;
  }

  /**
   * `n, late, newest`: the end of a session in the whole table, without the job's filter: rows, rows after the close of stock
   * options, and the newest time of day.
   */
  tail(date: string, calendar?: CalendarOverride): string {
    const clock = 'substring(toString(time), 12, 8)';
    const at = (second: number) => quoteString(formatSecond(second));
    const late = `countIf(${clock} >= ${at(lateSecond(date, calendar))}) AS late`;
    const end = `${clock} >= ${at(tailSecond(date, calendar))} AND ${clock} < ${at(SESSION_END_SECOND)}`;
    return `SELECT count() AS n, ${late}, max(${clock}) AS newest FROM ${this.#table} WHERE ${this.#day} = ${quoteString(date)} AND ${end}`;
  }

  /** Rows of a date beyond one for each `version` of a trade, each `trade`, or each id, symbol, time and contract (`key`). */
  async countRepeats(date: string, one: 'version' | 'trade' | 'key'): Promise<number> {
    const where = `${this.#of(date)} AND ${HAS_ID}`;
    const repeated = `${where} AND id IN (${selectRepeatedIds(this.#table, where)})`;
    const names = this.#names;
    const number =
      one === 'trade'
        ? `count() - uniqExact(${versionKeySql(names, selectSharedIds(this.#table, repeated, names))})`
        : repeatsSql(tradeKeySql(names), one === 'version' && names.includes('updated_timestamp'));
    const [beyond] = await this.ask<{ n: number }>(`SELECT ${number} AS n FROM ${this.#table} WHERE ${repeated}`);
    return Number(beyond?.n ?? 0);
  }

  /** `id, rows, trades`: ids of a date that several trades have, the most frequent first. */
  examples(date: string): string {
    const trade = `arrayStringConcat([${tradeKeySql(this.#names)}], ' ')`;
    return `SELECT toString(id) AS id, count() AS rows, arraySlice(groupUniqArray(2)(${trade}), 1, 2) AS trades FROM ${this.#table} WHERE ${this.#of(date)} GROUP BY id HAVING rows > 1 ORDER BY uniq(${trade}) DESC, rows DESC, id LIMIT 3`;
  }

  /**
   * The typed rows of a date, unordered and with the drop's order.
   * @param hasDuplicates whether trades repeat: then only the row with the newest `updated_timestamp` is read
   */
  rows(sort: readonly string[], date: string, hasDuplicates: boolean): Readonly<Record<'select' | 'sorted', string>> {
    const { columns } = this.#opened.job.source;
    const names = this.#names.map(quoteIdentifier).join(', ');
    const where = this.#of(date);
    const newest = this.#names.includes('updated_timestamp') ? 'updated_timestamp DESC, ' : '';
    const repeated = `${where} AND id IN (${selectRepeatedIds(this.#table, where)})`;
    const key = versionKeySql(this.#names, selectSharedIds(this.#table, repeated, this.#names));
    // The hash decides where the timestamps do not, so that every statement picks the same row.
    const once = hasDuplicates ? ` ORDER BY ${newest}cityHash64(${names}) LIMIT 1 BY ${key}, ${NO_ID_APART}` : '';
    // Conditions are in a subquery: otherwise they would see the renamed columns.
    const raw = `SELECT ${names} FROM ${this.#table} WHERE ${where}${once}`;
    const staged = columns.map((column) => `${stageValue(column, this.#types)} AS ${quoteIdentifier(column.name)}`);
    const typed = columns.map((column) => `${typedValue(column)} AS ${quoteIdentifier(column.name)}`);
    const select = `SELECT ${typed.join(', ')} FROM (SELECT ${staged.join(', ')} FROM (${raw}) AS r) AS s`;
    const order = sort.map((name) => {
      const column = columns.find((candidate) => candidate.name === name);
      return column ? `${typedValue(column)} ASC NULLS LAST` : `s.${quoteIdentifier(name)}`;
    });
    return { select, sorted: `${select} ORDER BY ${order.join(', ')}` };
  }

  #of(date: string): string {
    return this.#condition(`${this.#day} = ${quoteString(date)}`);
  }

  #condition(dates: string): string {
    const { where } = this.#opened.job.source;
    return where === '' ? dates : `${dates} AND (${where})`;
  }
}

/** Rows without an id are distinguished by their number: all are kept. */
const NO_ID_APART = `if(${HAS_ID}, 0, rowNumberInAllBlocks() + 1)`;

/** A value as the stage would hold it: numbers with fractions and short integers as such, all else as text; null where it is null. */
function stageValue({ name, type, nullable }: JobColumn, types: ColumnTypes): string {
  const value = `r.${quoteIdentifier(name)}`;
  const from = types.get(name) ?? '';
  const isInstant = type === 'instant' && from.includes('DateTime');
  const text = isInstant ? `toString(toUnixTimestamp64Milli(toDateTime64(${value}, 3)))` : `toString(${value})`;
  // In a server's text, empty and null are two values; in the API's answers they are one.
  const known = nullable && type !== 'string' && from.includes('String') ? `nullIf(${text}, '')` : text;
  const to = (wanted: string) => (nullable ? `Nullable(${wanted})` : wanted);
  if (type === 'double') return `CAST(${from.includes('String') ? known : value} AS ${to('Float64')})`;
  if (type === 'int32') return `accurateCast(${from.includes('String') ? known : value}, '${to('Int32')}')`;
  return `CAST(${known} AS ${to('String')})`;
}

function typedValue({ name, type, nullable }: JobColumn): string {
  const value = `s.${quoteIdentifier(name)}`;
  if (!nullable) return COLUMN_TYPES[type].seal(value);
  return type === 'string' || type === 'double'
    ? value
    : `if(isNull(${value}), NULL, ${COLUMN_TYPES[type].seal(`assumeNotNull(${value})`)})`;
}

interface TableCounts extends CountTotals {
  /** Without the rows that a newer version of the same trade replaces. Without ids, each row is a trade. */
  readonly trades: number;
}
