/**
 * The dates that a run needs, the dates that can still be fetched, and when a session has settled. Pure: the clock and the ledger come in as
 * arguments. The clock is the server's (`Date` header), because the server measures lookback and delay by its own.
 */

import { LOOKBACK_DAYS, MINIMUM_DATA_DELAY_MINUTES } from '../api-contract/published-limits.ts';
import { NIGHT_SECOND, SESSION_END_SECOND } from '../calendar/segments.ts';
import {
  type CalendarOverride,
  FEWEST_LIKE_SESSIONS,
  hasCurb,
  listSessions,
  NO_OVERRIDE,
  OPEN_SECOND,
  sessionCloseSecond,
} from '../calendar/session.ts';
import { addDays, type DateRange, formatWallClock, formatWallDate, parseWallClock } from '../calendar/wall-clock.ts';
import { Fault } from '../core/errors.ts';
import { formatCount } from '../core/units.ts';
import type { Job, JobSource } from '../job/job.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

export interface LookbackRange {
  /** The instant before which rows are no longer visible, milliseconds since the epoch. */
  readonly edgeMs: number;
  /** The edge as exchange time. */
  readonly edge: string;
  /** First date whose opening is visible. */
  readonly firstWhole: string;
  /** The date that the edge falls on: until its opening it may have all of its rows, then it is visible only in part. */
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

/** Who lets snapshots settle longer than by default wants none before. */
const EARLY_SETTLE_SECONDS = 15 * 60;

/**
 * The earliest instant at which a job may seal a session. A snapshot may be proved to be of the close as soon as that is
 * over; the curb is waited for only where the job says so, and the exchange that there is one.
 */
export function sealsFrom(
  { source, settleSeconds, settleUntil }: Pick<Job, 'source' | 'settleSeconds' | 'settleUntil'>,
  date: string,
  calendar?: CalendarOverride,
): number {
  if (source.kind === 'snapshots' && settleSeconds <= EARLY_SETTLE_SECONDS) {
    return parseWallClock(date, sessionCloseSecond(date, calendar));
  }
  const awaitsCurb = settleUntil === 'curb' && hasCurb(date, calendar);
  return settledAt(date, { settleSeconds, calendar }, awaitsCurb ? SESSION_END_SECOND : 0);
}

/** The instant from which a date has expired: its opening leaves the lookback. Rows of the night before it leave earlier. */
export function expiresAt(date: string, lookbackDays = LOOKBACK_DAYS): number {
  return leavesAt(date, OPEN_SECOND, lookbackDays);
}

/** The instant after which a row of that second of a date is no longer visible. @param second negative: of the day before */
export function leavesAt(date: string, second: number, lookbackDays = LOOKBACK_DAYS): number {
  return parseWallClock(date, 0) + second * 1000 + lookbackDays * DAY_MS;
}

/** Rows of a date may be of the evening before it; a still earlier time of a row is odd, and says nothing. */
const EVENING_BEFORE_SECOND = -12 * 3600;

/** Second of a date at which its first row traded, negative on the evening before; its midnight where that is unknown. */
export function firstSecondOf({
  date,
  min_time: first,
}: {
  readonly date: string;
  readonly min_time: string | null;
}): number {
  const ms = Date.parse(`${first?.replace(' ', 'T')}Z`) - Date.parse(`${date}T00:00:00Z`);
  return ms >= EVENING_BEFORE_SECOND * 1000 ? ms / 1000 : 0;
}

/** Whether the lookback's edge is where first rows of a date may be, so that it matters when they traded. */
export function isAtEdge(date: string, nowMs: number, lookbackDays = LOOKBACK_DAYS): boolean {
  return leavesAt(date, EVENING_BEFORE_SECOND, lookbackDays) < nowMs;
}

/** The time on the exchange's clock before which rows are no longer visible. */
export function edgeOf(nowMs: number, lookbackDays: number): string {
  return formatWallClock(nowMs - lookbackDays * DAY_MS);
}

/**
 * Why rows of a date may have left the lookback before its opening does, in words; `undefined` if none has.
 * @param firstSeconds of the first rows of other sessions of the dataset, or of the date itself as it was sealed
 * @param left rows that an earlier run has staged and that are gone @param hasEvening whether it has rows of the evening before
 */
export function explainClip(
  date: string,
  nowMs: number,
  firstSeconds: readonly number[],
  lookbackDays = LOOKBACK_DAYS,
  { left = 0, hasEvening = false } = {},
): string | undefined {
  const gone = `rows before ${edgeOf(nowMs, lookbackDays)} (exchange time) had left the lookback when it was counted`;
  if (left === 1) return `1 ${gone.replace('rows', 'row')}: an earlier run had it`;
  if (left > 0) return `${formatCount(left)} ${gone}: an earlier run had them`;
  const isGone = (second: number) => leavesAt(date, second, lookbackDays) < nowMs;
  if (!isGone(Math.min(hasEvening ? NIGHT_SECOND : 0, ...firstSeconds))) return undefined;
  if (firstSeconds.length < FEWEST_LIKE_SESSIONS) {
    return `${gone}: fewer than three sealed sessions show that there are none`;
  }
  return firstSeconds.some(isGone) ? `${gone}: other sessions have such rows` : undefined;
}

/** Settled sessions that are fully inside the lookback, soonest expiry first. */
export function listSettled({ firstWhole, lastSettled, calendar }: LookbackRange): readonly string[] {
  return lastSettled === undefined ? [] : listSessions(firstWhole, lastSettled, calendar);
}

/** Before any possible date. */
const FIRST_DATE = '0000-01-01';

/** @param serverNowMs the source's clock */
export function lookbackOf(
  { source, settleSeconds }: Pick<Job, 'source' | 'settleSeconds'>,
  serverNowMs: number,
  calendar?: CalendarOverride,
): LookbackRange {
  const lookback = computeLookback(serverNowMs, calendar, settleSeconds);
  if (!expires(source)) return { ...lookback, edge: '', firstWhole: FIRST_DATE, clipped: FIRST_DATE };
  return lookback;
}

/** Warn this long before a gap expires and becomes a loss; two days leave room for a run at the weekend. */
export const GAP_WARNING_MS = 48 * 3_600_000;

/**
 * Whether dates are lost if they are not fetched in time. The specification does not say how long the API keeps
 * snapshots: they are assumed to expire like its trades.
 */
export function expires(source: JobSource): boolean {
  return source.kind !== 'table';
}

/**
 * Rejects a range that reaches into the future; a future date is an error, not silently skipped.
 * @param nowMs the latest time that any witness shows
 * @throws Fault `DATE_FUTURE` (usage)
 */
export function assertNotFuture(range: DateRange | undefined, { lastSettled }: LookbackRange, nowMs: number): void {
  const today = formatWallDate(nowMs);
  if (range === undefined || range.to <= today) return;
  const came = range.from === range.to ? range.to : `${range.from} to ${range.to}`;
  const hint =
    lastSettled === undefined
      ? `Give dates up to ${today}.`
      : `Give dates up to ${today}; the last session that is over is ${lastSettled}.`;
  throw new Fault('DATE_FUTURE', `${came} is in the future: at the source it is ${today} (exchange time)`, {
    kind: 'usage',
    hint,
  });
}
