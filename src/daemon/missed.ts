/** Which tick of a schedule was missed while the daemon was down. Pure. */
import { LOOKBACK_DAYS } from '../wire/limits.ts';

const MINUTE_MS = 60_000;

/**
 * The newest tick after the last run and not after now, or `undefined`. A job that never ran is due when any tick lies
 * inside the lookback: whatever it would have fetched before that has expired.
 * @param matches whether the schedule ticks in the minute of a date
 */
export function findMissedTick(
  matches: (date: Date) => boolean,
  lastStartedAtMs: number | undefined,
  nowMs: number,
): Date | undefined {
  const oldest = nowMs - LOOKBACK_DAYS * 86_400_000;
  const from = Math.max(oldest, lastStartedAtMs ?? oldest);
  for (let tick = Math.floor(nowMs / MINUTE_MS) * MINUTE_MS; tick > from; tick -= MINUTE_MS) {
    const date = new Date(tick);
    if (matches(date)) return date;
  }
  return undefined;
}
