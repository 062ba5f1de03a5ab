/** Plans the dates of a run, for every kind of job. */
import type { CalendarOverride } from '../calendar/session.ts';
import type { Log } from '../core/log.ts';
import type { OpenedSource } from '../run/open-source.ts';
import type { ApiLimits } from '../state/limits.ts';
import type { ClockDeps } from './clocks.ts';
import type { DateSelection } from './date-selection.ts';
import { planRun, type RunPlan } from './export-plan.ts';
import { planTable } from './server-table/table-plan.ts';
import { planSnapshots } from './snapshots/snapshot-plan.ts';
import type { LikeSessions } from './trades/like-sessions.ts';

interface PlannerDeps extends Pick<ClockDeps, 'clock' | 'clockRule'> {
  readonly limits: ApiLimits;
  readonly log?: Log | undefined;
  /** Default: the exchange's rules alone. */
  readonly calendar?: CalendarOverride | undefined;
  readonly like?: LikeSessions | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** @throws SourceFault, EngineFault */
export async function planDates(
  opened: OpenedSource,
  { limits, log, calendar, like, signal, clock, clockRule }: PlannerDeps,
  selection: DateSelection,
): Promise<RunPlan> {
  const shared = { calendar, signal, clock, clockRule };
  switch (opened.kind) {
    case 'sql':
      return await planRun({ source: opened.source, limits, log, like, ...shared }, opened.job, selection);
    case 'snapshots':
      return await planSnapshots({ source: opened.source, limits, ...shared }, opened.job, selection);
    case 'table':
      return await planTable({ source: opened.source, ...shared }, opened.job, selection);
    default:
      return opened satisfies never;
  }
}
