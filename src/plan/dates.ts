/**
 * The dates that a run needs, the dates that can still be fetched, and when a session has settled. Pure: the clock and the ledger come in as
 * arguments. The clock is the server's (`Date` header), because the server measures lookback and delay by its own.
 */

import { LOOKBACK_DAYS, MINIMUM_DATA_DELAY_MINUTES } from '../api-contract/published-limits.ts';
import { type CalendarOverride, listSessions, NO_OVERRIDE, sessionCloseSecond } from '../calendar/session.ts';
import { addDays, formatWallClock, formatWallDate, parseWallClock } from '../calendar/wall-clock.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

export interface LookbackRange {
  /** The instant before which rows are no longer visible, milliseconds since the epoch. */
  readonly edgeMs: number;
  /** The edge as exchange time. */
  readonly edge: string;
  /** First date that is visible from its first second on. */
  readonly firstWhole: string;
  /** The date that the edge falls on: visible only in part, never sealed as complete. */
  readonly clipped: string;
  /** Last settled session; `undefined` if there is none inside the lookback. */
  readonly lastSettled: string | undefined;
  /** Calendar overrides. */
  readonly calendar: CalendarOverride;
}

/**
 * Computes the lookback at an instant of the server's clock.
 * @param settleSeconds the job's `settle`; only `lastSettled` depends on it
 */
export function computeLookback(
  serverNowMs: number,
  calendar: CalendarOverride = NO_OVERRIDE,
  settleSeconds = 0,
): LookbackRange {
  const edgeMs = serverNowMs - LOOKBACK_DAYS * DAY_MS;
  const edge = formatWallClock(edgeMs);
  const clipped = edge.slice(0, 10);
  const firstWhole = expiresAt(clipped) >= serverNowMs ? clipped : addDays(clipped, 1);
  const lastSettled = listSessions(firstWhole, formatWallDate(serverNowMs), calendar).findLast(
    (date) => settledAt(date, { settleSeconds, calendar }) <= serverNowMs,
  );
  return { edgeMs, edge, firstWhole, clipped, lastSettled, calendar };
}

/** When a session has settled. */
export interface SettleRule {
  /** How long after its last trades are visible: rows of a session's last second may reach the service late. */
  readonly settleSeconds: number;
  /** Default: the exchange's rules alone. */
  readonly calendar?: CalendarOverride | undefined;
}

/**
 * The earliest instant at which a session may be sealed: close, plus the API's delay, plus the job's `settle`.
 * @param lastSecond second of the date's last row, if there are rows after the close
 */
export function settledAt(date: string, { settleSeconds, calendar }: SettleRule, lastSecond = 0): number {
  const close = parseWallClock(date, Math.max(sessionCloseSecond(date, calendar), lastSecond));
  return close + MINIMUM_DATA_DELAY_MINUTES * MINUTE_MS + settleSeconds * 1000;
}

/** The instant from which a date is clipped: it can no longer be sealed as complete. */
export function expiresAt(date: string, lookbackDays = LOOKBACK_DAYS): number {
  return parseWallClock(date, 0) + lookbackDays * DAY_MS;
}

/** Settled sessions that are fully inside the lookback, soonest expiry first. */
export function listSettled({ firstWhole, lastSettled, calendar }: LookbackRange): readonly string[] {
  return lastSettled === undefined ? [] : listSessions(firstWhole, lastSettled, calendar);
}
