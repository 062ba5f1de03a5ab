/**
 * The current time, according to witnesses that may be wrong: the server's clock, this machine's clock, and the newest
 * row that the source has returned. Pure. Invariant: a date is agreed on only if every witness says that it is over and
 * still whole. If only some say so, the date is contested and reported: it is held back, not skipped.
 */

import { EXCHANGE_TIME_ZONE } from '../api-contract/published-limits.ts';
import { formatWallClock } from '../calendar/wall-clock.ts';
import { formatInstant } from '../core/date-text.ts';
import { computeLookback, expiresAt, type LookbackRange, listSettled, type SettleRule, settledAt } from './dates.ts';

/**
 * Two clocks synchronised by NTP differ by less than a second; a clock without NTP drifts by a few seconds a day. A
 * skew below two minutes cannot cause an early seal: the slower clock decides, and the source must show the session's end.
 */
export const MAX_CLOCK_SKEW_MS = 2 * 60_000;

export interface Witnesses {
  /** This machine's clock. */
  readonly ownMs: number;
  /** The server's clock; `undefined` if no answer has contained its time. */
  readonly serverMs: number | undefined;
  /** Earliest instant at which the newest returned row was visible: the real time cannot be earlier. */
  readonly rowMs: number | undefined;
}

/** The range of times that the witnesses allow. */
interface TimeSpan {
  readonly earliestMs: number;
  readonly latestMs: number;
  /** Describes how far apart they are; `undefined` if they agree. */
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
  return `the source's clock is ${apart} ${serverMs > ownMs ? 'ahead of' : 'behind'} this machine's (${formatInstant(serverMs, EXCHANGE_TIME_ZONE)}, here ${formatInstant(ownMs, EXCHANGE_TIME_ZONE)})`;
}

function describeSlow(rowMs: number, serverMs: number, ownMs: number): string {
  const slow = [
    ...(rowMs - serverMs > MAX_CLOCK_SKEW_MS ? [`the source's clock by ${formatApart(rowMs - serverMs)}`] : []),
    ...(rowMs - ownMs > MAX_CLOCK_SKEW_MS ? [`this machine's by ${formatApart(rowMs - ownMs)}`] : []),
  ];
  return `a row was seen that cannot be visible before ${formatInstant(rowMs, EXCHANGE_TIME_ZONE)}, so a clock is slow: ${slow.join(', ')}`;
}

/** `40 s`, `3 min 20 s`, `5 h 3 min`: two units are enough, and from ten minutes on the seconds are noise. */
export function formatApart(ms: number): string {
  const exact = Math.round(Math.abs(ms) / 1000);
  const seconds = exact < 600 ? exact : Math.round(exact / 60) * 60;
  const units = [
    ['d', Math.floor(seconds / 86_400)],
    ['h', Math.floor(seconds / 3600) % 24],
    ['min', Math.floor(seconds / 60) % 60],
    ['s', seconds % 60],
  ] as const;
  const first = units.findIndex(([, count]) => count > 0);
  const shown = units.slice(first, first + 2).filter(([, count]) => count > 0);
  return first < 0 ? '0 s' : shown.map(([unit, count]) => `${count} ${unit}`).join(' ');
}

/** A date that may be due but is not exported now. */
export interface HeldDate {
  readonly date: string;
  readonly reason: string;
}

export interface AgreedDates {
  /** Sessions that every witness calls over and whole, soonest expiry first. */
  readonly dates: readonly string[];
  /** Sessions that only some of the witnesses call over and whole. */
  readonly contested: readonly HeldDate[];
  /** For conditions: no date expires in it while any witness still sees it whole. */
  readonly lookback: LookbackRange;
}

/** @param isForgetting whether the source deletes old dates */
export function agreeOnDates(witnesses: Witnesses, rule: SettleRule, isForgetting = true): AgreedDates {
  const lookbackAt = (nowMs: number) => computeLookback(nowMs, rule.calendar, rule.settleSeconds);
  const { earliestMs, latestMs, conflict } = compareWitnesses(witnesses);
  const earliest = lookbackAt(earliestMs);
  const isAgreed = (date: string) => explainContest(date, witnesses, rule, isForgetting) === undefined;
  const dates = listSettled(earliest).filter(isAgreed);
  if (conflict === undefined) return { dates, contested: [], lookback: lookbackAt(latestMs) };
  const seen = [witnesses.ownMs, witnesses.serverMs ?? witnesses.ownMs, latestMs];
  const listed = seen.flatMap((nowMs) => listSettled(lookbackAt(nowMs)));
  const contested = [...new Set(listed)].sort().flatMap((date) => {
    const reason = explainContest(date, witnesses, rule, isForgetting);
    return reason === undefined ? [] : [{ date, reason: `${reason}: ${conflict}` }];
  });
  return { dates, contested, lookback: earliest };
}

/** Why one of the witnesses calls a date not over or not whole; `undefined` if none does. */
export function explainContest(
  date: string,
  witnesses: Witnesses,
  rule: SettleRule,
  isForgetting = true,
): string | undefined {
  const { earliestMs, latestMs } = compareWitnesses(witnesses);
  if (earliestMs < settledAt(date, rule)) {
    return `it is not over according to ${nameOf(earliestMs, witnesses)}, which shows ${formatWallClock(earliestMs)} (exchange time)`;
  }
  if (isForgetting && latestMs > expiresAt(date)) {
    return `it has begun to expire according to ${nameOf(latestMs, witnesses)}, which shows ${formatWallClock(latestMs)} (exchange time)`;
  }
  return undefined;
}

function nameOf(ms: number, { ownMs, serverMs }: Witnesses): string {
  if (ms === serverMs) return "the source's clock";
  return ms === ownMs ? "this machine's clock" : 'the newest row';
}
