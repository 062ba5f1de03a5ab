/**
 * Gaps: dates that are not sealed, will expire, and were not accepted. Pure. The newest session is not a gap until a run that could seal it
 * has ended, because every date is pending between its close and the evening's run.
 */

import { type CalendarOverride, sessionCloseSecond } from '../../calendar/session.ts';
import { parseWallClock } from '../../calendar/wall-clock.ts';
import { settledAt } from '../../plan/dates.ts';
import { isEndedRun } from '../../state/run-record.ts';
import type { JobView } from '../job-view.ts';

/** A date without a run this long after its close is a gap, whatever the schedule. */
const PATIENCE_MS = 24 * 3_600_000;

export interface Gap {
  readonly job: string;
  readonly date: string;
  readonly condition: 'pending' | 'missing';
  /** When it begins to leave the lookback; may be in the past, because the status can be old. `undefined`: never. */
  readonly expiresAtMs: number | undefined;
}

/** Gaps of a job, soonest expiry first; empty while its status is unknown. */
export function listGaps(job: JobView, nowMs: number, calendar: CalendarOverride): readonly Gap[] {
  const dates = job.status?.document.dates ?? [];
  const newest = dates.at(-1)?.date;
  const gaps = dates.flatMap(({ date, condition, accepted, begins_to_expire: expires }) => {
    if (accepted || (condition !== 'pending' && condition !== 'missing')) return [];
    if (condition === 'pending' && date === newest && isAwaited(job, date, nowMs, calendar)) return [];
    return [{ job: job.name, date, condition, expiresAtMs: parseInstant(expires) }];
  });
  return gaps.sort(bySoonestExpiry);
}

export function bySoonestExpiry(a: Gap | undefined, b: Gap | undefined): number {
  return (a?.expiresAtMs ?? Number.MAX_SAFE_INTEGER) - (b?.expiresAtMs ?? Number.MAX_SAFE_INTEGER);
}

/** Whether the close is recent, and no run that could have sealed the date has ended. */
function isAwaited({ runs, settleSeconds }: JobView, date: string, nowMs: number, calendar: CalendarOverride): boolean {
  const closeMs = parseWallClock(date, sessionCloseSecond(date, calendar));
  if (nowMs - closeMs > PATIENCE_MS) return false;
  const lastRunMs = parseInstant(runs.find(isEndedRun)?.started_at ?? null);
  return lastRunMs === undefined || lastRunMs < settledAt(date, { settleSeconds, calendar });
}

/** Milliseconds since the epoch; `undefined` for `null` and invalid instants. */
export function parseInstant(text: string | null): number | undefined {
  const atMs = text === null ? Number.NaN : Date.parse(text);
  return Number.isNaN(atMs) ? undefined : atMs;
}
