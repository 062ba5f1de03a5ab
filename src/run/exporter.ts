/** How the dates of a job come into the store: one way for each kind of source. `run.ts` drives it, date by date. */
import type { RunContext } from './context.ts';
import type { ExportOutcome } from './exported.ts';
import type { PlannedDate, RunPlan } from './plan.ts';
import { exportSnapshots } from './snapshot/export.ts';
import { exportTrades } from './sql/export.ts';
import { exportTable } from './table/export.ts';

/**
 * @param restate whether the date is sealed already
 * @param plan that the date is of
 * @throws Fault when the date cannot be sealed; what is staged stays
 */
export async function exportDate(
  context: RunContext,
  planned: PlannedDate,
  restate: boolean,
  plan: RunPlan,
): Promise<ExportOutcome> {
  const { opened } = context;
  switch (opened.kind) {
    case 'sql':
      return await exportTrades(context, opened, planned, restate, plan);
    case 'snapshots':
      return await exportSnapshots(context, opened, planned, restate);
    case 'table':
      return await exportTable(context, opened, planned, restate);
    default:
      return opened satisfies never;
  }
}
