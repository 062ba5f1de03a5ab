/**
 * `flowdrop backfill JOB`: chosen dates on demand, resumable; refused by name outside the lookback. Sealed dates are left
 * alone unless all are asked for.
 */
import { Option } from 'commander';
import type { DateRange } from '../calendar/date-range.ts';
import { Fault } from '../core/errors.ts';
import type { BackfillMode } from '../export/date-selection.ts';
import type { ActionResult, Register } from './command.ts';
import type { CliContext, GlobalOptions } from './context.ts';

interface BackfillOptions {
  readonly from?: string;
  readonly to?: string;
  readonly missing?: boolean;
  readonly failed?: boolean;
  readonly all?: boolean;
  readonly sealDegraded?: boolean;
  readonly dryRun?: boolean;
}

export const registerBackfill: Register = (program, context, act) => {
  program
    .command('backfill')
    .description('export chosen dates; without a choice the unsealed ones, sealed ones are left as they are')
    .argument('<job>', 'job file, or its name in the jobs folder')
    .option('--from <date>', 'first date, YYYY-MM-DD; without dates the whole lookback')
    .option('--to <date>', 'last date, YYYY-MM-DD')
    .addOption(new Option('--missing', 'only dates that no run has tried and failed').conflicts(['failed', 'all']))
    .addOption(new Option('--failed', 'only dates whose last try failed, and degraded drops').conflicts('all'))
    .addOption(new Option('--all', 'every date; a sealed one is exported again, and restated where it differs'))
    .addOption(
      new Option('--seal-degraded', 'seal what is staged of dates that have expired, as degraded').conflicts([
        ...['missing', 'failed', 'all', 'dryRun'],
      ]),
    )
    .option('--dry-run', 'print what it would take and what would expire before its turn; change nothing')
    .action(async (job: string, options: BackfillOptions) => {
      await act((globals) => backfill(context, globals, job, options));
    });
};

async function backfill(
  cli: CliContext,
  globals: GlobalOptions,
  reference: string,
  options: BackfillOptions,
): ActionResult {
  const range = await readRange(options);
  const { readJob } = await import('../job/files.ts');
  const job = await readJob(reference, globals.jobs);
  const choice = { mode: readMode(options), ...(range ? { range } : {}) };
  const { printPlan } = await import('./plan.ts');
  if (options.dryRun) return await printPlan(cli, globals, job, choice);
  const { runJob } = await import('../run/run-job.ts');
  const { createRunDeps, printRun } = await import('./run-output.ts');
  const dates = options.sealDegraded ? { mode: 'staged' as const, range } : choice;
  return printRun(
    cli,
    globals,
    await runJob(createRunDeps(cli), job, { command: 'backfill', dates, withReports: false }),
  );
}

function readMode({ missing, failed, all }: BackfillOptions): BackfillMode {
  if (all) return 'all';
  if (failed) return 'failed';
  return missing ? 'missing' : 'unsealed';
}

async function readRange({ from, to }: BackfillOptions): Promise<DateRange | undefined> {
  if (from === undefined && to === undefined) return undefined;
  if (from === undefined || to === undefined) {
    throw new Fault('DATE_INVALID', `${from === undefined ? '--to' : '--from'} was given without the other end`, {
      kind: 'usage',
      hint: 'Give both --from and --to, or neither for the whole lookback.',
    });
  }
  const { parseRange } = await import('./range.ts');
  return parseRange(from, to);
}
