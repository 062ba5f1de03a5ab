/**
 * `flowdrop status [JOB]`: conditions of the dates as a calendar, gaps and when they expire, the run that goes on, last
 * and next runs. Asks the store only, never the API. Of all jobs it shows what can be shown, and then what is broken.
 */
import { EXIT_CODES } from '../../core/errors.ts';
import type { Job } from '../../job/job.ts';
import type { StatusReading } from '../../run/status.ts';
import { JobState, limitsPath } from '../../state/job-state.ts';
import type { ActionResult, Register } from '../command.ts';
import type { CliContext, GlobalOptions } from '../context.ts';
import type { FailureReport } from '../terminal/failure.ts';

interface StatusOptions {
  readonly all?: boolean;
  readonly list?: boolean;
}

/** Of a stdout that is no terminal, or does not tell its width. */
const USUAL_COLUMNS = 80;

export const registerStatus: Register = (program, context, act) => {
  program
    .command('status')
    .description('show what is sealed, what is missing and when it expires, running, last and next runs')
    .argument('[job]', 'job file, or its name in the jobs folder; default: all')
    .option('--all', 'every date; without it those of the last eight weeks, the others in one line')
    .option('--list', 'a table of all dates in place of the calendar')
    .action(async (job: string | undefined, options: StatusOptions) => {
      await act((globals) => status(context, globals, job, options));
    });
};

async function status(
  cli: CliContext,
  globals: GlobalOptions,
  reference: string | undefined,
  options: StatusOptions,
): ActionResult {
  const { listJobFiles, readJob } = await import('../../job/files.ts');
  const { terminal } = cli;
  const { jobs, broken } =
    reference === undefined
      ? await readJobs(cli, globals, await listJobFiles(globals.jobs))
      : { jobs: [await readJob(reference, globals.jobs)], broken: [] };
  const readings: StatusReading[] = [];
  const texts: string[] = [];
  for (const job of jobs) {
    const reading = await readJobStatus(cli, job);
    readings.push(reading);
    if (reading.conditionFault !== undefined) {
      terminal.err(`${job.name}: condition.json is not in shape, so it is left out: ${reading.conditionFault}\n`);
    }
    if (!globals.json) texts.push(await describeJobStatus(cli, job, reading, options));
  }
  const documents = readings.map(({ document }) => document);
  const brokenCode = judgeBroken(broken);
  if (globals.json) {
    // Each document tells its own fault, and whoever asked for it reads it.
    const all = [...documents, ...broken.map(({ file, failure }) => ({ file, ...failure.json }))];
    terminal.out(`${cli.compose.maskValues(JSON.stringify(all, undefined, 2))}\n`);
    return brokenCode;
  }
  terminal.out(texts.join('\n'));
  for (const { failure } of broken) terminal.err(failure.text);
  const unread = documents.filter(({ fault }) => fault !== null);
  for (const { job, fault } of unread) {
    terminal.err(cli.compose.redact(`${job}: the store could not be read: ${fault ?? ''}\n`));
  }
  return brokenCode ?? (unread.length > 0 ? EXIT_CODES.failed : undefined);
}

interface BrokenJob {
  readonly file: string;
  readonly failure: FailureReport;
}

/** What a person must mend counts more than what may pass. */
function judgeBroken(broken: readonly BrokenJob[]): number | undefined {
  const codes = broken.map(({ failure }) => failure.exitCode);
  return codes.includes(EXIT_CODES.usage) ? EXIT_CODES.usage : codes[0];
}

/** All job files of a folder: one that is broken does not hide the others. */
async function readJobs(
  { compose, terminal }: CliContext,
  globals: GlobalOptions,
  files: readonly string[],
): Promise<{ readonly jobs: readonly Job[]; readonly broken: readonly BrokenJob[] }> {
  const { readJob } = await import('../../job/files.ts');
  const { createStyle } = await import('../terminal/color.ts');
  const { describeFailure } = await import('../terminal/failure.ts');
  const jobs: Job[] = [];
  const broken: BrokenJob[] = [];
  for (const file of files) {
    try {
      jobs.push(await readJob(file, globals.jobs));
    } catch (error) {
      const failure = describeFailure(error, {
        debug: globals.debug === true,
        width: terminal.columns.err,
        style: createStyle(terminal.colors.err),
        redact: compose.redact,
      });
      broken.push({ file, failure });
    }
  }
  return { jobs, broken };
}

async function readJobStatus(cli: CliContext, job: Job): Promise<StatusReading> {
  const { readStatus } = await import('../../run/status.ts');
  const { ApiLimits } = await import('../../state/limits.ts');
  const { compose } = cli;
  const { clock } = compose;
  const limits = await new ApiLimits(...limitsOf(cli, job), clock.now()).load();
  return await readStatus(
    {
      clock,
      calendar: await compose.readCalendar(),
      state: new JobState(compose.stateDir, job.name),
      clockOffsetMs: limits.clockOffsetMs,
      openStore: () => compose.openStore(job.drop.to, { objects: job.drop.s3 }),
    },
    job,
  );
}

/** Path and address of the limits. Status works without the API's settings: then nothing is known of its clock. */
function limitsOf({ compose }: CliContext, { source }: Job): readonly [path: string, url: string] {
  // A server's clock is asked for by every run.
  if (source.kind === 'table') return ['', ''];
  try {
    const url = compose.sourceUrl(source.api);
    return [limitsPath(compose.stateDir, url, compose.keyFingerprint, source), url];
  } catch {
    return ['', ''];
  }
}

async function describeJobStatus(
  cli: CliContext,
  job: Job,
  { document, last }: StatusReading,
  { all = false, list = false }: StatusOptions,
): Promise<string> {
  const { createStyle } = await import('../terminal/color.ts');
  const { describeStatus } = await import('./text.ts');
  const { judgeRun } = await import('../../export/export.ts');
  const { compose, terminal } = cli;
  return describeStatus({
    document,
    last: last && { result: last, outcome: judgeRun(last) },
    timezone: job.schedule?.timezone,
    calendar: await compose.readCalendar(),
    nowMs: compose.clock.now(),
    style: createStyle(terminal.colors.out),
    columns: terminal.columns.out ?? USUAL_COLUMNS,
    width: terminal.columns.out,
    all,
    list,
  });
}
