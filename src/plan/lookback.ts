/** The dates that a job can fetch: the API deletes old dates, the user's own server keeps them. Pure. */

import type { CalendarOverride } from '../calendar/session.ts';
import { type DateRange, formatWallDate } from '../calendar/wall-clock.ts';
import { Fault } from '../core/errors.ts';
import type { Job, JobSource } from '../job/job.ts';
import { computeLookback, type LookbackRange } from './dates.ts';

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
