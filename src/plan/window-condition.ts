/**
 * The conditions of windows: which rows of a date lie between two bounds. Pure text. Invariant: the conditions of
 * windows that tile a date select every row of the date exactly once, for any `time`. A row whose time is of an
 * earlier date counts in the first second, one of a later date in the last. So the first window of a date has no lower
 * time bound and the last no upper one, unless the server refuses that (see `DayEdges`).
 */

import { TRADE_COLUMNS } from '../api-contract/trade.ts';
import { addDays, formatSecond, SECONDS_PER_DAY } from '../calendar/wall-clock.ts';
import { type Axis, axisOfStretch, type Bound, type Window } from '../calendar/window.ts';
import { quoteString } from '../engine/literal.ts';
import type { SqlSource } from '../job/job.ts';

/**
 * `open`: all rows of a date. `closed`: only rows whose time also lies on the date. A server that finds rows only by
 * their time needs `closed`, because a window without a time bound would read its whole table.
 */
export type DayEdges = 'open' | 'closed';

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
export function windowCondition(source: SqlSource, { date, from, to }: Window, edges: DayEdges): string {
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
export function datesCondition(fromDate: string, toDate: string, edges: DayEdges): string {
  const dates =
    fromDate === toDate
      ? [`date = ${quoteString(fromDate)}`]
      : [`date >= ${quoteString(fromDate)}`, `date <= ${quoteString(toDate)}`];
  const times = [`time >= ${timeText(fromDate, 0)}`, `time < ${timeText(toDate, SECONDS_PER_DAY)}`];
  return [...dates, ...(edges === 'open' ? [] : times)].join(' AND ');
}

/** The columns that tell rows of one second, or groups of one grain, apart; a symbol's cell has one symbol. */
export function keyColumns(source: SqlSource, axis: Axis): readonly string[] {
  return source.keyColumns.filter((name) => axis === 'time' || name !== 'symbol');
}

/** The values of the keys as the `id` of a bound; `undefined` if one of them cannot be in a bound. */
export function joinKeys(values: readonly string[]): string | undefined {
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
export function formatTime(date: string, second: number): string {
  return second >= SECONDS_PER_DAY ? `${addDays(date, 1)} 00:00:00` : `${date} ${formatSecond(second)}`;
}
