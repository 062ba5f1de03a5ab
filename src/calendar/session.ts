/**
 * Trading sessions: which dates have one, and when its last trades print. Pure. The calendar proposes dates; whether a
 * date has data is learnt from the source.
 */
import { isEarlyClose, isHoliday } from './holidays.ts';
import { addDays, weekday } from './wall-clock.ts';

/** Index options and some ETFs trade until a quarter past, so a session's last trades print then. Seconds of the day. */
const LATE_CLOSE = (16 * 60 + 15) * 60;
const LATE_CLOSE_EARLY_DAY = (13 * 60 + 15) * 60;

/** 09:30:00 on the exchange's clock, second of the day. */
export const OPEN_SECOND = (9 * 60 + 30) * 60;

export function isSession(date: string): boolean {
  const day = weekday(date);
  return day !== 0 && day !== 6 && !isHoliday(date);
}

/** Second of the day (exchange's clock) after which a session has no more trades. */
export function sessionCloseSecond(date: string): number {
  return isEarlyClose(date) ? LATE_CLOSE_EARLY_DAY : LATE_CLOSE;
}

/** Session dates of `[from, to]`, both included, ascending. */
export function listSessions(from: string, to: string): readonly string[] {
  const dates: string[] = [];
  for (let date = from; date <= to; date = addDays(date, 1)) if (isSession(date)) dates.push(date);
  return dates;
}

/** The last `count` session dates up to and including `date`, ascending. */
export function previousSessions(date: string, count: number): readonly string[] {
  const dates: string[] = [];
  for (let day = date; dates.length < count; day = addDays(day, -1)) if (isSession(day)) dates.unshift(day);
  return dates;
}
