/** Exports one date: one way for each kind of source. `export.ts` calls it for each date. */
import type { ExportContext } from './export-context.ts';
import type { PlannedDate, RunPlan } from './export-plan.ts';
import type { ExportOutcome } from './exported.ts';
import { exportTable } from './server-table/table-date.ts';
import { exportSnapshots } from './snapshots/snapshot-date.ts';
import { exportTrades } from './trades/trades.ts';

/**
 * @param restate whether the date is sealed already
 * @param plan that the date is of
 * @throws Fault when the date cannot be sealed; staged rows are kept
 */
export async function exportDate(
  context: ExportContext,
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
