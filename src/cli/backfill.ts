/**
 * `flowdrop backfill JOB`: exports a date selection on demand, resumable; dates outside the lookback are an error.
 * Sealed dates are left alone by default, unless damaged or left half restated; `--failed` takes degraded drops too,
 * `--all` every date. `--accept-change` takes over what the source has of one date, however doubtful, and is recorded.
 */
import type { DateRange } from '../calendar/wall-clock.ts';
import { Fault } from '../core/errors.ts';
import { runJob } from '../export/run-job.ts';
import type { BackfillMode } from '../export/select-dates.ts';
import { readJob } from '../job/job-folder.ts';
import type { ActionResult, CommandCall } from './command.ts';
import { printPlan } from './plan.ts';
import { parseRange } from './range.ts';
import { createRunEnv, printRun, type RunCli } from './run-output.ts';
import { nameUser } from './user-name.ts';

interface BackfillFlags {
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  readonly missing?: boolean | undefined;
  readonly failed?: boolean | undefined;
  readonly all?: boolean | undefined;
  readonly acceptChange?: boolean | undefined;
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
  const acceptedBy = options.acceptChange ? nameUser() : undefined;
  if (acceptedBy !== undefined && (range === undefined || range.from !== range.to)) throw tooManyDates(job.name, range);
  if (options.dryRun) return await printPlan(cli, globals, job, { mode, range });
  const finished = await runJob(createRunEnv(cli), job, {
    command: 'backfill',
    dates: options.sealDegraded ? { mode: 'staged', range } : { mode, range, acceptedBy },
    withReports: false,
  });
  return printRun(cli, globals, finished);
}

function readMode({ missing, failed, all, acceptChange }: BackfillFlags): BackfillMode {
  if (all || acceptChange) return 'all';
  if (failed) return 'failed';
  return missing ? 'missing' : 'unsealed';
}

function tooManyDates(name: string, range: DateRange | undefined): Fault {
  const came = range === undefined ? 'no date' : `${range.from} to ${range.to}`;
  return new Fault('DATE_INVALID', `--accept-change takes one date, not ${came}`, {
    kind: 'usage',
    hint: `flowdrop backfill ${name} --from DATE --to DATE --accept-change, with the same DATE twice`,
  });
}

function readRange({ from, to }: BackfillFlags): DateRange | undefined {
  if (from === undefined && to === undefined) return undefined;
  if (from !== undefined && to !== undefined) return parseRange(from, to);
  throw new Fault('DATE_INVALID', from === undefined ? '--to needs --from' : '--from needs --to', {
    kind: 'usage',
    hint: 'Give both --from and --to, or neither for the whole lookback.',
  });
}
