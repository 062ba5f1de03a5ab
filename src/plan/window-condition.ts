/**
 * The conditions of windows: which rows of a date lie between two bounds. Pure text. Invariant: the conditions of
 * windows that tile a date select every row of the date exactly once, for any `time`. A row whose time is of an
 * earlier date counts in the first second, one of a later date in the last. So the first window of a date has no lower
 * time bound and the last no upper one, unless the server refuses that (see `DayEdges`).
 */

import { TRADE_COLUMNS } from '../api-contract/trade.ts';
import { addDays, formatSecond, SECONDS_PER_DAY } from '../calendar/wall-clock.ts';
import { type Axis, axisOfStretch, type Bound, type Stretch, type Window } from '../calendar/window.ts';
import { quoteString } from '../engine/literal.ts';
import type { AggregateSource, SqlSource } from '../job/job.ts';

/**
 * `open`: all rows of a date. `closed`: only rows whose time also lies on the date. A server that finds rows only by
 * their time needs `closed`, because a window without a time bound would read its whole table.
 */
export type DayEdges = 'open' | 'closed';

/** Between the values of several split keys in a bound: below any character, so texts sort as the lists of values do. */
const KEY_SEPARATOR = '\u0000';

/** The condition of a window on `date`, `symbol`, `time` and, if it is cut inside a second or a grain, its keys. */
export function windowCondition(source: SqlSource, { date, from, to }: Window, edges: DayEdges): string {
  const isGrouped = source.kind === 'aggregate';
  const place: Place = {
    date,
    grain: isGrouped ? source.grainSeconds : 1,
    keys: isGrouped ? keyColumns(source, axisOfStretch({ from, to }) ?? 'time').map(comparedKey) : ['id'],
    readKeys: isGrouped ? splitKeys : (id) => [id],
  };
  const dated = [`date = ${quoteString(date)}`, ...closeDates(date, date, edges)];
  return [...dated, ...boundConditions(place, { from, to })].join(' AND ');
}

/** The condition of whole dates, both included. */
export function datesCondition(fromDate: string, toDate: string, edges: DayEdges): string {
  const dates = [`date >= ${quoteString(fromDate)}`, `date <= ${quoteString(toDate)}`];
  return [...dates, ...closeDates(fromDate, toDate, edges)].join(' AND ');
}

/** The split keys of groups that separate those of one grain in a window's bounds; a symbol's cell has one symbol. */
export function keyColumns(source: AggregateSource, axis: Axis): readonly string[] {
  return source.splitColumns.filter((name) => axis === 'time' || name !== 'symbol');
}

/** The values of a group's split keys as the `id` of a bound; `undefined` if one of them cannot be in a bound. */
export function joinKeys(values: readonly string[]): string | undefined {
  return values.some((value) => value.includes(KEY_SEPARATOR)) ? undefined : values.join(KEY_SEPARATOR);
}

function splitKeys(id: string): readonly string[] {
  return id.split(KEY_SEPARATOR);
}

/** Bounds are texts: other columns than texts are compared as texts, too. */
function comparedKey(name: string): string {
  return TRADE_COLUMNS.find((column) => column.name === name)?.wire === 'string' ? name : `toString(${name})`;
}

/** The context of a window's bounds: the date, the seconds per cell, and the expressions of its keys. */
interface Place {
  readonly date: string;
  readonly grain: number;
  readonly keys: readonly string[];
  /** The values of the keys in a bound's `id`. */
  readKeys(id: string): readonly string[];
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
  const after = [
    ...sinceSecond(place, second + place.grain, SECONDS_PER_DAY),
    ...keysFrom(place.keys, place.readKeys(id)),
  ];
  return [...at, joinAny(after)];
}

function upperTime(place: Place, { second, id }: Bound): readonly string[] {
  if (id === undefined) return beforeSecond(place, second);
  const before = [...beforeSecond(place, second, 0), ...keysBefore(place.keys, place.readKeys(id))];
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

/** The first column alone comes first in each condition: a server finds rows by it. */
function keysFrom([key, ...keys]: readonly string[], [value, ...values]: readonly string[]): readonly string[] {
  if (key === undefined || value === undefined) return [];
  const from = `${key} >= ${quoteString(value)}`;
  const further = keysFrom(keys, values);
  return further.length === 0 ? [from] : [`(${from} AND (${key} > ${quoteString(value)} OR ${further.join('')}))`];
}

function keysBefore([key, ...keys]: readonly string[], [value, ...values]: readonly string[]): readonly string[] {
  if (key === undefined || value === undefined) return [];
  const below = `${key} < ${quoteString(value)}`;
  const further = keysBefore(keys, values);
  return further.length === 0 ? [below] : [`(${key} <= ${quoteString(value)} AND (${below} OR ${further.join('')}))`];
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
