/** `flowdrop backfill JOB --from D --to D`: chosen dates on demand, resumable; refused by name outside the lookback. */

import type { ActionResult, Register } from './command.ts';
import type { CliContext, GlobalOptions } from './context.ts';

interface BackfillOptions {
  readonly from: string;
  readonly to: string;
  readonly dryRun?: boolean;
}

export const registerBackfill: Register = (program, context, act) => {
  program
    .command('backfill')
    .description('export the unsealed dates of a range; sealed ones are left as they are')
    .argument('<job>', 'job file, or its name in the jobs folder')
    .requiredOption('--from <date>', 'first date, YYYY-MM-DD')
    .requiredOption('--to <date>', 'last date, YYYY-MM-DD')
    .option('--dry-run', 'print what it would take; change nothing')
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
  const { readJob } = await import('../job/files.ts');
  const job = await readJob(reference, globals.jobs);
  const { parseRange } = await import('./range.ts');
  const range = parseRange(options.from, options.to);
  const { printPlan } = await import('./plan.ts');
  if (options.dryRun) return await printPlan(cli, globals, job, range);
  const { withRunSession } = await import('./run-session.ts');
  return await withRunSession(cli, job, async (context) => {
    const { runExport } = await import('../run/run.ts');
    const { finishRun } = await import('./run-output.ts');
    return finishRun(cli, globals, await runExport(context, job, { range }), []);
  });
}
