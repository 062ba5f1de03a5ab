/** Which dates a job can have: the API forgets, a server of one's own does not. Pure. */
import type { CalendarOverride } from '../calendar/session.ts';
import type { JobSource } from '../job/job.ts';
import { computeLookback, type LookbackRange } from '../plan/dates.ts';

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
