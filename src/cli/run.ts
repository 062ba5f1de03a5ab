/**
 * `flowdrop run JOB`: exports everything unsealed inside the lookback, soonest expiry first; then mails the reports. With
 * `--stage` it only fetches what is visible of the running session.
 */
import { formatCount } from '../core/units.ts';
import { runJob, stageJob } from '../export/run-job.ts';
import type { StagedAhead } from '../export/trades/ahead.ts';
import { readJob } from '../job/job-folder.ts';
import type { ActionResult } from './command.ts';
import type { Call } from './commands.ts';
import type { Cli } from './context.ts';
import { createRunEnv, printRun } from './run-output.ts';

export async function run(cli: Cli, { argument, options }: Call<'run'>): ActionResult {
  const job = await readJob(argument, cli.globals.jobs);
  const env = createRunEnv(cli);
  if (options.stage) {
    const staged = await stageJob(env, job);
    return cli.print({ job: job.name, ...staged }, describe(staged));
  }
  const { report: withReports, newStore: isNewStore } = options;
  return printRun(cli, await runJob(env, job, { command: 'run', withReports, isNewStore }));
}

function describe({ date, through, rows, pages, requests, reason }: StagedAhead): string {
  const done = `${formatCount(pages)} page(s) now, ${formatCount(requests)} request(s); ${reason}.\n`;
  if (date === null) return `Nothing to stage: ${reason}.\n`;
  if (through === null) return `${date}: nothing is staged yet: ${done}`;
  return `${date} is staged to ${through} (exchange time), ${formatCount(rows)} rows: ${done}`;
}
