/**
 * The SQL that counts the groups of an aggregating job. Pure text. Groups are counted as the job's own SQL returns them,
 * and the answer is one row of arrays, as that of every probe. With the counts come notches: places inside a date at
 * which windows may be cut, so that pages are full although one grain has more groups than a page.
 */
import { SECONDS_PER_DAY } from '../calendar/wall-clock.ts';
import { axisOfStretch, type Bound, type Window } from '../calendar/window.ts';
import { quoteIdentifier, quoteString } from '../engine/literal.ts';
import { secondOfDateSql } from '../engine/wall-clock-sql.ts';
import type { AggregateSource, SqlJob } from '../job/job.ts';
import { readCount } from './counts.ts';
import { buildProbe, fillWindow, gatherDays, type ProbeSpan, spanCondition } from './statement.ts';
import { type DayEdges, joinKeys, keyColumns, windowCondition } from './window-condition.ts';

/** Lists of a count, renamed where the answer has two counts. */
const LISTS = ['dates', 'cells', 'counts', 'ids', 'marks', 'unreadable', 'notches'] as const;
/** Prefix of the names of the groups' lists beside those of the raw rows. */
export const GROUP_PREFIX = 'group_';

/** Groups by cell, for each date of the span. Answer as of `buildProbe`; a notch is before the first group with its keys. */
export function buildGroupProbe(job: SqlJob, span: ProbeSpan): string {
  const source = groupsOf(job);
  const { day, cell, second } = placesOf(source, span);
  const rest = "'' AS q_mark, '' AS q_odd, 0 AS q_odds";
  if (span.isNotched !== true) {
    return gatherDays(
      `SELECT ${day} AS q_day, ${cell} AS q_cell, count() AS q_rows, count() AS q_ids, ${rest} FROM (${selectGroups(job, span)}) GROUP BY q_day, q_cell ORDER BY q_day, q_cell`,
    );
  }
  const keys = keyColumns(source, span.axis).map((name) => `ifNull(toString(${quoteIdentifier(name)}), '')`);
  // Without split keys the type of the list would be unknown.
  const key = keys.length === 0 ? 'emptyArrayString()' : `[${keys.join(', ')}]`;
  const groups = `SELECT ${day} AS q_day, ${cell} AS q_cell, ${second} AS q_second, ${key} AS q_key, count() AS q_n FROM (${selectGroups(job, span)}) GROUP BY q_day, q_cell, q_second, q_key ORDER BY q_day, q_cell, q_second, q_key`;
  const cells = `SELECT q_day, q_cell, sum(q_n) AS q_rows, groupArray((q_second, q_key)) AS q_keys, groupArray(q_n) AS q_ns FROM (${groups}) GROUP BY q_day, q_cell ORDER BY q_day, q_cell`;
  const places =
    'arrayMap((k, n, reached) -> (tupleElement(k, 1), tupleElement(k, 2), reached - n), q_keys, q_ns, arrayCumSum(q_ns))';
  const placed = `SELECT q_day, q_cell, q_rows, q_rows AS q_ids, ${rest}, ${places} AS q_places FROM (${cells}) ORDER BY q_day, q_cell`;
  return gatherDays(placed, [], true);
}

/** Raw rows by cell, as of `buildProbe`, and beside them the lists of `buildGroupProbe` with prefixed names. */
export function buildJoinedProbe(job: SqlJob, span: ProbeSpan): string {
  const renamed = LISTS.map((name) => `${name} AS ${GROUP_PREFIX}${name}`).join(', ');
  const groups = buildGroupProbe(job, { ...span, isNotched: true });
  return `SELECT * FROM (${buildProbe(job, span)}) AS q_raw CROSS JOIN (SELECT ${renamed} FROM (${groups})) AS q_groups`;
}

/** The place in the middle of a window's keys. Answer: one row `{rows, middle: [second, keys]}`. */
export function buildGroupMiddle(job: SqlJob, window: Window, edges: DayEdges): string {
  const source = groupsOf(job);
  const axis = axisOfStretch(window) ?? 'time';
  const span: ProbeSpan = { ...window, fromDate: window.date, toDate: window.date, axis, edges };
  const keys = keyColumns(source, axis).map((name) => `toString(${quoteIdentifier(name)})`);
  const key = keys.length === 0 ? 'emptyArrayString()' : `[${keys.join(', ')}]`;
  const found = `arraySort(groupUniqArray((${placesOf(source, span).second}, ${key})))`;
  return `SELECT length(found) AS rows, found[intDiv(length(found), 2) + 1] AS middle FROM (SELECT ${found} AS found FROM (${fillWindow(source.sql, windowCondition(source, window, edges))}))`;
}

/** @param place `[second, keys]` of a group @returns `undefined` when it cannot be a bound */
export function readGroupPlace(symbol: string | undefined, place: unknown): Bound | undefined {
  const [from, keys] = Array.isArray(place) ? (place as readonly unknown[]) : [];
  const second = readCount(from);
  if (second === undefined || second > SECONDS_PER_DAY) return undefined;
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
