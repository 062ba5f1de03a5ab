/**
 * The SQL that a job sends: probes, cuts and pages, of single trades or of groups, and how cuts are read. Pure. It works
 * whether the server stores `date` and `time` as strings or as dates. Aggregates are requested as arrays, so that one
 * answer row holds a whole day at any row limit. Groups are counted as the job's own SQL returns them. Invariant: the
 * conditions of windows that tile a date select every row of the date exactly once, for any `time`. A row whose time is
 * of an earlier date counts in the first second, one of a later date in the last. So the first window of a date has no
 * lower time bound and the last no upper one, unless the server refuses that (see `DayEdges`).
 */
import { TRADE_COLUMNS } from '../api-contract/trade.ts';
import { SESSION_END_SECOND } from '../calendar/segments.ts';
import type { CalendarOverride } from '../calendar/session.ts';
import { addDays, formatSecond, SECONDS_PER_DAY } from '../calendar/wall-clock.ts';
import { type Axis, axisOfStretch, type Bound, type Stretch, type Window } from '../calendar/window.ts';
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
import { secondOfDateSql } from '../engine/wall-clock-sql.ts';
import type { SqlJob, SqlSource } from '../job/job.ts';
import { readCount } from './counts.ts';
import { lateSecond, tailSecond } from './session-end.ts';

/** Dates `[from, to]`, both included, and the stretch of each to count: with several dates the whole day. */
export interface ProbeSpan extends Stretch {
  readonly fromDate: string;
  readonly toDate: string;
  /** The cells by which rows are counted. */
  readonly axis: Axis;
  /** Columns whose values are hashed, beside the ids; if absent, nothing is hashed. */
  readonly hashed?: readonly HashedColumn[] | undefined;
  readonly edges: DayEdges;
}

/** A server may store `time` as text or as a date with time, and `date` as text or as a date. */
const TIME_TEXT = 'toString(time)';
const DAY_TEXT = 'toString(date)';
const SYMBOL_TEXT = "ifNull(toString(symbol), '')";
/** Whether the text of a time has no second where the contract has one. */
const IS_UNREADABLE_TIME = `(length(${TIME_TEXT}) < 19 OR substring(${TIME_TEXT}, 11, 1) != ' ')`;
/** Lists of a count, renamed where the answer has two counts. */
const LISTS = ['dates', 'cells', 'counts', 'ids', 'marks', 'unreadable'] as const;
/** Prefix of the names of the groups' lists beside those of the raw rows. */
export const GROUP_PREFIX = 'group_';

/** What a request is about: the table's rows (of a job's own SELECT of single trades, its rows), or the job's groups. */
export type Counted = 'rows' | 'groups';

/**
 * Counts by cell of the dates of a span. The answer is a single row, so that no row limit can truncate it unnoticed:
 * `{dates: string[], cells: (int | string)[][], counts: int[][], ids: int[][], marks: string[][]}`, one inner array per
 * date, ascending. Cells are seconds of the day on the time axis (of groups, their grains), symbols on the other. Also
 * `unreadable: string`: if at least half the rows of a date have a `time` without a second, one such text in quotes;
 * otherwise empty, because a few such rows are quarantined when their page arrives. If hashes are requested, also
 * `id_hashes: string[][]` and, with columns, `value_hashes: string[][]`. Groups have neither ids nor marks nor hashes.
 */
export function buildProbe(job: SqlJob, span: ProbeSpan, of: Counted = 'rows'): string {
  const { source } = job;
  const { day, cell } = placeSql(source, span, of);
  const condition =
    span.fromDate === span.toDate
      ? windowCondition(source, { date: span.fromDate, from: span.from, to: span.to }, span.edges)
      : datesCondition(span.fromDate, span.toDate, span.edges);
  const isGroups = of === 'groups';
  const distinct = source.kind === 'rows' ? 'uniqExact(id)' : 'count()';
  const mark = !isGroups && hasUpdates(source) ? updateMarkSql('updated_timestamp') : "''";
  const odd = isGroups ? NOTHING_ODD : unreadableSql(span);
  const hashes = isGroups ? [] : hashSql(span.hashed);
  const hashed = hashes.map(({ name, sql }) => `, ${sql} AS q_${name}`).join('');
  const cells = `SELECT ${day} AS q_day, ${cell} AS q_cell, count() AS q_rows, ${distinct} AS q_ids, ${mark} AS q_mark, ${odd}${hashed} FROM ${readRows(source, condition, of)} GROUP BY q_day, q_cell ORDER BY q_day, q_cell`;
  return gatherDays(
    cells,
    hashes.map(({ name }) => name),
  );
}

/** Raw rows by cell, as of `buildProbe`, and beside them the lists of the groups with prefixed names. */
export function buildJoinedProbe(job: SqlJob, span: ProbeSpan): string {
  const renamed = LISTS.map((name) => `${name} AS ${GROUP_PREFIX}${name}`).join(', ');
  return `SELECT * FROM (${buildProbe(job, span)}) AS q_raw CROSS JOIN (SELECT ${renamed} FROM (${buildProbe(job, span, 'groups')})) AS q_groups`;
}

/** Expressions of a row's date, its second (a group's grain), and its cell. */
function placeSql(
  source: SqlSource,
  { axis, fromDate, toDate }: Pick<ProbeSpan, 'axis' | 'fromDate' | 'toDate'>,
  of: Counted,
): { readonly day: string; readonly second: string; readonly cell: string } {
  if (source.kind === 'rows' || of === 'rows') {
    const second = secondOfDateSql(TIME_TEXT, DAY_TEXT);
    return { day: DAY_TEXT, second, cell: axis === 'symbol' ? SYMBOL_TEXT : second };
  }
  const time = `toString(${quoteIdentifier(source.timeColumn)})`;
  // A group of an odd time belongs to the only date asked for; among several, to the date of its time.
  const day = fromDate === toDate ? quoteString(fromDate) : `substring(${time}, 1, 10)`;
  const isDaily = source.grainSeconds >= SECONDS_PER_DAY;
  const second = isDaily ? '0' : secondOfDateSql(time, day, source.grainSeconds);
  return { day, second, cell: axis === 'symbol' ? SYMBOL_TEXT : second };
}

const NOTHING_ODD = "'' AS q_odd, 0 AS q_odds";

/** Number of unreadable times in a cell, and one of them in quotes. A part of a date proves nothing about the date. */
function unreadableSql({ from, to }: ProbeSpan): string {
  if (axisOfStretch({ from, to }) !== undefined) return NOTHING_ODD;
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
  const to = quoteString(formatTime(date, SESSION_END_SECOND));
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
 */
function gatherDays(ordered: string, hashes: readonly string[]): string {
  const each = hashes.map((name) => `, groupArray(q_${name}) AS ${name}s`).join('');
  const all = hashes.map((name) => `, groupArray(${name}s) AS ${name}es`).join('');
  const perDay = `SELECT q_day, groupArray(q_cell) AS c, groupArray(q_rows) AS ns, groupArray(q_ids) AS us, groupArray(q_mark) AS ms, if(sum(q_odds) * 2 >= sum(q_rows), max(q_odd), '') AS strange${each} FROM (${ordered}) GROUP BY q_day ORDER BY q_day`;
  return `SELECT groupArray(q_day) AS dates, groupArray(c) AS cells, groupArray(ns) AS counts, groupArray(us) AS ids, groupArray(ms) AS marks, max(strange) AS unreadable${all} FROM (${perDay})`;
}

/**
 * The places at which a window has to be cut to get parts of equal size: the keys of rows of one second, or of groups of one
 * grain, give their order. Answer: one row `{rows, cuts}`, each cut `[symbol, second, keys]`; `readCut` reads them.
 * Groups with the same keys are counted once.
 */
export function buildCuts({ source }: SqlJob, window: Window, axis: Axis, parts: number, edges: DayEdges): string {
  const { second } = placeSql(source, { axis, fromDate: window.date, toDate: window.date }, 'groups');
  const keys = keyColumns(source, axis).map((name) => `ifNull(toString(${quoteIdentifier(name)}), '')`);
  // Without keys the type of the list would be unknown.
  const key = keys.length === 0 ? 'emptyArrayString()' : `[${keys.join(', ')}]`;
  const place = `(${axis === 'symbol' ? SYMBOL_TEXT : "''"}, ${second}, ${key})`;
  const places = `arraySort(${source.kind === 'rows' ? 'groupArray' : 'groupUniqArray'}(${place}))`;
  return `SELECT length(places) AS rows, arrayMap(part -> places[intDiv(length(places) * part, ${parts}) + 1], range(1, ${parts})) AS cuts FROM (SELECT ${places} AS places FROM ${readRows(source, windowCondition(source, window, edges), 'groups')})`;
}

/** @param cut from `buildCuts` @returns `undefined` when it cannot be a bound of the window's parts */
export function readCut({ source }: SqlJob, window: Window, axis: Axis, cut: unknown): Bound | undefined {
  const [symbol, at, keys] = Array.isArray(cut) ? (cut as readonly unknown[]) : [];
  const counted = readCount(at);
  if (typeof symbol !== 'string' || counted === undefined || counted >= SECONDS_PER_DAY) return undefined;
  if (!Array.isArray(keys) || !keys.every((value) => typeof value === 'string')) return undefined;
  const id = keys.length === 0 ? undefined : joinKeys(keys);
  if (keys.length > 0 && id === undefined) return undefined;
  if (axis === 'symbol') return { symbol, second: counted - (counted % source.grainSeconds), id };
  const { from, to } = window;
  // The time of a group may be another one than that of its rows, by which windows are cut.
  const isBeforeEnd = counted < to.second || (counted === to.second && to.id !== undefined);
  const isInside = counted >= from.second && isBeforeEnd;
  return { second: isInside ? counted - (counted % source.grainSeconds) : from.second, id };
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
  return `SELECT count() AS rows FROM ${readRows(job.source, condition, 'groups')}`;
}

/** Whether the job's rows can be counted, and its windows cut, by symbol. */
export function canCutBySymbol({ source }: SqlJob): boolean {
  if (source.kind === 'aggregate') return source.keyColumns.includes('symbol');
  return source.sql === '' || source.columns.some(({ name }) => name === 'symbol');
}

/** The FROM clause: the table, or the user's own SELECT, with a condition. */
function readRows(source: SqlSource, condition: string, of: Counted = 'rows'): string {
  if (source.sql !== '' && (source.kind === 'rows' || of === 'groups')) {
    return `(${fillWindow(source.sql, condition)})`;
  }
  const extra = source.kind === 'rows' && source.where !== '' ? [`(${source.where})`] : [];
  return `${source.table} WHERE ${[condition, ...extra].join(' AND ')}`;
}

/** Aggregating jobs read the table's own rows; SQL of single trades may omit the column. */
function hasUpdates(source: SqlSource): boolean {
  return source.kind === 'aggregate' || source.columns.some(({ name }) => name === 'updated_timestamp');
}

function fillWindow(sql: string, condition: string): string {
  return sql.replaceAll('{window}', `(${condition})`);
}

/**
 * `open`: all rows of a date. `closed`: only rows whose time also lies on the date. A server that finds rows only by
 * their time needs `closed`, because a window without a time bound would read its whole table.
 */
type DayEdges = 'open' | 'closed';

/** Between the values of several keys in a bound: below any character, so texts sort as the lists of values do. */
const KEY_SEPARATOR = '\u0000';

/** A condition, or what holds for every row. */
type Test = string | boolean;

/** Which rows lie on a bound's side of a value of one column; the next column orders the rows with that value. */
interface Level {
  readonly beyond: Test;
  readonly upTo: Test;
  /** Without a next column. */
  readonly alone: Test;
}

/** The condition of a window on `date`, `symbol`, `time` and, if it is cut inside a second or a grain, its keys. */
function windowCondition(source: SqlSource, { date, from, to }: Window, edges: DayEdges): string {
  const keys = keyColumns(source, axisOfStretch({ from, to }) ?? 'time').map(comparedKey);
  const isAlone = from.symbol !== undefined && from.symbol === to.symbol;
  const onSide = (isFrom: boolean, { symbol, second, id }: Bound) =>
    isBeside([
      ...(symbol === undefined || isAlone ? [] : [columnLevel('symbol', symbol, isFrom)]),
      timeLevel(date, second, source.grainSeconds, isFrom),
      ...(id === undefined ? [] : splitKeys(id, keys.length)).map((value, at) =>
        columnLevel(keys[at] ?? '', value, isFrom),
      ),
    ]);
  const ofSymbol = isAlone ? [`symbol = ${quoteString(from.symbol ?? '')}`] : [];
  const tests = [datesCondition(date, date, edges), ...ofSymbol, onSide(true, from), onSide(false, to)];
  return tests.reduce<Test>(and, true).toString();
}

/** The condition of whole dates, both included. */
function datesCondition(fromDate: string, toDate: string, edges: DayEdges): string {
  const dates =
    fromDate === toDate
      ? [`date = ${quoteString(fromDate)}`]
      : [`date >= ${quoteString(fromDate)}`, `date <= ${quoteString(toDate)}`];
  const times = [`time >= ${timeText(fromDate, 0)}`, `time < ${timeText(toDate, SECONDS_PER_DAY)}`];
  return [...dates, ...(edges === 'open' ? [] : times)].join(' AND ');
}

/** The columns that tell rows of one second, or groups of one grain, apart; a symbol's cell has one symbol. */
function keyColumns(source: SqlSource, axis: Axis): readonly string[] {
  return source.keyColumns.filter((name) => axis === 'time' || name !== 'symbol');
}

/** The values of the keys as the `id` of a bound; `undefined` if one of them cannot be in a bound. */
function joinKeys(values: readonly string[]): string | undefined {
  if (values.length > 1 && values.some((value) => value.includes(KEY_SEPARATOR))) return undefined;
  return values.join(KEY_SEPARATOR);
}

function splitKeys(id: string, count: number): readonly string[] {
  return count > 1 ? id.split(KEY_SEPARATOR) : [id];
}

/** Bounds are texts: other columns than texts are compared as texts, too. */
function comparedKey(name: string): string {
  return TRADE_COLUMNS.find((column) => column.name === name)?.wire === 'string' ? name : `toString(${name})`;
}

function columnLevel(column: string, value: string, isFrom: boolean): Level {
  const test = (sign: string) => `${column} ${sign} ${quoteString(value)}`;
  return isFrom
    ? { beyond: test('>'), upTo: test('>='), alone: test('>=') }
    : { beyond: test('<'), upTo: test('<='), alone: test('<') };
}

function timeLevel(date: string, second: number, grain: number, isFrom: boolean): Level {
  const since = (at: number) => at <= 0 || (at < SECONDS_PER_DAY && `time >= ${timeText(date, at)}`);
  const until = (at: number) => at >= SECONDS_PER_DAY || (at > 0 && `time < ${timeText(date, at)}`);
  return isFrom
    ? { beyond: since(second + grain), upTo: since(second), alone: since(second) }
    : { beyond: until(second), upTo: until(second + grain), alone: until(second) };
}

/** The first column alone comes first in each condition: a server finds rows by it. */
function isBeside([level, ...deeper]: readonly Level[]): Test {
  if (level === undefined || deeper.length === 0) return level?.alone ?? true;
  const inside = isBeside(deeper);
  return inside === false ? level.beyond : and(level.upTo, or(level.beyond, inside));
}

function and(a: Test, b: Test): Test {
  if (typeof a === 'boolean') return a && b;
  return typeof b === 'boolean' ? b && a : `${a} AND ${b}`;
}

function or(a: Test, b: Test): Test {
  if (typeof a === 'boolean') return a || b;
  return typeof b === 'boolean' ? b || a : `(${a} OR ${b})`;
}

function timeText(date: string, second: number): string {
  return quoteString(formatTime(date, second));
}

/** `YYYY-MM-DD HH:MM:SS`; the end of a day is the next date's midnight. */
function formatTime(date: string, second: number): string {
  return second >= SECONDS_PER_DAY ? `${addDays(date, 1)} 00:00:00` : `${date} ${formatSecond(second)}`;
}
