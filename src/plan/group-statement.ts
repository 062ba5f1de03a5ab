/**
 * The SQL that counts the groups of an aggregating job. Pure text. Groups are counted as the job's own SQL returns them,
 * and the answer is one row of arrays, as that of every probe. With the counts come notches: places inside a date at
 * which windows may be cut, so that pages are full although one grain has more groups than a page.
 */
import { SECONDS_PER_DAY } from '../calendar/wall-clock.ts';
import { axisOf, type Bound, type Window } from '../calendar/window.ts';
import { quoteIdentifier, quoteString } from '../engine/literal.ts';
import { secondOfDateSql } from '../engine/wall-clock-sql.ts';
import type { AggregateSource, SqlJob } from '../job/job.ts';
import { buildProbe, fillWindow, gatherDays, type ProbeSpan, spanCondition } from './statement.ts';
import { type DayEdges, joinKeys, keyColumns, windowCondition } from './window-condition.ts';

/** Most notches of a date: some for each page, however many pages it has, and few enough for one answer. */
const MAX_NOTCHES = 8192;
/** Lists of a count, renamed where the answer has two counts. */
const LISTS = ['dates', 'cells', 'counts', 'ids', 'marks', 'unreadable', 'notches'] as const;
/** Prefix of the names of the groups' lists beside those of the raw rows. */
export const GROUP_PREFIX = 'group_';

/** Groups by cell. Answer as of `buildProbe`, for the span's first date. */
export function buildGroupProbe(job: SqlJob, span: ProbeSpan): string {
  const { day, cell } = placesOf(groupsOf(job), span);
  return gatherDays(
    `SELECT ${day} AS q_day, ${cell} AS q_cell, count() AS q_rows, count() AS q_ids, '' AS q_mark, '' AS q_odd, 0 AS q_odds FROM (${selectGroups(job, span)}) GROUP BY q_day, q_cell ORDER BY q_day, q_cell`,
  );
}

/**
 * Groups by cell with notches, for each date of the span. Answer as of `buildProbe`, with `notches`: one list per date of
 * `[cell, second, keys, groups of the date before it]`, ascending. A notch is the first group with its keys.
 */
export function buildNotchedProbe(job: SqlJob, span: ProbeSpan): string {
  const source = groupsOf(job);
  const { day, cell, second } = placesOf(source, span);
  const keys = keyColumns(source, span.axis).map((name) => `ifNull(toString(${quoteIdentifier(name)}), '')`);
  // Without split keys the type of the list would be unknown.
  const key = keys.length === 0 ? 'emptyArrayString()' : `[${keys.join(', ')}]`;
  const groups = `SELECT ${day} AS q_day, ${cell} AS q_cell, ${second} AS q_second, ${key} AS q_key, count() AS q_n FROM (${selectGroups(job, span)}) GROUP BY q_day, q_cell, q_second, q_key ORDER BY q_day, q_cell, q_second, q_key`;
  const cells = `SELECT q_day, q_cell, sum(q_n) AS q_rows, groupArray((q_cell, q_second, q_key, q_n)) AS q_runs FROM (${groups}) GROUP BY q_day, q_cell ORDER BY q_day, q_cell`;
  const days = `SELECT q_day, groupArray(q_cell) AS c, groupArray(q_rows) AS ns, groupArrayArray(q_runs) AS runs, arrayCumSum(arrayMap(run -> tupleElement(run, 4), runs)) AS sums, greatest(1, intDiv(sum(q_rows), ${MAX_NOTCHES})) AS step FROM (${cells}) GROUP BY q_day ORDER BY q_day`;
  const before = `SELECT q_day, c, ns, step, runs, arrayPopBack(arrayPushFront(sums, 0)) AS befores FROM (${days})`;
  const notches = `arrayMap((run, b) -> (tupleElement(run, 1), tupleElement(run, 2), tupleElement(run, 3), b), runs, befores)`;
  const isNext = '(notch, b, last) -> intDiv(b, step) != intDiv(last, step)';
  const chosen = `SELECT q_day, c, ns, arrayFilter(${isNext}, ${notches}, befores, arrayPopBack(arrayPushFront(befores, 0))) AS found FROM (${before}) ORDER BY q_day`;
  return `SELECT groupArray(q_day) AS dates, groupArray(c) AS cells, groupArray(ns) AS counts, groupArray(ns) AS ids, groupArray(arrayMap(n -> '', ns)) AS marks, '' AS unreadable, groupArray(found) AS notches FROM (${chosen})`;
}

/** Raw rows by cell, as of `buildProbe`, and beside them the lists of `buildNotchedProbe` with prefixed names. */
export function buildJoinedProbe(job: SqlJob, span: ProbeSpan): string {
  const renamed = LISTS.map((name) => `${name} AS ${GROUP_PREFIX}${name}`).join(', ');
  return `SELECT * FROM (${buildProbe(job, span)}) AS q_raw CROSS JOIN (SELECT ${renamed} FROM (${buildNotchedProbe(job, span)})) AS q_groups`;
}

/** The place in the middle of a window's keys. Answer: one row `{rows, middle: [second, keys]}`. */
export function buildGroupMiddle(job: SqlJob, window: Window, edges: DayEdges): string {
  const source = groupsOf(job);
  const axis = axisOf(window) ?? 'time';
  const span: ProbeSpan = { ...window, fromDate: window.date, toDate: window.date, axis, edges };
  const keys = keyColumns(source, axis).map((name) => `toString(${quoteIdentifier(name)})`);
  const key = keys.length === 0 ? 'emptyArrayString()' : `[${keys.join(', ')}]`;
  const found = `arraySort(groupUniqArray((${placesOf(source, span).second}, ${key})))`;
  return `SELECT length(found) AS rows, found[intDiv(length(found), 2) + 1] AS middle FROM (SELECT ${found} AS found FROM (${fillWindow(source.sql, windowCondition(source, window, edges))}))`;
}

/** @param place `[second, keys]` of a group @returns `undefined` when it cannot be a bound */
export function readGroupPlace(symbol: string | undefined, place: unknown): Bound | undefined {
  const [second, keys] = Array.isArray(place) ? (place as readonly unknown[]) : [];
  if (typeof second !== 'number' || !Number.isInteger(second) || second < 0 || second > SECONDS_PER_DAY)
    return undefined;
  if (!Array.isArray(keys) || !keys.every((value) => typeof value === 'string')) return undefined;
  const at: Bound = symbol === undefined ? { second } : { symbol, second };
  if (keys.length === 0) return at;
  const id = joinKeys(keys);
  return id === undefined ? undefined : { ...at, id };
}

function groupsOf({ source }: SqlJob): AggregateSource {
  if (source.kind !== 'aggregate') throw new TypeError('only aggregating jobs have groups');
  return source;
}

/** Expressions on the rows of the job's own SQL. */
function placesOf(
  source: AggregateSource,
  { axis, fromDate, toDate }: Pick<ProbeSpan, 'axis' | 'fromDate' | 'toDate'>,
): { readonly day: string; readonly cell: string; readonly second: string } {
  const time = `toString(${quoteIdentifier(source.timeColumn)})`;
  // A group of an odd time belongs to the only date asked for; among several, to the date of its time.
  const day = fromDate === toDate ? quoteString(fromDate) : `substring(${time}, 1, 10)`;
  const isDaily = source.grainSeconds >= SECONDS_PER_DAY;
  const second = isDaily ? '0' : secondOfDateSql(time, day, source.grainSeconds);
  return { day, second, cell: axis === 'symbol' ? 'toString(symbol)' : second };
}

function selectGroups({ source }: SqlJob, span: ProbeSpan): string {
  return fillWindow(source.sql, spanCondition(source, span));
}
