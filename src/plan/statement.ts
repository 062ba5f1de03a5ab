/**
 * The SQL that a job sends: probes, cuts and pages, of single trades or of groups, and how cuts are read. Pure. It works
 * whether the server stores `date` and `time` as strings or as dates. Aggregates are requested as arrays, so that one
 * answer row holds a whole day at any row limit. Groups are counted as the job's own SQL returns them.
 */
import { SESSION_END_SECOND } from '../calendar/segments.ts';
import type { CalendarOverride } from '../calendar/session.ts';
import { SECONDS_PER_DAY } from '../calendar/wall-clock.ts';
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
import {
  type DayEdges,
  datesCondition,
  formatTime,
  joinKeys,
  keyColumns,
  windowCondition,
} from './window-condition.ts';

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
