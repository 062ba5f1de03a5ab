/**
 * The SQL that a job sends: probes, middles and pages, and how its places are read. Pure. It works whether the server stores `date` and `time` as
 * strings or as dates. Aggregates are requested as arrays, so that one answer row holds a whole day at any row limit.
 */
import type { CalendarOverride } from '../calendar/session.ts';
import { SECONDS_PER_DAY } from '../calendar/wall-clock.ts';
import { axisOfStretch, type Bound, type Stretch, type Window } from '../calendar/window.ts';
import { quoteIdentifier, quoteString } from '../engine/literal.ts';
import {
  type HashedColumn,
  idHashSql,
  ROW_ID_HASH,
  ROW_VALUE_HASH,
  rowIdHashSql,
  rowValueHashSql,
  valueHashSql,
} from '../engine/row-hash.ts';
import { updateMarkSql } from '../engine/update-mark.ts';
import { clampToDateSql, secondOfDateSql } from '../engine/wall-clock-sql.ts';
import type { SqlJob, SqlSource } from '../job/job.ts';
import { lastTradeSecond, lateSecond, tailSecond } from './session-end.ts';
import { type DayEdges, datesCondition, formatTime, windowCondition } from './window-condition.ts';

/** Dates `[from, to]`, both included, and the stretch of each to count: with several dates the whole day. */
export interface ProbeSpan extends Stretch {
  readonly fromDate: string;
  readonly toDate: string;
  /** The cells by which rows are counted. */
  readonly axis: 'time' | 'symbol';
  /** Columns whose values are hashed, beside the ids; if absent, nothing is hashed. */
  readonly hashed?: readonly HashedColumn[] | undefined;
  /** Whether places inside the cells are listed at which windows may be cut; see `Notch`. */
  readonly isNotched?: boolean | undefined;
  readonly edges: DayEdges;
}

/** A server may store `time` as text or as a date with time, and `date` as text or as a date. */
const TIME_TEXT = 'toString(time)';
const DAY_TEXT = 'toString(date)';
/** Whether the text of a time has no second where the contract has one. */
const IS_UNREADABLE_TIME = `(length(${TIME_TEXT}) < 19 OR substring(${TIME_TEXT}, 11, 1) != ' ')`;
/** Length of the time of day in a place: `HH:MM:SS`. */
const TIME_LENGTH = 8;
/** Most notches of a date: some for each page of the largest date, and few enough for one answer. */
const MAX_NOTCHES = 32_768;

/** Time of day and id as one text that sorts in the order of the symbol axis. */
function placeSql(date: string): string {
  const inside = `substring(${TIME_TEXT}, 12, ${TIME_LENGTH})`;
  return `concat(${clampToDateSql(TIME_TEXT, quoteString(date), ["'00:00:00'", inside, "'23:59:59'"])}, id)`;
}

/**
 * Counts by cell of the dates of a span. The answer is a single row, so that no row limit can truncate it unnoticed:
 * `{dates: string[], cells: (int | string)[][], counts: int[][], ids: int[][], marks: string[][]}`, one inner array per
 * date, ascending. Cells are seconds of the day on the time axis, symbols on the other. Also `unreadable: string`: if
 * at least half the rows of a date have a `time` without a second, one such text in quotes; otherwise empty, because a
 * few such rows are quarantined when their page arrives. If hashes are requested, also `id_hashes: string[][]` and,
 * with columns, `value_hashes: string[][]`. If notches are requested, also `notches`: for each cell a list of `[second,
 * keys, rows of the cell before it]`, ascending; of single trades without keys, and only on the symbol axis.
 */
export function buildProbe(job: SqlJob, span: ProbeSpan): string {
  const cell = span.axis === 'symbol' ? "ifNull(toString(symbol), '')" : secondOfDateSql(TIME_TEXT, DAY_TEXT);
  const mark = hasUpdates(job.source) ? updateMarkSql('updated_timestamp') : "''";
  const distinct = job.source.kind === 'rows' ? 'uniqExact(id)' : 'count()';
  const hashes = hashSql(span.hashed);
  const hashed = hashes.map(({ name, sql }) => `, ${sql} AS q_${name}`).join('');
  const isNotched = span.isNotched === true && span.axis === 'symbol';
  const seconds = isNotched
    ? `, arraySort(groupArray(toUInt32(${secondOfDateSql(TIME_TEXT, DAY_TEXT)}))) AS q_seconds`
    : '';
  const cells = `SELECT ${DAY_TEXT} AS q_day, ${cell} AS q_cell, count() AS q_rows, ${distinct} AS q_ids, ${mark} AS q_mark, ${unreadableSql(span)}${hashed}${seconds} FROM ${readRows(job.source, spanCondition(job.source, span))} GROUP BY q_day, q_cell ORDER BY q_day, q_cell`;
  const names = hashes.map(({ name }) => name);
  return isNotched ? gatherDays(withSeconds(cells), names, true) : gatherDays(cells, names);
}

/** Adds the places before each second of a cell but the first, from its sorted seconds. */
function withSeconds(cells: string): string {
  const isFirst = (list: string) => `arrayFilter((x, d) -> d > 0, ${list}, arrayDifference(q_seconds))`;
  const firsts = `${isFirst('q_seconds')}, ${isFirst('arrayEnumerate(q_seconds)')}`;
  return `SELECT *, arrayMap((second, rank) -> (second, emptyArrayString(), rank - 1), ${firsts}) AS q_places FROM (${cells}) ORDER BY q_day, q_cell`;
}

/** Number of unreadable times in a cell, and one of them in quotes. A part of a date proves nothing about the date. */
function unreadableSql({ from, to }: ProbeSpan): string {
  if (from.second > 0 || from.symbol !== undefined || to.symbol !== undefined || to.second < SECONDS_PER_DAY)
    return "'' AS q_odd, 0 AS q_odds";
  return `maxIf(concat('"', ${TIME_TEXT}, '"'), ${IS_UNREADABLE_TIME}) AS q_odd, countIf(${IS_UNREADABLE_TIME}) AS q_odds`;
}

/** Aggregates over the rows of a cell, by the singular name of their list in the answer. */
function hashSql(
  hashed: readonly HashedColumn[] | undefined,
): readonly { readonly name: string; readonly sql: string }[] {
  if (hashed === undefined) return [];
  const ids = { name: 'id_hash', sql: idHashSql() };
  return hashed.length === 0 ? [ids] : [ids, { name: 'value_hash', sql: valueHashSql(hashed) }];
}

/**
 * Rows of a stretch with the source's own hashes. Answer: one row per trade with `id`, the hashed columns, and the
 * texts `flowdrop_id_hash` and `flowdrop_value_hash`.
 */
export function buildHashedRows(job: SqlJob, window: Window, hashed: readonly HashedColumn[], edges: DayEdges): string {
  const names = ['id', ...hashed.map(({ name }) => name)].map((name) => quoteIdentifier(name));
  const hashes = [
    `toString(${rowIdHashSql()}) AS ${ROW_ID_HASH}`,
    `toString(${rowValueHashSql(hashed)}) AS ${ROW_VALUE_HASH}`,
  ];
  const condition = windowCondition(job.source, window, edges);
  return `SELECT ${[...names, ...hashes].join(', ')} FROM ${readRows(job.source, condition)}`;
}

/**
 * The end of a session in the job's table, ignoring the job's filter: the newest time, and the number of rows, in total
 * and after the close of stock options. Answer: one row `{rows, late, newest}`. Both ends of the time range are
 * bounded, so that the server reads little.
 */
export function buildTail(job: SqlJob, date: string, calendar?: CalendarOverride): string {
  const from = quoteString(formatTime(date, tailSecond(date, calendar)));
  const to = quoteString(formatTime(date, lastTradeSecond(date, calendar)));
  const late = `countIf(time >= ${quoteString(formatTime(date, lateSecond(date, calendar)))})`;
  return `SELECT count() AS rows, ${late} AS late, max(${TIME_TEXT}) AS newest FROM ${job.source.table} WHERE date = ${quoteString(date)} AND time >= ${from} AND time < ${to}`;
}

/** Those of some dates of which the job's table has rows, ignoring the job's filter. Answer: one row `{dates: string[]}`. */
export function buildDatesWithRows(job: SqlJob, dates: readonly string[]): string {
  return `SELECT groupUniqArray(${DAY_TEXT}) AS dates FROM ${job.source.table} WHERE date IN (${dates.map(quoteString).join(', ')})`;
}

/** The newest time in the job's table from a session's end on. Answer: one row `{newest}`; empty without rows. */
export function buildNewest(job: SqlJob, date: string, calendar?: CalendarOverride): string {
  const from = quoteString(formatTime(date, tailSecond(date, calendar)));
  return `SELECT max(${TIME_TEXT}) AS newest FROM ${job.source.table} WHERE date >= ${quoteString(date)} AND time >= ${from}`;
}

/**
 * Gathers rows `(q_day, q_cell, q_rows, q_ids, q_mark, q_odd, q_odds)`, in order, into one row of arrays. The prefix
 * avoids the column names of user SQL, because an alias would hide such a column.
 * @param hashes names of further columns of the rows
 * @param isNotched whether they have `q_places`, each `(second, keys, rows of the cell before it)`: of these, about
 *   `MAX_NOTCHES` become notches
 */
export function gatherDays(ordered: string, hashes: readonly string[] = [], isNotched = false): string {
  const places = isNotched
    ? `, arrayMap(places -> ${thinSql('places', `greatest(1, intDiv(sum(q_rows), ${MAX_NOTCHES}))`)}, groupArray(q_places)) AS notchs`
    : '';
  const each = hashes.map((name) => `, groupArray(q_${name}) AS ${name}s`).join('') + places;
  const all = [...hashes, ...(isNotched ? ['notch'] : [])]
    .map((name) => `, groupArray(${name}s) AS ${name}es`)
    .join('');
  const perDay = `SELECT q_day, groupArray(q_cell) AS c, groupArray(q_rows) AS ns, groupArray(q_ids) AS us, groupArray(q_mark) AS ms, if(sum(q_odds) * 2 >= sum(q_rows), max(q_odd), '') AS strange${each} FROM (${ordered}) GROUP BY q_day ORDER BY q_day`;
  return `SELECT groupArray(q_day) AS dates, groupArray(c) AS cells, groupArray(ns) AS counts, groupArray(us) AS ids, groupArray(ms) AS marks, max(strange) AS unreadable${all} FROM (${perDay})`;
}

/** Those of a cell's places that are a step of rows apart. */
function thinSql(places: string, step: string): string {
  const before = `arrayMap(place -> tupleElement(place, 3), ${places})`;
  const last = `arrayPopBack(arrayPushFront(${before}, 0))`;
  return `arrayFilter((place, last) -> intDiv(tupleElement(place, 3), ${step}) != intDiv(last, ${step}), ${places}, ${last})`;
}

/** A place of `placeSql`. */
function parseTimedPlace(place: string): { readonly second: number; readonly id: string } {
  const [hours, minutes, seconds] = place.slice(0, TIME_LENGTH).split(':').map(Number);
  const second = (hours ?? 0) * 3600 + (minutes ?? 0) * 60 + (seconds ?? 0);
  return { second, id: place.slice(TIME_LENGTH) };
}

/** The place in the middle of a window's single trades. Answer: one row `{rows, middle}`; `parseMiddle` reads it. */
export function buildMiddle(job: SqlJob, window: Window, edges: DayEdges): string {
  const condition = windowCondition(job.source, window, edges);
  const place =
    axisOfStretch(window) === 'symbol' ? `concat(toString(symbol), '@', ${placeSql(window.date)})` : 'toString(id)';
  return `SELECT count() AS rows, arraySort(groupArray(${place}))[intDiv(count(), 2) + 1] AS middle FROM ${readRows(job.source, condition)}`;
}

/** @param middle from `buildMiddle`: an id inside the window's only second, or symbol, time and id */
export function parseMiddle(window: Window, middle: string): Bound {
  if (axisOfStretch(window) !== 'symbol') return { second: window.from.second, id: middle };
  // If the window has a single symbol, its length is known, even if the symbol contains an `@`.
  const at =
    window.from.symbol !== undefined && window.from.symbol === window.to.symbol
      ? window.from.symbol.length
      : middle.indexOf('@');
  return { symbol: middle.slice(0, at), ...parseTimedPlace(middle.slice(at + 1)) };
}

/** The rows of a window. */
export function buildPage(job: SqlJob, window: Window, edges: DayEdges): string {
  const condition = windowCondition(job.source, window, edges);
  if (job.source.sql !== '') return fillWindow(job.source.sql, condition);
  const columns = job.source.columns.map((column) => column.name).join(', ');
  return `SELECT ${columns} FROM ${readRows(job.source, condition)}`;
}

/** Number of rows in the page of a window. Answer: one row `{rows}`. */
export function buildWindowCount(job: SqlJob, window: Window, edges: DayEdges): string {
  const condition = windowCondition(job.source, window, edges);
  const from =
    job.source.kind === 'rows' ? readRows(job.source, condition) : `(${fillWindow(job.source.sql, condition)})`;
  return `SELECT count() AS rows FROM ${from}`;
}

/** Whether the job's rows can be counted, and its windows cut, by symbol. */
export function canCutBySymbol({ source }: SqlJob): boolean {
  if (source.kind === 'aggregate') return source.splitColumns.includes('symbol');
  return source.sql === '' || source.columns.some(({ name }) => name === 'symbol');
}

export function spanCondition(source: SqlSource, { fromDate, toDate, from, to, edges }: ProbeSpan): string {
  if (fromDate === toDate) return windowCondition(source, { date: fromDate, from, to }, edges);
  return datesCondition(fromDate, toDate, edges);
}

/** The FROM clause: the table, or the user's own SELECT, with a condition. */
function readRows(source: SqlSource, condition: string): string {
  if (source.kind === 'rows' && source.sql !== '') return `(${fillWindow(source.sql, condition)})`;
  const extra = source.kind === 'rows' && source.where !== '' ? [`(${source.where})`] : [];
  return `${source.table} WHERE ${[condition, ...extra].join(' AND ')}`;
}

/** Aggregating jobs read the table's own rows; SQL of single trades may omit the column. */
function hasUpdates(source: SqlSource): boolean {
  return source.kind === 'aggregate' || source.columns.some(({ name }) => name === 'updated_timestamp');
}

export function fillWindow(sql: string, condition: string): string {
  return sql.replaceAll('{window}', `(${condition})`);
}
