/**
 * `flowdrop status [JOB]`: conditions of the dates as a calendar, gaps and when they expire, the active run, last and
 * next runs; of many jobs one line each. Reads the store, never the API. Invalid job files come last.
 */
import { EXIT_CODES } from '../../core/errors.ts';
import type { Job } from '../../job/job.ts';
import { listJobFiles, readJob } from '../../job/job-folder.ts';
import type { ActionResult, Call, Cli } from '../context.ts';
import type { FailureReport } from '../terminal/text.ts';
import { readStatus } from './job-status.ts';
import { describeOverview, describeStatus, SHOWN_WEEKS, type StatusView } from './text.ts';

/** Up to so many jobs, each is shown with its calendar. */
const MOST_CALENDARS = 5;

/** Whose objects an overview looks at: enough to notice that a run's drops have disappeared. */
const OVERVIEW_WEEKS = 2;

/** Jobs whose stores are read at the same time: a store answers slowly, and few jobs need the machine at once. */
const READ_AT_ONCE = 8;

export async function status(cli: Cli, { argument, options }: Call<'status'>): ActionResult {
  const { terminal, openers, globals } = cli;
  const broken: { readonly file: string; readonly failure: FailureReport }[] = [];
  const jobs: Job[] = [];
  if (argument !== undefined) jobs.push(await readJob(argument, globals.jobs));
  // A broken file does not hide the others.
  for (const file of argument === undefined ? await listJobFiles(globals.jobs) : []) {
    try {
      jobs.push(await readJob(file, globals.jobs));
    } catch (error) {
      broken.push({ file, failure: cli.describe(error) });
    }
  }
  const { all = false, list = false } = options;
  const layout = { style: terminal.style.out, width: terminal.columns.out, all, list };
  const isWhole = globals.json === true || all || list;
  const brief = !isWhole && jobs.length > MOST_CALENDARS;
  // A calendar shows the number of earlier dates, an overview only those that are lost or damaged.
  const recentWeeks = isWhole ? undefined : brief ? OVERVIEW_WEEKS : SHOWN_WEEKS + 1;
  const documents: StatusView['document'][] = [];
  const faults: string[] = [];
  const overviews: StatusView[] = [];
  const texts: string[] = [];
  for (let start = 0; start < jobs.length; start += READ_AT_ONCE) {
    const some = jobs.slice(start, start + READ_AT_ONCE);
    for (const reading of await Promise.all(some.map((job) => readStatus(openers, job, { recentWeeks, brief })))) {
      const { document, conditionFault } = reading;
      const { job, fault } = document;
      if (conditionFault !== undefined)
        terminal.err(`${job}: condition.json is invalid and was ignored: ${conditionFault}\n`);
      if (fault !== null) faults.push(openers.redact(`${job}: the store could not be read: ${fault}\n`));
      // The dates of all jobs at once are much memory: only JSON needs them.
      if (globals.json) documents.push(document);
      else if (brief) overviews.push({ ...reading, ...layout });
      else texts.push(describeStatus({ ...reading, ...layout }));
    }
  }
  if (brief) texts.push(describeOverview(overviews));
  cli.print([...documents, ...broken.map(({ file, failure }) => ({ file, ...failure.json }))], texts.join('\n'));
  const codes = broken.map(({ failure }) => failure.exitCode);
  // An error that a person must fix outranks one that may pass.
  const brokenCode = codes.includes(EXIT_CODES.usage) ? EXIT_CODES.usage : codes[0];
  // Each document contains its own fault.
  if (globals.json) return brokenCode;
  for (const text of [...broken.map(({ failure }) => failure.text), ...faults]) terminal.err(text);
  return brokenCode ?? (faults.length > 0 ? EXIT_CODES.failed : undefined);
}
