/**
 * `flowdrop backfill JOB`: exports a date selection on demand, resumable; dates outside the lookback are an error.
 * Sealed dates are left alone by default, unless damaged or left half restated; `--failed` takes degraded drops too,
 * `--all` every date.
 */
import type { DateRange } from '../calendar/date-range.ts';
import { Fault } from '../core/errors.ts';
import type { BackfillMode } from '../export/date-selection.ts';
import { readJob } from '../job/job-folder.ts';
import { runJob } from '../run/run-job.ts';
import type { ActionResult, CommandCall } from './command.ts';
import { printPlan } from './plan.ts';
import { parseRange } from './range.ts';
import { createRunDeps, printRun, type RunCli } from './run-output.ts';

interface BackfillFlags {
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  readonly missing?: boolean | undefined;
  readonly failed?: boolean | undefined;
  readonly all?: boolean | undefined;
  readonly sealDegraded?: boolean | undefined;
  readonly dryRun?: boolean | undefined;
}

export async function backfill(
  cli: RunCli,
  { globals, argument, options }: CommandCall<string, BackfillFlags>,
): ActionResult {
  const range = readRange(options);
  const job = await readJob(argument, globals.jobs);
  const mode = readMode(options);
  if (options.dryRun) return await printPlan(cli, globals, job, { mode, range });
  const finished = await runJob(createRunDeps(cli), job, {
    command: 'backfill',
    dates: options.sealDegraded ? { mode: 'staged', range } : { mode, range },
    withReports: false,
  });
  return printRun(cli, globals, finished);
}

function readMode({ missing, failed, all }: BackfillFlags): BackfillMode {
  if (all) return 'all';
  if (failed) return 'failed';
  return missing ? 'missing' : 'unsealed';
}

function readRange({ from, to }: BackfillFlags): DateRange | undefined {
  if (from === undefined && to === undefined) return undefined;
  if (from !== undefined && to !== undefined) return parseRange(from, to);
  throw new Fault('DATE_INVALID', from === undefined ? '--to needs --from' : '--from needs --to', {
    kind: 'usage',
    hint: 'Give both --from and --to, or neither for the whole lookback.',
  });
}
