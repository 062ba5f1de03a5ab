/**
 * Which dates a run goes for, and what can still be had. Pure: the clock and the ledger come in as arguments. The clock
 * is the server's (`Date` header), because the server measures lookback and delay by its own.
 */

import { LOOKBACK_DAYS, MINIMUM_DATA_DELAY_MINUTES } from '../api-contract/published-limits.ts';
import { type CalendarOverride, listSessions, NO_OVERRIDE, sessionCloseSecond } from '../calendar/session.ts';
import { addDays, formatWallClock, formatWallDate, parseWallClock } from '../calendar/wall-clock.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

/** Margin after the delay: rows of a session's last second may reach the service late. */
const SETTLE_MARGIN_MINUTES = 15;

export interface LookbackRange {
  /** The instant before which rows are no longer visible, milliseconds since the epoch. */
  readonly edgeMs: number;
  /** The edge on the exchange's clock. */
  readonly edge: string;
  /** First date that is visible from its first second on. */
  readonly firstWhole: string;
  /** The date cut by the edge: visible only in part, never sealed as complete. */
  readonly clipped: string;
  /** Last session that has settled. `undefined` when none has inside the lookback. */
  readonly lastSettled: string | undefined;
  /** What is otherwise than the rules of the exchange say. */
  readonly calendar: CalendarOverride;
}

/** The lookback at an instant of the server's clock. */
export function computeLookback(serverNowMs: number, calendar: CalendarOverride = NO_OVERRIDE): LookbackRange {
  const edgeMs = serverNowMs - LOOKBACK_DAYS * DAY_MS;
  const edge = formatWallClock(edgeMs);
  const clipped = edge.slice(0, 10);
  const firstWhole = expiresAt(clipped) >= serverNowMs ? clipped : addDays(clipped, 1);
  const sessions = listSessions(firstWhole, formatWallDate(serverNowMs), calendar).filter(
    (date) => settledAt(date, 0, calendar) <= serverNowMs,
  );
  return { edgeMs, edge, firstWhole, clipped, lastSettled: sessions.at(-1), calendar };
}

/**
 * The instant from which a session may be sealed: close, plus the API's delay, plus a margin.
 * @param lastSecond second of the date's last row, when there are rows after the close
 */
export function settledAt(date: string, lastSecond = 0, calendar: CalendarOverride = NO_OVERRIDE): number {
  const close = parseWallClock(date, Math.max(sessionCloseSecond(date, calendar), lastSecond));
  return close + (MINIMUM_DATA_DELAY_MINUTES + SETTLE_MARGIN_MINUTES) * MINUTE_MS;
}

/** The instant at which a date begins to be clipped: nothing of it can be sealed as complete any more. */
export function expiresAt(date: string, lookbackDays = LOOKBACK_DAYS): number {
  return parseWallClock(date, 0) + lookbackDays * DAY_MS;
}

/** Settled sessions that are whole inside the lookback, soonest expiry first. */
export function listSettled({ firstWhole, lastSettled, calendar }: LookbackRange): readonly string[] {
  return lastSettled === undefined ? [] : listSessions(firstWhole, lastSettled, calendar);
}
