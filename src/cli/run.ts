/**
 * `flowdrop run JOB`: exports everything unsealed inside the lookback, soonest expiry first; then mails the reports.
 */
import { readJob } from '../job/job-folder.ts';
import { runJob } from '../run/run-job.ts';
import type { ActionResult, CommandCall } from './command.ts';
import { createRunDeps, printRun, type RunCli } from './run-output.ts';

interface RunFlags {
  readonly report: boolean;
  readonly newStore?: boolean | undefined;
}

export async function run(cli: RunCli, { globals, argument, options }: CommandCall<string, RunFlags>): ActionResult {
  const job = await readJob(argument, globals.jobs);
  const finished = await runJob(createRunDeps(cli), job, {
    command: 'run',
    withReports: options.report,
    isNewStore: options.newStore,
  });
  return printRun(cli, globals, finished);
}
