/** What a run of any kind of job would do: the dates it goes for. */
import type { CalendarOverride } from '../calendar/session.ts';
import type { Log } from '../core/log.ts';
import type { Learnt } from '../state/limits.ts';
import type { ClockDeps } from './clocks.ts';
import type { DateChoice } from './date-selection.ts';
import { planRun, type RunPlan } from './export-plan.ts';
import type { OpenedSource } from './job-source.ts';
import { planTable } from './server-table/table-plan.ts';
import { planSnapshots } from './snapshots/snapshot-plan.ts';

export interface PlannerDeps extends Pick<ClockDeps, 'clock' | 'clockRule'> {
  readonly learnt: Learnt;
  readonly log?: Log | undefined;
  /** Without one the rules of the exchange alone. */
  readonly calendar?: CalendarOverride | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** @throws SourceFault, EngineFault */
export async function planDates(
  opened: OpenedSource,
  { learnt, log, calendar, signal, clock, clockRule }: PlannerDeps,
  choice: DateChoice,
): Promise<RunPlan> {
  const shared = { calendar, signal, clock, clockRule };
  switch (opened.kind) {
    case 'sql':
      return await planRun({ source: opened.source, learnt, log, ...shared }, opened.job, choice);
    case 'snapshots':
      return await planSnapshots({ source: opened.source, learnt, ...shared }, opened.job, choice);
    case 'table':
      return await planTable({ source: opened.source, ...shared }, opened.job, choice);
    default:
      return opened satisfies never;
  }
}
