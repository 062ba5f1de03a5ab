/** `flowdrop iceberg rebuild JOB`: makes the Iceberg table of a job's dataset again from what is sealed. */
import { Fault } from '../core/errors.ts';
import { formatCount } from '../core/units.ts';
import { readJob } from '../job/job-folder.ts';
import { rebuildTable } from '../ledger/iceberg/rebuild-table.ts';
import { locateTable } from '../ledger/iceberg/table-log.ts';
import type { ActionResult, CommandCall } from './command.ts';
import type { CliContext } from './context.ts';

export async function iceberg(
  cli: Pick<CliContext, 'openers' | 'terminal'>,
  { globals, argument: [action, name, ...more] }: CommandCall<readonly string[]>,
): ActionResult {
  if (action !== 'rebuild' || name === undefined || more.length > 0) {
    throw new Fault('ARGUMENTS_INVALID', 'iceberg takes an action and a job; the only action is `rebuild`', {
      kind: 'usage',
      hint: 'flowdrop iceberg rebuild JOB',
    });
  }
  const job = await readJob(name, globals.jobs);
  if (job.drop.table === null) {
    throw new Fault('NOT_A_TABLE', `${job.file}: the job keeps no table`, {
      kind: 'usage',
      hint: 'Add `table: iceberg` under `drop:`; the next run makes the table.',
    });
  }
  const { terminal, openers } = cli;
  const { dataset } = job.drop;
  const store = await openers.openStore(job.drop.to, { objects: job.drop.s3, use: 'run' });
  try {
    const { version, snapshots, left, removed } = await rebuildTable(store, dataset, openers.clock.now());
    if (globals.json) {
      terminal.out(`${JSON.stringify({ dataset, version, snapshots, left: Object.fromEntries(left), removed })}\n`);
      return undefined;
    }
    for (const [what, reason] of left) terminal.err(`left out  ${what}  ${reason}\n`);
    terminal.out(
      version === 0
        ? `Nothing of ${dataset} is sealed that a table can take.\n`
        : `Version ${version} of ${locateTable(store, dataset)}: ${formatCount(snapshots)} snapshots.\nCheck it: flowdrop verify ${job.name}\n`,
    );
    return undefined;
  } finally {
    await store.close();
  }
}
