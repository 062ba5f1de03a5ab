/**
 * Whether a source's rows show that a session is over, independent of any clock (by the clock: `dates.ts`). Pure. A lagging source and clocks that
 * are all fast look the same: rows stop in the middle of a session, and no later session has any.
 */

import { MINIMUM_DATA_DELAY_MINUTES } from '../api-contract/published-limits.ts';
import { GRACE_SECONDS, SESSION_END_SECOND } from '../calendar/segments.ts';
import { type CalendarOverride, closeSecond, sessionCloseSecond } from '../calendar/session.ts';
import { parseWallClock } from '../calendar/wall-clock.ts';
import type { SqlJob } from '../job/job.ts';
import { axisOf } from './axis.ts';
import type { DayCounts } from './counts.ts';

/** The last rows of a date, for deciding whether its session is over. */
export interface LastRows {
  /** Second of the day of the newest row that can be a trade; `undefined` if there is none. */
  readonly newest: number | undefined;
  /** Rows since `tailSecond`. */
  readonly tail: number;
  /** Of these, rows after the close of stock options: trades of indices and of some ETFs. */
  readonly late: number;
}

/** Index options trade for another quarter of an hour: a source with many of these must show their last minutes. */
const LATE_END_SECONDS = 5 * 60;
/** Fewer rows are late reports of trades before the close; index options have thousands a minute. */
const MANY_LATE_ROWS = 500;
/** Length of the session's end that is examined. */
const TAIL_SECONDS = 15 * 60;
/** In a table with fewer rows in the tail, a minute without a trade is normal. */
const MANY_TAIL_ROWS = 1_000;

/** Second at which the examined end of a session begins. */
export function tailSecond(date: string, calendar?: CalendarOverride): number {
  return closeSecond(date, 'equity', calendar) - TAIL_SECONDS;
}

/** Second of the day from which on trades are those of index options. */
export function lateSecond(date: string, calendar?: CalendarOverride): number {
  return closeSecond(date, 'equity', calendar) + GRACE_SECONDS;
}

/** Reads the last rows from counted cells. @returns `undefined` if cells have no time: counted by symbol or day */
export function readLastRows(
  { source }: SqlJob,
  date: string,
  counts: DayCounts,
  calendar?: CalendarOverride,
): LastRows | undefined {
  if (axisOf(counts) === 'symbol') return undefined;
  // Only the start of a grain is certain.
  if (source.grainSeconds > TAIL_SECONDS) return undefined;
  const trades = counts.filter(({ second }) => second <= SESSION_END_SECOND);
  const since = (from: number) => trades.reduce((sum, { second, rows }) => sum + (second >= from ? rows : 0), 0);
  return {
    newest: trades.at(-1)?.second,
    tail: since(tailSecond(date, calendar)),
    late: since(lateSecond(date, calendar)),
  };
}

/** Whether the last rows of a date show that its session is over. @param isWholeTable whether the job has no filter */
export function showsEnd(
  date: string,
  { newest, tail, late }: LastRows,
  isWholeTable: boolean,
  calendar?: CalendarOverride,
): boolean {
  if (newest === undefined) return false;
  if (newest >= sessionCloseSecond(date, calendar) - LATE_END_SECONDS) return true;
  if (late >= MANY_LATE_ROWS) return false;
  // The market trades in every second until its close; a minute is enough for a table with a few thousand rows a day.
  if (newest >= closeSecond(date, 'equity', calendar) - GRACE_SECONDS) return true;
  return isWholeTable && tail > 0 && tail < MANY_TAIL_ROWS;
}

/** Earliest instant at which a row of that second was visible, milliseconds since the epoch. */
export function visibleSince(date: string, second: number): number {
  return parseWallClock(date, second) + MINIMUM_DATA_DELAY_MINUTES * 60_000;
}
