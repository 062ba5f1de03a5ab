/**
 * Whether a session looks over beside like sessions of its dataset: those that ended at the same hour before it. Pure. A
 * constant or a single row proves nothing about a source that lags, but earlier sessions tell how many rows, and which
 * symbols, the last minutes have. Invariant: what habits cannot tell is left to `session-end.ts`.
 */
import { SESSION_END_SECOND } from '../calendar/segments.ts';
import { FEWEST_LIKE_SESSIONS, OPEN_SECOND } from '../calendar/session.ts';
import { formatSecond } from '../calendar/wall-clock.ts';

/** How the rows of a session lie in time. */
export interface TimeShape {
  readonly rows: number;
  /** Seconds of the day of its first and its last row. */
  readonly first: number;
  readonly last: number;
  /** Rows from each `GRAIN_SECONDS` after the opening on, to the end of the session. */
  readonly since: readonly number[];
}

/** When the trades of a symbol were. */
export interface SymbolTimes {
  readonly trades: number;
  readonly lastTrade: number;
  /** Trades of each half hour from the opening on. */
  readonly halfHours: readonly number[];
}

/** What is known of an earlier session. */
export interface LikeSession {
  readonly date: string;
  /** `undefined`: its counts have no times. */
  readonly times: TimeShape | undefined;
  /** Second of the day of its last row, of whatever segment. */
  readonly last: number | undefined;
  /** `undefined`: it has no such summary. */
  readonly symbols: ReadonlyMap<string, SymbolTimes> | undefined;
}

/** What lacks of a session, for a person. */
export interface Lack {
  readonly found: number;
  readonly usual: number;
  readonly says: string;
}

const GRAIN_SECONDS = 10;
const HOUR = 3600 / GRAIN_SECONDS;
const HALF_HOUR_SECONDS = 1800;
/** Fewer rows may be absent, or present, by chance, however a day went. */
const MANY_ROWS = 30;
/** Days differ, and a wild morning lets expect too much: what is more than this share of the expected rows is no lack. */
const FEW_SHARE = 0.1;
/** In a table with so many rows, an end without `MANY_ROWS` to come is the end. */
const BUSY_TABLE_ROWS = 1_000;
/** No day of such a table is so quiet that it has less than this share of the rows of the others. */
const QUIET_SHARE = 0.01;
/** The market opens at the second: a busy table whose first row is an hour late has other times, or lacks the hour. */
const LATE_OPENING_SECONDS = 3600;
/** Rows of a thin day that must lie as those of the days before. */
const SOME_ROWS = 10;
/** A symbol with so many trades to come that has none has stopped, and with twice as many a day it is looked at. */
const MANY_TRADES = 20;
/** A single symbol may be halted; of many, fewer have stopped by chance. */
const STOPPED_SHARE = 0.1;
const SHOWN_SYMBOLS = 3;

/** @returns `undefined` without rows of the session */
export function shapeTimes(
  cells: readonly { readonly second: number; readonly rows: number }[],
): TimeShape | undefined {
  const since = Array.from({ length: Math.ceil((SESSION_END_SECOND - OPEN_SECOND) / GRAIN_SECONDS) + 1 }, () => 0);
  let [rows, first, last] = [0, SESSION_END_SECOND, 0];
  for (const cell of cells) {
    if (cell.second > SESSION_END_SECOND) continue;
    rows += cell.rows;
    first = Math.min(first, cell.second);
    last = Math.max(last, cell.second);
    const at = Math.floor((cell.second - OPEN_SECOND) / GRAIN_SECONDS);
    if (at >= 0) since[at] = (since[at] ?? 0) + cell.rows;
  }
  for (let at = since.length - 2; at >= 0; at -= 1) since[at] = (since[at] ?? 0) + (since[at + 1] ?? 0);
  return rows === 0 ? undefined : { rows, first, last, since };
}

/** The same session as it is until a second of the day, to the grain. */
export function cutShape({ rows, first, last, since }: TimeShape, second: number): TimeShape {
  const end = Math.ceil((second - OPEN_SECOND) / GRAIN_SECONDS);
  const after = since[end] ?? 0;
  if (after === 0) return { rows, first, last, since };
  const cut = since.slice(0, end).map((count) => count - after);
  const at = cut.findLastIndex((count) => count > 0);
  return { rows: rows - after, first, last: OPEN_SECOND + (at + 1) * GRAIN_SECONDS, since: cut };
}

/**
 * Compares the last hours: after any time of the day there must be rows as in the sessions before, measured by the hour
 * before that time, or by the whole day where that hour has too few.
 * @returns what lacks; `ended`; `undefined` where the sessions before are too few, or have too few rows to tell
 */
export function judgeTimes(today: TimeShape, like: readonly TimeShape[]): Lack | 'ended' | undefined {
  if (like.length < FEWEST_LIKE_SESSIONS) return undefined;
  const rows = low(like.map((one) => one.rows));
  if (rows >= BUSY_TABLE_ROWS && today.rows < rows * QUIET_SHARE) {
    const says = `${today.rows} rows, where the ${like.length} sessions before have ${rows} or more`;
    return { found: today.rows, usual: rows, says };
  }
  const opening = Math.max(...like.map(({ first }) => first));
  if (rows >= BUSY_TABLE_ROWS && today.first > opening + LATE_OPENING_SECONDS) {
    const says = `no row before ${formatSecond(today.first)} (exchange time), where the ${like.length} sessions before begin by ${formatSecond(opening)}: its times may be of another time zone`;
    return { found: today.first, usual: opening, says };
  }
  let worst: { readonly at: number; readonly has: number; readonly expected: number } | undefined;
  for (let at = 1; at < today.since.length; at += 1) {
    const has = today.since[at] ?? 0;
    const before = hourBefore(today, at);
    // A few rows of the opening are no measure of what follows, but where all rows lie is one.
    const [expected, enough] =
      before < MANY_ROWS
        ? [today.rows * low(like.map((one) => (one.since[at] ?? 0) / one.rows)), SOME_ROWS]
        : [before * low(like.map((one) => ratioAt(one, at))), MANY_ROWS];
    if (!(expected >= enough) || has >= expected * FEW_SHARE) continue;
    if (worst === undefined || has / expected < worst.has / worst.expected) worst = { at, has, expected };
  }
  if (worst !== undefined) {
    const { at, has, expected } = worst;
    const time = formatSecond(OPEN_SECOND + at * GRAIN_SECONDS);
    const usual = Math.round(expected);
    const says = `${has} rows from ${time} on (exchange time), where the ${like.length} sessions before let expect ${usual}`;
    return { found: has, usual, says };
  }
  if (today.last >= low(like.map(({ last }) => last)) - GRAIN_SECONDS) return 'ended';
  const next = Math.floor((today.last - OPEN_SECOND) / GRAIN_SECONDS) + 1;
  const toCome = hourBefore(today, next) * Math.max(...like.map((one) => ratioAt(one, next)));
  return today.rows >= BUSY_TABLE_ROWS && toCome < MANY_ROWS ? 'ended' : undefined;
}

/** Rows from a time on, for each row of the hour before it. */
function ratioAt(shape: TimeShape, at: number): number {
  const since = shape.since[at] ?? 0;
  return since === 0 ? 0 : since / hourBefore(shape, at);
}

function hourBefore({ rows, since }: TimeShape, at: number): number {
  return (at > HOUR ? (since[at - HOUR] ?? 0) : rows) - (since[at] ?? 0);
}

/**
 * Whether many symbols stopped before the others did: some of a source's feeds may lag.
 * @param today rows and second of the last row, by symbol @param end second of the day that is covered: what comes later lacks nowhere
 */
export function judgeSymbols(
  today: ReadonlyMap<string, { readonly rows: number; readonly last: number }>,
  like: readonly ReadonlyMap<string, SymbolTimes>[],
  end: number,
): Lack | undefined {
  if (like.length < FEWEST_LIKE_SESSIONS) return undefined;
  let looked = 0;
  const stopped: { readonly symbol: string; readonly last: number }[] = [];
  for (const [symbol, { rows, last }] of today) {
    const before = like.flatMap((session) => session.get(symbol) ?? []);
    if (before.length < like.length) continue;
    const trades = low(before.map((times) => times.trades));
    // A quiet day of a symbol has fewer in its last hours too.
    const scale = Math.min(
      1,
      rows / low(before.map((times) => times.trades - tradesAfter(times, last, Number.POSITIVE_INFINITY))),
    );
    if (!(trades * scale >= 2 * MANY_TRADES)) continue;
    looked += 1;
    if (low(before.map((times) => tradesAfter(times, last, end))) * scale >= MANY_TRADES)
      stopped.push({ symbol, last });
  }
  if (stopped.length === 0 || stopped.length < looked * STOPPED_SHARE) return undefined;
  const until = formatSecond(Math.max(...stopped.map(({ last }) => last)));
  const names = stopped.slice(0, SHOWN_SYMBOLS).map(({ symbol }) => symbol);
  const more = stopped.length > names.length ? ', …' : '';
  const says = `${stopped.length} of ${looked} symbols have no rows after ${until} (exchange time), where the ${like.length} sessions before have many: ${names.join(', ')}${more}`;
  return { found: stopped.length, usual: 0, says };
}

/** Trades later than a second of the day, until another; those of a half hour are taken as evenly spread. */
function tradesAfter({ halfHours, lastTrade }: SymbolTimes, second: number, end: number): number {
  return halfHours.reduce((sum, trades, index) => {
    const from = OPEN_SECOND + index * HALF_HOUR_SECONDS;
    const to = Math.min(from + HALF_HOUR_SECONDS, lastTrade);
    const until = Math.min(to, end);
    if (until <= second) return sum;
    return sum + (trades * (until - Math.max(from, second))) / (to - from);
  }, 0);
}

/** What most of the sessions have at least: one of four or more may have been odd itself. */
function low(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[sorted.length > FEWEST_LIKE_SESSIONS ? 1 : 0] ?? 0;
}
