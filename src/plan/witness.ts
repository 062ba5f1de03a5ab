/**
 * What time it is, by witnesses that may be wrong: the server's clock, this machine's clock, and the newest row that the
 * source has shown. Pure. Invariant: a date is agreed on only when each of them calls it over and whole; what only some of
 * them call so is contested and named, so that it is held back rather than passed over.
 */
import { type CalendarOverride, NO_OVERRIDE } from '../calendar/session.ts';
import { formatWallClock } from '../calendar/wall-clock.ts';
import { computeLookback, expiresAt, type LookbackRange, listSettled, settledAt } from './dates.ts';

/**
 * Two clocks that NTP keeps differ by less than a second; one that nobody sets drifts by a few seconds a day. Below two
 * minutes no session is sealed early: the delay and its margin are fifteen times as long.
 */
export const MAX_CLOCK_SKEW_MS = 2 * 60_000;

export interface Witnesses {
  /** This machine's clock. */
  readonly ownMs: number;
  /** The server's clock; `undefined` when no answer has told it. */
  readonly serverMs: number | undefined;
  /** When the newest row that was seen became visible at the earliest: no clock can be before that. */
  readonly rowMs: number | undefined;
}

/** What the witnesses leave possible. */
interface TimeSpan {
  readonly earliestMs: number;
  readonly latestMs: number;
  /** In words, how far they are apart; `undefined` while they agree. */
  readonly conflict: string | undefined;
}

export function compareWitnesses({ ownMs, serverMs = ownMs, rowMs }: Witnesses): TimeSpan {
  const earliestMs = Math.min(ownMs, serverMs);
  const latestMs = Math.max(ownMs, serverMs, rowMs ?? Number.NEGATIVE_INFINITY);
  if (latestMs - earliestMs <= MAX_CLOCK_SKEW_MS) return { earliestMs, latestMs, conflict: undefined };
  const found = [
    ...(Math.abs(serverMs - ownMs) > MAX_CLOCK_SKEW_MS ? [describeClocks(serverMs, ownMs)] : []),
    ...(rowMs !== undefined && rowMs - earliestMs > MAX_CLOCK_SKEW_MS ? [describeSlow(rowMs, serverMs, ownMs)] : []),
  ];
  return { earliestMs, latestMs, conflict: found.join('; ') };
}

function describeClocks(serverMs: number, ownMs: number): string {
  const apart = formatApart(serverMs - ownMs);
  return `the source's clock is ${apart} ${serverMs > ownMs ? 'ahead of' : 'behind'} this machine's (${formatInstant(serverMs)}, here ${formatInstant(ownMs)})`;
}

function describeSlow(rowMs: number, serverMs: number, ownMs: number): string {
  const slow = [
    ...(rowMs - serverMs > MAX_CLOCK_SKEW_MS ? [`the source's clock by ${formatApart(rowMs - serverMs)}`] : []),
    ...(rowMs - ownMs > MAX_CLOCK_SKEW_MS ? [`this machine's by ${formatApart(rowMs - ownMs)}`] : []),
  ];
  return `a row was seen that cannot be visible before ${formatInstant(rowMs)}, so a clock is slow: ${slow.join(', ')}`;
}

/** `40 s`, `5 h 3 min`, `400 d 2 h`: two units are enough, and of hours the seconds are noise. */
export function formatApart(ms: number): string {
  const exact = Math.round(Math.abs(ms) / 1000);
  const seconds = exact < 3_600 ? exact : Math.round(exact / 60) * 60;
  const units = [
    ['d', Math.floor(seconds / 86_400)],
    ['h', Math.floor(seconds / 3600) % 24],
    ['min', Math.floor(seconds / 60) % 60],
    ['s', seconds % 60],
  ] as const;
  const first = units.findIndex(([, count]) => count > 0);
  const told = units.slice(first, first + 2).filter(([, count]) => count > 0);
  return first < 0 ? '0 s' : told.map(([unit, count]) => `${count} ${unit}`).join(' ');
}

function formatInstant(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}

/** A date that is not exported now, although it may be due. */
export interface HeldDate {
  readonly date: string;
  readonly reason: string;
}

export interface AgreedDates {
  /** Sessions that each witness calls over and whole, soonest expiry first. */
  readonly dates: readonly string[];
  /** Those that only one of two clocks that differ calls so. */
  readonly contested: readonly HeldDate[];
  /** For conditions: nothing has expired in it while a witness sees it whole. */
  readonly lookback: LookbackRange;
}

/** @param isForgetting whether the source forgets dates */
export function agreeOnDates(
  witnesses: Witnesses,
  calendar: CalendarOverride = NO_OVERRIDE,
  isForgetting = true,
): AgreedDates {
  const { earliestMs, latestMs, conflict } = compareWitnesses(witnesses);
  const earliest = computeLookback(earliestMs, calendar);
  const isAgreed = (date: string) => explainContest(date, witnesses, calendar, isForgetting) === undefined;
  const dates = listSettled(earliest).filter(isAgreed);
  if (conflict === undefined) return { dates, contested: [], lookback: computeLookback(latestMs, calendar) };
  const seen = [witnesses.ownMs, witnesses.serverMs ?? witnesses.ownMs, latestMs];
  const listed = seen.flatMap((nowMs) => listSettled(computeLookback(nowMs, calendar)));
  const contested = [...new Set(listed)].sort().flatMap((date) => {
    const reason = explainContest(date, witnesses, calendar, isForgetting);
    return reason === undefined ? [] : [{ date, reason: `${reason}: ${conflict}` }];
  });
  return { dates, contested, lookback: earliest };
}

/** Why a date is not over or not whole by one of the witnesses; `undefined` when it is by all. */
export function explainContest(
  date: string,
  witnesses: Witnesses,
  calendar: CalendarOverride = NO_OVERRIDE,
  isForgetting = true,
): string | undefined {
  const { earliestMs, latestMs } = compareWitnesses(witnesses);
  if (earliestMs < settledAt(date, 0, calendar)) {
    return `it is not over by ${nameOf(earliestMs, witnesses)}, which shows ${formatWallClock(earliestMs)} (exchange time)`;
  }
  if (isForgetting && latestMs > expiresAt(date)) {
    return `it has begun to leave the lookback by ${nameOf(latestMs, witnesses)}, which shows ${formatWallClock(latestMs)} (exchange time)`;
  }
  return undefined;
}

function nameOf(ms: number, { ownMs, serverMs }: Witnesses): string {
  if (ms === serverMs) return "the source's clock";
  return ms === ownMs ? "this machine's clock" : 'the newest row';
}
