/**
 * Trading sessions: which dates have one, and when their segments end. Pure. The calendar proposes dates; only the
 * source shows whether a date has data. Every function takes the operator's override, which wins over the rules.
 */
import { isEarlyClose, isHoliday } from './holidays.ts';
import { CLOSE_SECONDS, CURB_SINCE, EARLY, GRACE_SECONDS } from './segments.ts';
import { addDays, mondayOf, weekday } from './wall-clock.ts';

/** Calendar exceptions. A date is in at most one of the sets. */
export interface CalendarOverride {
  /** No session. */
  readonly closed: ReadonlySet<string>;
  /** A session that ends early, whatever the rules say about the date. */
  readonly earlyClose: ReadonlySet<string>;
  /** A full session, whatever the rules say about the date. */
  readonly open: ReadonlySet<string>;
}

/** No exceptions: only the rules apply. */
export const NO_OVERRIDE: CalendarOverride = { closed: new Set(), earlyClose: new Set(), open: new Set() };

/** Stock options close with the stock exchange; options on indices and some ETFs close 15 minutes later. */
type OptionClass = keyof (typeof CLOSE_SECONDS)['whole'];

/** 09:30:00 on the exchange's clock, second of the day. */
export const OPEN_SECOND = (9 * 60 + 30) * 60;

/** Half hours since midnight, exchange's clock: the first of regular trading, and the last, in which index options close. */
export const OPEN_HALF_HOUR = OPEN_SECOND / 1800;
export const CLOSE_HALF_HOUR = 32;

/** `09:30` for 19. */
export function formatHalfHour(halfHour: number): string {
  return `${String(Math.floor(halfHour / 2)).padStart(2, '0')}:${halfHour % 2 === 0 ? '00' : '30'}`;
}

export function isSession(date: string, override = NO_OVERRIDE): boolean {
  if (override.closed.has(date)) return false;
  if (override.open.has(date) || override.earlyClose.has(date)) return true;
  return lookUp(date).isSession;
}

interface Day {
  readonly next: string;
  /** By the rules alone. */
  readonly isSession: boolean;
}

/** Kept, because the years of a ledger are walked once for each of its datasets. */
const DAYS = new Map<string, Day>();

function lookUp(date: string): Day {
  const known = DAYS.get(date);
  if (known) return known;
  const day = weekday(date);
  const found = { next: addDays(date, 1), isSession: day !== 0 && day !== 6 && !isHoliday(date) };
  DAYS.set(date, found);
  return found;
}

/** Whether the date's session ends early; `false` if there is none. */
export function isHalfDay(date: string, override = NO_OVERRIDE): boolean {
  if (override.closed.has(date) || override.open.has(date)) return false;
  return override.earlyClose.has(date) || isEarlyClose(date);
}

/** When stock options close on a half day: `13:00`. */
export function nameHalfDay(date: string, override = NO_OVERRIDE): string | undefined {
  return isSession(date, override) && isHalfDay(date, override)
    ? formatHalfHour(closeSecond(date, 'equity', override) / 1800)
    : undefined;
}

/** Whether a date has a session that is as long as that of another. */
export function isLike(date: string, other: string, override = NO_OVERRIDE): boolean {
  return isSession(date, override) && isHalfDay(date, override) === isHalfDay(other, override);
}

/** Below that many sessions, what earlier ones have is no habit and no usual number. */
export const FEWEST_LIKE_SESSIONS = 3;

/** Those of some dates that a session is compared with: as long as it is, or for a half day without three of them, all. */
export function listCompared(date: string, dates: readonly string[], override = NO_OVERRIDE): readonly string[] {
  const like = dates.filter((other) => isLike(other, date, override));
  if (like.length >= FEWEST_LIKE_SESSIONS || !isHalfDay(date, override)) return like;
  return dates.filter((other) => isSession(other, override));
}

/** How long a session is from opening to close, against another. */
export function shareOfHours(date: string, other: string, override = NO_OVERRIDE): number {
  const lengthOf = (one: string) => sessionCloseSecond(one, override) - OPEN_SECOND;
  return lengthOf(date) / lengthOf(other);
}

/** The part of a whole session that a date has: 1, less on a half day, 0 without a session. */
export function dayLength(date: string, override = NO_OVERRIDE): number {
  if (!isSession(date, override)) return 0;
  return (sessionCloseSecond(date, override) - OPEN_SECOND) / (CLOSE_SECONDS.whole.index - OPEN_SECOND);
}

/** Second of the day (exchange's clock) when options of a class close; meaningless if there is no session. */
export function closeSecond(date: string, options: OptionClass, override = NO_OVERRIDE): number {
  return CLOSE_SECONDS[isHalfDay(date, override) ? 'early' : 'whole'][options];
}

/** Second of the day (exchange's clock) after which a session has no more trades but those of its curb. */
export function sessionCloseSecond(date: string, override = NO_OVERRIDE): number {
  return closeSecond(date, 'index', override);
}

/** Second of the day from which on a row is of the curb, and not a late report of a trade before the close. */
export function closedSecond(date: string, override = NO_OVERRIDE): number {
  return sessionCloseSecond(date, override) + GRACE_SECONDS;
}

/** Second of the day at which the night of a session ends for symbols that do not trade in it. */
export function nightEndSecond(session: string): number {
  return session < EARLY.since ? OPEN_SECOND : EARLY.second;
}

/** Whether the exchange's rules say that the session has a curb; of a half day they say nothing. */
export function hasCurb(date: string, override = NO_OVERRIDE): boolean {
  return date >= CURB_SINCE && !isHalfDay(date, override);
}

/** Session dates of `[from, to]`, both included, ascending. */
export function listSessions(from: string, to: string, override = NO_OVERRIDE): readonly string[] {
  const dates: string[] = [];
  for (let date = from; date <= to; date = lookUp(date).next) if (isSession(date, override)) dates.push(date);
  return dates;
}

/** Sessions of the week of a date, Monday to Sunday, after it. */
export function listRestOfWeek(date: string, override = NO_OVERRIDE): readonly string[] {
  return listSessions(addDays(date, 1), addDays(mondayOf(date), 6), override);
}

/** The last `count` session dates up to and including `date`, ascending. */
export function previousSessions(date: string, count: number, override = NO_OVERRIDE): readonly string[] {
  const dates: string[] = [];
  for (let day = date; dates.length < count; day = addDays(day, -1)) if (isSession(day, override)) dates.unshift(day);
  return dates;
}

/** More days without a session have never followed each other. */
const FURTHEST = 14;

/** The session before a date, that of the date or else the next one, and the one after it. */
export function listSessionsAround(date: string, override = NO_OVERRIDE): readonly [string, string, string] {
  const [before = date] = previousSessions(addDays(date, -1), 1, override);
  const [on = date, after = addDays(on, 1)] = listSessions(date, addDays(date, FURTHEST), override);
  return [before, on, after];
}
