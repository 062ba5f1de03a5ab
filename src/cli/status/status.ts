/**
 * `flowdrop status [JOB]`: conditions of the dates as a calendar, gaps and when they expire, the active run, last and
 * next runs; of many jobs one line each. Reads the store, never the API. Invalid job files come last.
 */
import { EXIT_CODES } from '../../core/errors.ts';
import type { Job } from '../../job/job.ts';
import { listJobFiles, readJob } from '../../job/job-folder.ts';
import type { ActionResult } from '../command.ts';
import type { Call } from '../commands.ts';
import type { CliContext, GlobalOptions } from '../context.ts';
import { createStyle } from '../terminal/color.ts';
import { describeFailure, type FailureReport } from '../terminal/failure-text.ts';
import { hangText } from '../terminal/text-width.ts';
import { readStatus, type StatusReading } from './job-status.ts';
import { describeOverview, MOST_CALENDARS, OVERVIEW_WEEKS } from './overview.ts';
import { describeStatus, SHOWN_WEEKS } from './text.ts';

/** For a stdout that is no terminal, or whose width is unknown. */
const USUAL_COLUMNS = 80;

/** Jobs whose stores are read at the same time. */
const READ_AT_ONCE = 8;

type StatusCli = Pick<CliContext, 'openers' | 'terminal'>;

export async function status(cli: StatusCli, { globals, argument, options }: Call<'status'>): ActionResult {
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
  const isWhole = globals.json === true || layout.all || layout.list;
  const isOverview = !isWhole && jobs.length > MOST_CALENDARS;
  // A calendar shows the number of earlier dates, an overview only those that are lost or damaged.
  const recentWeeks = isWhole ? undefined : isOverview ? OVERVIEW_WEEKS : SHOWN_WEEKS + 1;
  const documents: StatusReading['document'][] = [];
  const unread: Pick<StatusReading['document'], 'job' | 'fault'>[] = [];
  const overviews: StatusReading[] = [];
  const texts: string[] = [];
  // A store answers slowly, and few jobs need the machine at the same time.
  for (let start = 0; start < jobs.length; start += READ_AT_ONCE) {
    const some = jobs.slice(start, start + READ_AT_ONCE);
    const readings = await Promise.all(some.map((job) => readStatus(openers, job, { recentWeeks, brief: isOverview })));
    for (const reading of readings) {
      const { document, conditionFault } = reading;
      if (conditionFault !== undefined)
        terminal.err(`${document.job}: condition.json is invalid and was ignored: ${conditionFault}\n`);
      if (document.fault !== null) unread.push({ job: document.job, fault: document.fault });
      // The dates of all jobs at once are much memory: only JSON needs them.
      if (globals.json) documents.push(document);
      else if (isOverview) overviews.push(reading);
      else texts.push(describeStatus({ ...reading, ...layout }));
    }
  }
  const brokenCode = judgeBroken(broken);
  if (globals.json) {
    // Each document contains its own fault.
    const all = [...documents, ...broken.map(({ file, failure }) => ({ file, ...failure.json }))];
    terminal.out(`${JSON.stringify(all, undefined, 2)}\n`);
    return brokenCode;
  }
  if (isOverview)
    texts.push(
      describeOverview(
        overviews.map((reading) => ({ ...reading, ...layout })),
        layout.width,
      ),
    );
  terminal.out(hangText(texts.join('\n'), layout.width));
  for (const { failure } of broken) terminal.err(failure.text);
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
