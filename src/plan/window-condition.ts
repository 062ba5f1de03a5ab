/**
 * The conditions of windows: which rows of a date lie between two bounds. Pure text. Invariant: the conditions of
 * windows that tile a date select every row of the date exactly once, for any `time`. A row whose time is of an
 * earlier date counts in the first second, one of a later date in the last. So the first window of a date has no lower
 * time bound and the last no upper one, unless the server refuses that (see `DayEdges`).
 */
import { addDays, formatSecond, SECONDS_PER_DAY } from '../calendar/wall-clock.ts';
import type { Bound, Stretch, Window } from '../calendar/window.ts';
import { quoteString } from '../engine/literal.ts';
import type { SqlSource } from '../job/job.ts';

/**
 * `open`: all rows of a date. `closed`: only rows whose time also lies on the date. A server that finds rows only by
 * their time needs `closed`, because a window without a time bound would read its whole table.
 */
export type DayEdges = 'open' | 'closed';

/** The condition of a window on `date`, `symbol`, `time` and, if it is cut inside a second or a grain, its key. */
export function windowCondition(source: SqlSource, { date, from, to }: Window, edges: DayEdges): string {
  const place: Place = {
    date,
    grain: source.kind === 'aggregate' ? source.grainSeconds : 1,
    key: keyColumn(source) ?? 'id',
  };
  const dated = [`date = ${quoteString(date)}`, ...closeDates(date, date, edges)];
  return [...dated, ...boundConditions(place, { from, to })].join(' AND ');
}

/** The condition of whole dates, both included. */
export function datesCondition(fromDate: string, toDate: string, edges: DayEdges): string {
  const dates = [`date >= ${quoteString(fromDate)}`, `date <= ${quoteString(toDate)}`];
  return [...dates, ...closeDates(fromDate, toDate, edges)].join(' AND ');
}

/** The column that separates rows of one cell in a window's bounds: the id, or the split key of groups. */
export function keyColumn(source: SqlSource): string | undefined {
  return source.kind === 'rows' ? 'id' : source.splitColumns[0];
}

/** The context of a window's bounds: the date, the seconds per cell, and the key column. */
interface Place {
  readonly date: string;
  readonly grain: number;
  readonly key: string;
}

function closeDates(fromDate: string, toDate: string, edges: DayEdges): readonly string[] {
  if (edges === 'open') return [];
  return [
    `time >= ${quoteString(formatTime(fromDate, 0))}`,
    `time < ${quoteString(formatTime(toDate, SECONDS_PER_DAY))}`,
  ];
}

function boundConditions(place: Place, { from, to }: Stretch): readonly string[] {
  if (from.symbol === undefined && to.symbol === undefined) return [...lowerTime(place, from), ...upperTime(place, to)];
  if (from.symbol === to.symbol)
    return [`symbol = ${quoteString(from.symbol ?? '')}`, ...lowerTime(place, from), ...upperTime(place, to)];
  return [...lowerSymbol(place, from), ...upperSymbol(place, to)];
}

function lowerTime(place: Place, { second, id }: Bound): readonly string[] {
  const at = sinceSecond(place, second);
  if (id === undefined) return at;
  const after = [...sinceSecond(place, second + place.grain, SECONDS_PER_DAY), `${place.key} >= ${quoteString(id)}`];
  return [...at, joinAny(after)];
}

function upperTime(place: Place, { second, id }: Bound): readonly string[] {
  if (id === undefined) return beforeSecond(place, second);
  const before = [...beforeSecond(place, second, 0), `${place.key} < ${quoteString(id)}`];
  return [...beforeSecond(place, second + place.grain), joinAny(before)];
}

/** No condition at the first second: nothing lies before. @param never from this second on, no rows follow */
function sinceSecond({ date }: Place, second: number, never = Number.POSITIVE_INFINITY): readonly string[] {
  return second <= 0 || second >= never ? [] : [`time >= ${quoteString(formatTime(date, second))}`];
}

/** No condition at the last second: nothing lies after. @param never up to this second, no rows precede */
function beforeSecond({ date }: Place, second: number, never = Number.NEGATIVE_INFINITY): readonly string[] {
  return second >= SECONDS_PER_DAY || second <= never ? [] : [`time < ${quoteString(formatTime(date, second))}`];
}

function joinAny(conditions: readonly string[]): string {
  return conditions.length > 1 ? `(${conditions.join(' OR ')})` : (conditions[0] ?? '');
}

function lowerSymbol(place: Place, from: Bound): readonly string[] {
  if (from.symbol === undefined) return [];
  const symbol = quoteString(from.symbol);
  if (from.second >= SECONDS_PER_DAY) return [`symbol > ${symbol}`];
  const inside = lowerTime(place, from);
  if (inside.length === 0) return [`symbol >= ${symbol}`];
  return [`symbol >= ${symbol}`, `(symbol > ${symbol} OR (${inside.join(' AND ')}))`];
}

function upperSymbol(place: Place, to: Bound): readonly string[] {
  if (to.symbol === undefined) return [];
  const symbol = quoteString(to.symbol);
  if (to.second === 0 && to.id === undefined) return [`symbol < ${symbol}`];
  const inside = upperTime(place, to);
  if (inside.length === 0) return [`symbol <= ${symbol}`];
  return [`symbol <= ${symbol}`, `(symbol < ${symbol} OR (${inside.join(' AND ')}))`];
}

/** `YYYY-MM-DD HH:MM:SS`; the end of a day is the next date's midnight. */
export function formatTime(date: string, second: number): string {
  return second >= SECONDS_PER_DAY ? `${addDays(date, 1)} 00:00:00` : `${date} ${formatSecond(second)}`;
}
