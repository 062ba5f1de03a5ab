/**
 * `flowdrop iceberg rebuild JOB`: makes the Iceberg table of a job's dataset again from what is sealed, also in its catalog.
 */
import { updateCatalog } from '../catalog/rest-catalog.ts';
import { isFault } from '../core/errors.ts';
import { countOf } from '../core/units.ts';
import { readJob } from '../job/job-folder.ts';
import { rebuildTable } from '../ledger/iceberg/table.ts';
import { locateTable } from '../ledger/iceberg/table-metadata.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { type Call, type Cli, usage, withLedger } from './context.ts';

export async function iceberg(cli: Cli, { argument: [action, name, ...more] }: Call<'iceberg'>) {
  if (action !== 'rebuild' || name === undefined || more.length > 0) {
    const message = 'iceberg takes an action and a job; the only action is `rebuild`';
    throw usage(message, 'flowdrop iceberg rebuild JOB', 'ARGUMENTS_INVALID');
  }
  const { openers, globals, print } = cli;
  const job = await readJob(name, globals.jobs);
  const { dataset, table, catalog: target } = job.drop;
  if (table === null) {
    const hint = 'Add `table: iceberg` under `drop:`; the next run makes the table.';
    throw usage(`${job.file}: the job has no Iceberg table`, hint, 'NOT_A_TABLE');
  }
  const rebuild = async (ledger: Ledger) => {
    const { store } = ledger;
    const { version, snapshots, left, removed } = await rebuildTable(ledger, openers.clock.now());
    // At once, because a catalog with the old snapshots names files that a rebuild removes.
    const opened = target && (await openers.openCatalog(target));
    const updated = opened && updateCatalog(store, dataset, opened);
    const came = await updated?.catch((error: unknown) => {
      if (isFault(error)) return `not updated, the next run tries again: ${error.message}`;
      throw error;
    });
    const catalog = opened && `${opened.place}: ${came}`;
    return print(
      { dataset, version, snapshots, left: Object.fromEntries(left), removed, catalog },
      version === 0
        ? `${dataset} has no sealed date that a table can hold.\n`
        : `Version ${version} of ${locateTable(store, dataset)}: ${countOf(snapshots, 'snapshot')}.\nCheck it: flowdrop verify ${job.name}\n`,
      [
        catalog !== null && `catalog   ${catalog}`,
        ...[...left].map(([what, reason]) => `left out  ${what}  ${reason}`),
      ],
    );
  };
  return await withLedger(openers, job, rebuild, 'run');
}
