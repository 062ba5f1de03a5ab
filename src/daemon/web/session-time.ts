/** Measures time on session days only. Pure. */
import { type CalendarOverride, isSession } from '../../calendar/session.ts';
import { addDays, formatWallDate, parseWallClock } from '../../calendar/wall-clock.ts';

/** Bounds the loop: no caller needs to distinguish longer times. */
const MAX_DAYS = 60;

/**
 * The part of the time between two instants that is on session dates, from midnight to midnight in the exchange's time
 * zone. From Friday evening to Monday evening it is a day, as on any other evening.
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
