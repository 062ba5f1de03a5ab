/** `flowdrop run JOB`: everything unsealed inside the lookback, soonest expiry first; then the reports. */

import type { ActionResult, Register } from './command.ts';
import type { CliContext, GlobalOptions } from './context.ts';

export const registerRun: Register = (program, context, act) => {
  program
    .command('run')
    .description('export every unsealed date inside the lookback, soonest expiry first, then mail the reports')
    .argument('<job>', 'job file, or its name in the jobs folder')
    .option('--no-report', 'export only')
    .option('--new-store', 'the store was moved, emptied or replaced on purpose: go on with what is at `drop.to` now')
    .action(async (job: string, options: RunOptions) => {
      await act((globals) => run(context, globals, job, options));
    });
};

interface RunOptions {
  readonly report: boolean;
  readonly newStore?: boolean;
}

async function run(
  cli: CliContext,
  globals: GlobalOptions,
  reference: string,
  { report: withReports, newStore: isNewStore = false }: RunOptions,
): ActionResult {
  const { readJob } = await import('../job/files.ts');
  const { runJob } = await import('../run/run-job.ts');
  const { createRunDeps, printRun } = await import('./run-output.ts');
  const job = await readJob(reference, globals.jobs);
  return printRun(cli, globals, await runJob(createRunDeps(cli), job, { command: 'run', withReports, isNewStore }));
}
