/**
 * `flowdrop run JOB`: exports everything unsealed inside the lookback, soonest expiry first; then mails the reports. With
 * `--stage` it only fetches what is visible of the running session.
 */

import { formatCount } from '../core/units.ts';
import { runJob, stageJob } from '../export/run-job.ts';

import type { StagedAhead } from '../export/trades/ahead.ts';
import { readJob } from '../job/job-folder.ts';
import type { ActionResult, CommandCall } from './command.ts';
import { createRunEnv, printRun, type RunCli } from './run-output.ts';

interface RunFlags {
  readonly report: boolean;
  readonly stage?: boolean | undefined;
  readonly newStore?: boolean | undefined;
}

export async function run(cli: RunCli, { globals, argument, options }: CommandCall<string, RunFlags>): ActionResult {
  const job = await readJob(argument, globals.jobs);
  if (options.stage) {
    const staged = await stageJob(createRunEnv(cli), job);
    cli.terminal.out(
      globals.json ? `${JSON.stringify({ job: job.name, ...staged }, undefined, 2)}\n` : describe(staged),
    );
    return 0;
  }
  const finished = await runJob(createRunEnv(cli), job, {
    command: 'run',
    withReports: options.report,
    isNewStore: options.newStore,
  });
  return printRun(cli, globals, finished);
}

function describe({ date, through, rows, pages, requests, reason }: StagedAhead): string {
  const done = `${formatCount(pages)} page(s) now, ${formatCount(requests)} request(s); ${reason}.\n`;
  if (date === null) return `Nothing to stage: ${reason}.\n`;
  if (through === null) return `${date}: nothing is staged yet: ${done}`;
  return `${date} is staged to ${through} (exchange time), ${formatCount(rows)} rows: ${done}`;
}
