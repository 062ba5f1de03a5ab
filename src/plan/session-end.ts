/**
 * Whether a source shows that a session is over, as against clocks that say so. Pure. A source that lags, and clocks that
 * are fast together, show the same: rows that stop in the middle of a session, with nothing of a later one.
 */

import { MINIMUM_DATA_DELAY_MINUTES } from '../api-contract/published-limits.ts';
import { type CalendarOverride, closeSecond, NO_OVERRIDE, sessionCloseSecond } from '../calendar/session.ts';
import { parseWallClock } from '../calendar/wall-clock.ts';
import type { SqlJob } from '../job/job.ts';
import type { DayCounts } from './counts.ts';

/** The last rows of a date, as far as they tell that it is over. */
export interface LastRows {
  /** Second of the day of the newest row that can be a trade; `undefined` without one. */
  readonly newest: number | undefined;
  /** Rows since `tailSecond`. */
  readonly tail: number;
  /** Of these, rows after the close of stock options: trades of indices and of some ETFs. */
  readonly late: number;
}

/** A market trades in every second until its close; a minute is room for a table with a few thousand rows a day. */
const END_SECONDS = 60;
/** Index options go on for a quarter of an hour: whoever shows many of their trades must show the last minutes of them. */
const LATE_END_SECONDS = 5 * 60;
/** Late reports of trades before the close are fewer; index options have thousands a minute. */
const MANY_LATE_ROWS = 500;
/** How much of the session's end is looked at. */
const TAIL_SECONDS = 15 * 60;
/** In a table with fewer rows than this in the tail, a minute without a trade is nothing unusual. */
const MANY_TAIL_ROWS = 1_000;
/** Seconds after the close until which anything was ever seen to trade: the indices' curb session. */
const CURB_SECONDS = 45 * 60;

/** Where the part of a session begins that shows its end. */
export function tailSecond(date: string, calendar: CalendarOverride = NO_OVERRIDE): number {
  return closeSecond(date, 'equity', calendar) - TAIL_SECONDS;
}

/** After which second of the day no row can be a trade: its time is wrong, and tells nothing. */
export function lastTradeSecond(date: string, calendar: CalendarOverride = NO_OVERRIDE): number {
  return sessionCloseSecond(date, calendar) + CURB_SECONDS;
}

/** From which second of the day on trades are those of index options. */
export function lateSecond(date: string, calendar: CalendarOverride = NO_OVERRIDE): number {
  return closeSecond(date, 'equity', calendar) + END_SECONDS;
}

/** The last rows of counted cells. @returns `undefined` where cells have no time: counted by symbol, or by the day */
export function readLastRows(
  { source }: SqlJob,
  date: string,
  counts: DayCounts,
  calendar?: CalendarOverride,
): LastRows | undefined {
  if (counts[0]?.symbol !== undefined) return undefined;
  // Of a grain only its beginning is sure.
  if (source.kind === 'aggregate' && source.grainSeconds > TAIL_SECONDS) return undefined;
  const trades = counts.filter(({ second }) => second <= lastTradeSecond(date, calendar));
  const since = (from: number) => trades.reduce((sum, { second, rows }) => sum + (second >= from ? rows : 0), 0);
  return {
    newest: trades.at(-1)?.second,
    tail: since(tailSecond(date, calendar)),
    late: since(lateSecond(date, calendar)),
  };
}

/** Whether so late rows of a date show that its session is over. @param isWholeTable whether no condition leaves rows out */
export function showsEnd(
  date: string,
  { newest, tail, late }: LastRows,
  isWholeTable: boolean,
  calendar?: CalendarOverride,
): boolean {
  if (newest === undefined) return false;
  if (newest >= sessionCloseSecond(date, calendar) - LATE_END_SECONDS) return true;
  if (late >= MANY_LATE_ROWS) return false;
  if (newest >= closeSecond(date, 'equity', calendar) - END_SECONDS) return true;
  return isWholeTable && tail > 0 && tail < MANY_TAIL_ROWS;
}

/** When a row of that second became visible at the earliest, milliseconds since the epoch. */
export function visibleSince(date: string, second: number): number {
  return parseWallClock(date, second) + MINIMUM_DATA_DELAY_MINUTES * 60_000;
}
