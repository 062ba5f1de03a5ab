/**
 * `flowdrop status [JOB]`: conditions of the dates as a calendar, gaps and when they expire, the active run, last and
 * next runs, and who makes the next one; of many jobs one line each. Reads the store, never the API. Invalid job files come
 * last. Exit code 3: a date that can still be fetched needs a person.
 */
import { EXIT_CODES } from '../../core/errors.ts';
import { inParallel } from '../../core/side-by-side.ts';
import type { Job } from '../../job/job.ts';
import { listJobFiles, readJob } from '../../job/job-folder.ts';
import { type Call, type Cli, worstOf } from '../context.ts';
import { readStatus } from './read.ts';
import { describeOverview, describeStatus, SHOWN_WEEKS } from './text.ts';

/** Up to so many jobs, each is shown with its calendar. */
const MOST_CALENDARS = 5;

/** Jobs whose stores are read at the same time: a store answers slowly, and few jobs need the machine at once. */
const READ_AT_ONCE = 8;

export async function status(cli: Cli, { argument, options }: Call<'status'>) {
  const { terminal, openers, globals } = cli;
  const { all = false, list = false } = options;
  const jobs: Job[] = [];
  const broken: { readonly file: string; readonly failure: ReturnType<Cli['describe']> }[] = [];
  for (const file of argument === undefined ? await listJobFiles(globals.jobs) : [argument]) {
    try {
      jobs.push(await readJob(file, globals.jobs));
    } catch (error) {
      if (argument !== undefined) throw error;
      // It does not hide the others.
      broken.push({ file, failure: cli.describe(error) });
    }
  }
  const isWhole = globals.json === true || all || list;
  const recentWeeks = isWhole ? undefined : SHOWN_WEEKS + 1;
  const readings = await inParallel(jobs, READ_AT_ONCE, (job) => readStatus(openers, job, recentWeeks));
  const documents = readings.map(({ document }) => document);
  for (const { document, conditionFault } of readings)
    if (conditionFault) terminal.err(`${document.job}: condition.json is invalid and was ignored: ${conditionFault}\n`);
  const layout = { style: terminal.style.out, width: terminal.columns.out, all, list };
  const views = globals.json ? [] : readings.map((reading) => ({ ...reading, ...layout }));
  const isOverview = !isWhole && jobs.length > MOST_CALENDARS;
  const unread = documents.filter(({ fault }) => fault !== null);
  cli.print(
    [...documents, ...broken.map(({ file, failure }) => ({ file, ...failure.json }))],
    isOverview ? describeOverview(views) : views.map(describeStatus).join('\n'),
    [
      ...broken.map(({ failure }) => failure.text.trimEnd()),
      ...unread.map(({ job, fault }) => openers.redact(`${job}: the store could not be read: ${fault}`)),
    ],
  );
  const brokenCode = worstOf(broken.map(({ failure }) => failure.exitCode));
  // With `--json` each document contains its own fault.
  if (unread.length > 0 && !globals.json) return brokenCode ?? EXIT_CODES.failed;
  return brokenCode ?? (documents.some(({ attention }) => attention.length > 0) ? EXIT_CODES.incomplete : undefined);
}
