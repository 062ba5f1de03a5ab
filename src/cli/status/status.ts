/**
 * `flowdrop status [JOB]`: conditions of the dates as a calendar, gaps and when they expire, the active run, last and
 * next runs. Reads the store, never the API. For all jobs it first shows the valid ones, then what is broken.
 */
import { EXIT_CODES } from '../../core/errors.ts';
import type { Job } from '../../job/job.ts';
import { listJobFiles, readJob } from '../../job/job-folder.ts';
import { readStatus, type StatusReading } from '../../run/job-status.ts';
import type { ActionResult, CommandCall } from '../command.ts';
import type { CliContext, GlobalOptions } from '../context.ts';
import { createStyle } from '../terminal/color.ts';
import { describeFailure, type FailureReport } from '../terminal/failure-text.ts';
import { describeStatus } from './text.ts';

interface StatusFlags {
  readonly all?: boolean | undefined;
  readonly list?: boolean | undefined;
}

/** For a stdout that is no terminal, or whose width is unknown. */
const USUAL_COLUMNS = 80;

type StatusCli = Pick<CliContext, 'openers' | 'terminal'>;

export async function status(
  cli: StatusCli,
  { globals, argument, options }: CommandCall<string | undefined, StatusFlags>,
): ActionResult {
  const { terminal, openers } = cli;
  const { jobs, broken } =
    argument === undefined
      ? await readJobs(cli, globals, await listJobFiles(globals.jobs))
      : { jobs: [await readJob(argument, globals.jobs)], broken: [] };
  const layout = {
    style: createStyle(terminal.colors.out),
    columns: terminal.columns.out ?? USUAL_COLUMNS,
    width: terminal.columns.out,
    all: options.all === true,
    list: options.list === true,
  };
  const readings: StatusReading[] = [];
  const texts: string[] = [];
  for (const job of jobs) {
    const reading = await readStatus(openers, job);
    readings.push(reading);
    if (reading.conditionFault !== undefined) {
      terminal.err(`${job.name}: condition.json is invalid and was ignored: ${reading.conditionFault}\n`);
    }
    if (!globals.json) texts.push(describeStatus({ ...reading, ...layout }));
  }
  const documents = readings.map(({ document }) => document);
  const brokenCode = judgeBroken(broken);
  if (globals.json) {
    // Each document contains its own fault.
    const all = [...documents, ...broken.map(({ file, failure }) => ({ file, ...failure.json }))];
    terminal.out(`${JSON.stringify(all, undefined, 2)}\n`);
    return brokenCode;
  }
  terminal.out(texts.join('\n'));
  for (const { failure } of broken) terminal.err(failure.text);
  const unread = documents.filter(({ fault }) => fault !== null);
  for (const { job, fault } of unread) {
    terminal.err(openers.redact(`${job}: the store could not be read: ${fault ?? ''}\n`));
  }
  return brokenCode ?? (unread.length > 0 ? EXIT_CODES.failed : undefined);
}

interface BrokenJob {
  readonly file: string;
  readonly failure: FailureReport;
}

/** An error that a person must fix outranks one that may pass. */
function judgeBroken(broken: readonly BrokenJob[]): number | undefined {
  const codes = broken.map(({ failure }) => failure.exitCode);
  return codes.includes(EXIT_CODES.usage) ? EXIT_CODES.usage : codes[0];
}

/** Reads all job files of a folder: a broken one does not hide the others. */
async function readJobs(
  { openers, terminal }: StatusCli,
  globals: GlobalOptions,
  files: readonly string[],
): Promise<{ readonly jobs: readonly Job[]; readonly broken: readonly BrokenJob[] }> {
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
        redact: openers.redact,
      });
      broken.push({ file, failure });
    }
  }
  return { jobs, broken };
}
