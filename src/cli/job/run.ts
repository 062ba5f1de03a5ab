/** `flowdrop run JOB`: everything unsealed inside the lookback, soonest expiry first; then the reports. */

import type { ActionResult, Register } from '../command.ts';
import type { CliContext, GlobalOptions } from '../context.ts';

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
  { report: withReport, newStore: isNewStore }: RunOptions,
): ActionResult {
  const { readJob } = await import('../../job/files.ts');
  const { withRunSession } = await import('./run-session.ts');
  const { withAlerts } = await import('./alerting.ts');
  const { keepEnd } = await import('./end.ts');
  const job = await readJob(reference, globals.jobs);
  const watched = { name: 'run', withReports: withReport } as const;
  return await withAlerts(cli, job, watched, (note) =>
    keepEnd(cli, job, 'lastEnd', () =>
      withRunSession(
        cli,
        job,
        async (context) => {
          const { runExport } = await import('../../export/export.ts');
          const { writeLastSuccess } = await import('../../state/last-end.ts');
          const { assertMayMail, deliverReports } = await import('../../deliver/deliver.ts');
          const { finishRun } = await import('./run-output.ts');
          if (withReport) assertMayMail(context, job);
          const result = await runExport(context, job);
          note({ result });
          const deliveries = withReport ? await deliverReports(context, job) : [];
          if (withReport) note({ deliveries });
          const code = finishRun(cli, globals, result, deliveries);
          const { runId, clock, state } = context;
          const success = { run_id: runId, finished_at: new Date(clock.now()).toISOString() };
          // All is sealed and mailed, and has been said: a disk that is full costs when that was, until the next success.
          if (code === 0) await writeLastSuccess(state.lastSuccess, success).catch(() => undefined);
          return code;
        },
        { isNewStore },
      ),
    ),
  );
}
