/**
 * How much of a running session is worth fetching now. Pure. Finding where full pages end costs a request, whatever their
 * number, so it is asked only when many are expected: a session costs at most 1.03 times the fewest requests.
 */

import { type CalendarOverride, closeSecond, isHalfDay, NO_OVERRIDE, OPEN_SECOND } from '../calendar/session.ts';
import { SECONDS_PER_DAY } from '../calendar/wall-clock.ts';
import { type Profile, shareOf, usualProfile } from './profile.ts';

/** Full pages for which their ends are asked: fewer than 2% more requests. */
const MANY_PAGES = 60;
/** After the close of stock options fewer are enough, because they are what the last run would have to fetch. */
const LAST_PAGES = 10;
/** Part of the session's requests that may be asked for the ends of pages. */
const MOST_ASKED = 0.025;
/** Most pages whose ends one request finds: the server sorts their rows. */
const MOST_PAGES = 100;
/** Counted rows of a smaller part of the usual day say nothing about the rest. */
const TELLING_SHARE = 0.01;
/** 13:30: half days have closed. A whole day has a third of its rows after it, and never less than this share. */
const AFTERNOON = 13.5 * 3600;
const LEAST_AFTERNOON = 0.02;
/** Precision of a stretch's end, seconds. */
const STEP_SECONDS = 60;

/** What is known of the date at the source and in the stage. */
export interface AheadFacts {
  /** Rows that the source had before this second, when they were counted last. */
  readonly seen: { readonly second: number; readonly rows: number };
  /** Rows in the stage. */
  readonly staged: number;
  /** Requests that found the ends of pages so far. */
  readonly asked: number;
  /** Rows of the last date; null if no date was counted yet. */
  readonly dateRows: number | null;
  readonly profile: Profile;
  /** Most rows of a page. */
  readonly limit: number;
  /** Fewest rows of a query that was too broad; null: none was. */
  readonly refusedRows: number | null;
}

/**
 * The second before which the ends of full pages are asked now; `undefined`: it is not worth a request.
 * @param visibleSecond rows before it are visible
 */
export function planAhead(
  date: string,
  known: AheadFacts,
  visibleSecond: number,
  calendar: CalendarOverride = NO_OVERRIDE,
): number | undefined {
  if (visibleSecond <= OPEN_SECOND) return undefined;
  const facts = { ...known, profile: chooseProfile(date, known.profile, calendar) };
  const pagesBefore = (second: number) => expectRows(facts, second) / facts.limit;
  const pages = pagesBefore(visibleSecond);
  const isLast = visibleSecond >= closeSecond(date, 'equity', calendar);
  const isCheap = facts.asked + 1 <= MOST_ASKED * (facts.staged / facts.limit + pages);
  if (pages < MANY_PAGES && !(isLast && pages >= LAST_PAGES && isCheap)) return undefined;
  const most = Math.min(MOST_PAGES, ((facts.refusedRows ?? Number.POSITIVE_INFINITY) * 0.9) / facts.limit);
  let second = visibleSecond;
  while (second > OPEN_SECOND && pagesBefore(second) > most && Number.isFinite(pages)) second -= STEP_SECONDS;
  // A server that reads so few rows at once would need too many requests.
  return Math.min(pages, most) < LAST_PAGES || second <= OPEN_SECOND ? undefined : second;
}

/** The last date may have been a half day, which says nothing about the afternoon of a whole one. */
function chooseProfile(date: string, profile: Profile, calendar: CalendarOverride): Profile {
  const afternoon = { from: { second: AFTERNOON }, to: { second: SECONDS_PER_DAY } };
  return isHalfDay(date, calendar) || shareOf(profile, afternoon) > LEAST_AFTERNOON ? profile : usualProfile('time');
}

/** Rows before a second that are not staged yet; infinite if nothing is known. */
function expectRows({ seen, staged, dateRows, profile }: AheadFacts, second: number): number {
  const shareBefore = (to: number) => shareOf(profile, { from: { second: 0 }, to: { second: to } });
  const share = shareBefore(seen.second);
  const whole = share >= TELLING_SHARE ? seen.rows / share : dateRows;
  if (whole === null) return Number.POSITIVE_INFINITY;
  return Math.max(0, seen.rows - staged + whole * (shareBefore(second) - share));
}
