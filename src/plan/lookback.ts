/** Which dates a job can have: the API forgets, a server of one's own does not, and neither has those to come. Pure. */

import type { DateRange } from '../calendar/date-range.ts';
import type { CalendarOverride } from '../calendar/session.ts';
import { formatWallDate } from '../calendar/wall-clock.ts';
import { Fault } from '../core/errors.ts';
import type { JobSource } from '../job/job.ts';
import { computeLookback, type LookbackRange } from './dates.ts';

/** Before any date that there is. */
const FIRST_DATE = '0000-01-01';

/** @param serverNowMs the source's clock */
export function lookbackOf(source: JobSource, serverNowMs: number, calendar?: CalendarOverride): LookbackRange {
  const lookback = computeLookback(serverNowMs, calendar);
  if (!expires(source)) return { ...lookback, edge: '', firstWhole: FIRST_DATE, clipped: FIRST_DATE };
  return lookback;
}

/**
 * Whether dates are lost that are not fetched in time. How long the API keeps snapshots is not specified: they count as
 * its trades do.
 */
export function expires(source: JobSource): boolean {
  return source.kind !== 'table';
}

/**
 * What has not begun cannot be had from anybody: it is refused by name rather than left out.
 * @param nowMs the latest that a witness of the time says it is @throws Fault `DATE_FUTURE` (usage)
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
