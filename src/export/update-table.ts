/**
 * The last step of an export of a job with `drop.table`: commits what is sealed to the table, and the table to the catalog
 * of `drop.catalog`. A failure fails no run: the drops are sealed, and the next run commits them too.
 */

import { updateCatalog } from '../catalog/registered-table.ts';
import { isFault } from '../core/errors.ts';
import type { Job } from '../job/job.ts';
import { commitTable } from '../ledger/iceberg/commit-table.ts';
import { isStoreChange } from '../store/identity.ts';
import type { ExportContext } from './export-context.ts';

/** Call it after the conditions are written. @throws Fault of kind `interrupted`, `STORE_CHANGED` */
export async function updateTable(context: ExportContext, job: Job): Promise<void> {
  if (job.drop.table === null) return;
  const { ledger, log, clock, catalog, signal } = context;
  const { dataset } = job.drop;
  try {
    const { version, dates, unfit } = await commitTable(ledger, clock.now());
    for (const [date, reason] of unfit) log.warn({ event: 'table-unfit', dataset, date, reason }, reason);
    if (dates.length > 0)
      log.info(
        { event: 'table-committed', dataset, version, dates },
        `${dataset}: version ${version} of its Iceberg table`,
      );
  } catch (error) {
    if (!isFault(error) || error.kind === 'interrupted' || isStoreChange(error)) throw error;
    const { message: reason, hint } = error;
    log.warn(
      { event: 'table-uncommitted', dataset, reason, hint },
      `${dataset}: its Iceberg table was not updated, the next run tries again: ${reason}`,
    );
  }
  if (catalog === undefined) return;
  const { place } = catalog;
  try {
    const done = await updateCatalog(ledger.store, dataset, catalog, signal);
    if (done === 'none' || done === 'current') return;
    log.info({ event: 'catalog-committed', dataset, place, done }, `${dataset}: ${done} in the catalog ${place}`);
  } catch (error) {
    if (!isFault(error) || error.kind === 'interrupted' || isStoreChange(error)) throw error;
    const { message: reason, hint } = error;
    log.warn(
      { event: 'catalog-uncommitted', dataset, place, reason, hint },
      `${dataset}: the catalog was not updated, the next run tries again: ${reason}`,
    );
  }
}
