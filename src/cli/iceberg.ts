/**
 * `flowdrop iceberg rebuild JOB`: makes the Iceberg table of a job's dataset again from what is sealed, also in its catalog.
 */
import { updateCatalog } from '../catalog/registered-table.ts';
import { Fault, isFault } from '../core/errors.ts';
import { formatCount } from '../core/units.ts';
import type { Job, JobCatalog } from '../job/job.ts';
import { readJob } from '../job/job-folder.ts';
import { rebuildTable } from '../ledger/iceberg/table.ts';
import { locateTable } from '../ledger/iceberg/table-metadata.ts';
import { Ledger } from '../ledger/ledger.ts';
import type { Store } from '../store/store.ts';
import type { ActionResult } from './command.ts';
import type { Call } from './commands.ts';
import type { CliContext } from './context.ts';

export async function iceberg(
  cli: Pick<CliContext, 'openers' | 'terminal'>,
  { globals, argument: [action, name, ...more] }: Call<'iceberg'>,
): ActionResult {
  if (action !== 'rebuild' || name === undefined || more.length > 0) {
    throw new Fault('ARGUMENTS_INVALID', 'iceberg takes an action and a job; the only action is `rebuild`', {
      kind: 'usage',
      hint: 'flowdrop iceberg rebuild JOB',
    });
  }
  const job = await readJob(name, globals.jobs);
  if (job.drop.table === null) {
    throw new Fault('NOT_A_TABLE', `${job.file}: the job has no Iceberg table`, {
      kind: 'usage',
      hint: 'Add `table: iceberg` under `drop:`; the next run makes the table.',
    });
  }
  const { terminal, openers } = cli;
  const { dataset } = job.drop;
  const store = await openers.openStore(job.drop.to, { objects: job.drop.s3, use: 'run' });
  try {
    const { version, snapshots, left, removed } = await rebuildTable(new Ledger(store, dataset), openers.clock.now());
    const catalog = job.drop.catalog === null ? null : await updateCatalogOf(cli, store, job.drop, job.drop.catalog);
    if (globals.json) {
      const found = { dataset, version, snapshots, left: Object.fromEntries(left), removed, catalog };
      terminal.out(`${JSON.stringify(found)}\n`);
      return undefined;
    }
    if (catalog !== null) terminal.err(`catalog   ${catalog}\n`);
    for (const [what, reason] of left) terminal.err(`left out  ${what}  ${reason}\n`);
    terminal.out(
      version === 0
        ? `${dataset} has no sealed date that a table can hold.\n`
        : `Version ${version} of ${locateTable(store, dataset)}: ${formatCount(snapshots)} snapshots.\nCheck it: flowdrop verify ${job.name}\n`,
    );
    return undefined;
  } finally {
    await store.close();
  }
}

/** At once, because a catalog with the old snapshots names files that a rebuild removes. @returns for people */
async function updateCatalogOf(
  { openers }: Pick<CliContext, 'openers'>,
  store: Store,
  { dataset }: Job['drop'],
  target: JobCatalog,
): Promise<string> {
  const catalog = await openers.openCatalog(target);
  try {
    return `${catalog.place}: ${await updateCatalog(store, dataset, catalog)}`;
  } catch (error) {
    if (!isFault(error)) throw error;
    return `${catalog.place}: not updated, the next run tries again: ${error.message}`;
  }
}
