/**
 * The last step of an export of a job with `drop.table`: commits what is sealed to the table, and the table to the catalog
 * of `drop.catalog`. A failure fails no run: the drops are sealed, and the next run commits them too.
 */

import { updateCatalog } from '../catalog/registered-table.ts';
import type { Job } from '../job/job.ts';
import { commitTable } from '../ledger/iceberg/table.ts';
import type { ExportRun } from '../run/run.ts';
import { attempt } from '../store/identity.ts';

/** Call it after the conditions are written. @throws Fault of kind `interrupted`, `STORE_CHANGED` */
export async function updateTable(run: ExportRun, job: Job): Promise<void> {
  if (job.drop.table === null) return;
  const { ledger, log, clock, catalog, signal } = run;
  const { dataset } = ledger;
  const commit = async () => {
    const { version, dates, unfit } = await commitTable(ledger, clock.now());
    for (const [date, reason] of unfit) log.warn({ event: 'table-unfit', dataset, date, reason }, reason);
    if (dates.length > 0)
      log.info(
        { event: 'table-committed', dataset, version, dates },
        `${dataset}: version ${version} of its Iceberg table`,
      );
  };
  await attempt(commit, ({ message: reason, hint }) =>
    log.warn(
      { event: 'table-uncommitted', dataset, reason, hint },
      `${dataset}: its Iceberg table was not updated, the next run tries again: ${reason}`,
    ),
  );
  if (catalog === undefined) return;
  const { place } = catalog;
  const register = async () => {
    const done = await updateCatalog(ledger.store, dataset, catalog, signal);
    if (done === 'none' || done === 'current') return;
    log.info({ event: 'catalog-committed', dataset, place, done }, `${dataset}: ${done} in the catalog ${place}`);
  };
  await attempt(register, ({ message: reason, hint }) =>
    log.warn(
      { event: 'catalog-uncommitted', dataset, place, reason, hint },
      `${dataset}: the catalog was not updated, the next run tries again: ${reason}`,
    ),
  );
}
