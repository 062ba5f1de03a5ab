/** What a run of any kind of job would do: the dates it goes for. */
import type { CalendarOverride } from '../calendar/session.ts';
import type { DateChoice } from './choice.ts';
import type { Learnt } from './learnt.ts';
import type { OpenedSource } from './opened.ts';
import { planRun, type RunPlan } from './plan.ts';
import { planSnapshots } from './snapshot/plan.ts';
import { planTable } from './table/plan.ts';

export interface PlannerDeps {
  readonly learnt: Learnt;
  /** Without one the rules of the exchange alone. */
  readonly calendar?: CalendarOverride | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** @throws SourceFault, EngineFault */
export async function planDates(
  opened: OpenedSource,
  { learnt, calendar, signal }: PlannerDeps,
  choice: DateChoice,
): Promise<RunPlan> {
  switch (opened.kind) {
    case 'sql':
      return await planRun({ source: opened.source, learnt, calendar, signal }, opened.job, choice);
    case 'snapshots':
      return await planSnapshots({ source: opened.source, learnt, calendar, signal }, opened.job, choice);
    case 'table':
      return await planTable({ source: opened.source, calendar, signal }, opened.job, choice);
    default:
      return opened satisfies never;
  }
}
