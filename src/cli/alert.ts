/**
 * `flowdrop alert JOB`: tells the operators of a job without a run, from the store and the calendar. Not for people: the
 * daemon calls it between runs, and when a run or a job file is broken. It asks no source and seals nothing.
 */
import { assertNotAborted, EXIT_CODES, isFault } from '../core/errors.ts';
import type { Job } from '../job/job.ts';
import type { ActionResult, Register } from './command.ts';
import type { CliContext, GlobalOptions } from './context.ts';

interface AlertOptions {
  readonly died?: string;
  readonly broken?: string;
}

const EXAMPLES = `
Examples:
  flowdrop alert nightly-trades                          gaps that are about to expire, dates that have
  flowdrop alert nightly-trades --died 'killed by OOM'   that a run has ended without a result
`;

export const registerAlert: Register = (program, context, act) => {
  program
    .command('alert', { hidden: true })
    .description('tell the operators of a job what they must know, without a run')
    .argument('<job>', 'job file, or its name in the jobs folder')
    .option('--died <text>', 'a run ended without a result: how')
    .option('--broken <message>', 'the job file as it is now is invalid: why')
    .addHelpText('after', EXAMPLES)
    .action(async (job: string, options: AlertOptions) => {
      await act((globals) => alert(context, globals, job, options));
    });
};

async function alert(cli: CliContext, globals: GlobalOptions, reference: string, options: AlertOptions): ActionResult {
  const { died, broken } = options;
  const job = await readAddressee(reference, globals.jobs, broken !== undefined);
  const { alertOperators } = await import('../run/alert-operators.ts');
  const { createRunDeps } = await import('./run-output.ts');
  const summary = await alertOperators(createRunDeps(cli), job, {
    ...{ command: 'alert', withReports: false },
    ...(died === undefined ? {} : { died }),
    ...(broken === undefined ? {} : { jobFault: broken }),
    // Who tells of a dead run may name the last valid copy of the file.
    isJobFileRead: died === undefined && broken === undefined,
  });
  assertNotAborted(cli.signal);
  const { told, untold, unread, isWhole } = summary;
  if (globals.json) {
    const document = { job: job.name, run_id: cli.compose.runId, told, untold, unread };
    cli.terminal.out(`${JSON.stringify(document, undefined, 2)}\n`);
  } else {
    const lines = [
      ...told.map(({ target, alerts, recovered }) => `Told ${target}: ${[...alerts, ...recovered].join(', ')}`),
      ...untold.map(({ target, reason }) => `Not told ${target}: ${reason}`),
      ...(unread === null ? [] : [`Gaps are not known: ${unread}`]),
    ];
    const silence = isWhole ? 'Nothing to tell.' : 'Nobody was told; the log says what was in the way.';
    cli.terminal.out(`${lines.length === 0 ? silence : lines.join('\n')}\n`);
  }
  return isWhole ? undefined : EXIT_CODES.failed;
}

/** Of a file that is broken, those parts that say who is told and where the memory is. @throws Fault `JOB_INVALID` */
async function readAddressee(reference: string, folder: string, isBroken: boolean): Promise<Job> {
  const { readJob, readJobAddressee } = await import('../job/files.ts');
  try {
    return await readJob(reference, folder);
  } catch (error) {
    if (!isBroken || !isFault(error) || error.code !== 'JOB_INVALID') throw error;
    const job = await readJobAddressee(reference, folder);
    if (!job) throw error;
    return job;
  }
}
