/** Time that counts only on days with a session. Pure. */
import { type CalendarOverride, isSession } from '../../calendar/session.ts';
import { addDays, formatWallDate, parseWallClock } from '../../calendar/wall-clock.ts';

/** What is longer ago is as good as for ever: the loop is bounded by it. */
const MAX_DAYS = 60;

/**
 * How much of the time between two instants lay on dates with a session, midnight to midnight on the exchange's clock:
 * from Friday evening to Monday evening it is a day, as on any other evening.
 */
export function measureSessionTimeMs(fromMs: number, toMs: number, calendar: CalendarOverride): number {
  const startMs = Math.max(fromMs, toMs - MAX_DAYS * 86_400_000);
  let sumMs = 0;
  const last = formatWallDate(toMs);
  for (let date = formatWallDate(startMs); date <= last; date = addDays(date, 1)) {
    if (!isSession(date, calendar)) continue;
    const beginMs = Math.max(startMs, parseWallClock(date, 0));
    sumMs += Math.max(0, Math.min(toMs, parseWallClock(addDays(date, 1), 0)) - beginMs);
  }
  return sumMs;
}
