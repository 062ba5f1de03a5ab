/**
 * `flowdrop alert JOB`: alerts the operators of a job without a run, from the store and the calendar. Not for people:
 * the daemon calls it between runs, and when a run or a job file is broken. It sends no request to a source and seals
 * nothing. It also posts the events that are owed.
 */
import { alertOperators } from '../alert/alerts.ts';
import { postEvents } from '../alert/events.ts';
import { assertNotAborted, EXIT_CODES, isFault } from '../core/errors.ts';
import { readJob, readJobAddressee } from '../job/job-folder.ts';
import type { Call, Cli } from './context.ts';

export async function alert(cli: Cli, { argument, options }: Call<'alert'>) {
  const { died, broken } = options;
  const { jobs } = cli.globals;
  const job = await readJob(argument, jobs).catch(async (error: unknown) => {
    // Of an invalid file: the parts that say whom to alert and where the state is.
    const isReadable = broken !== undefined && isFault(error) && error.code === 'JOB_INVALID';
    const addressee = isReadable ? await readJobAddressee(argument, jobs) : undefined;
    if (!addressee) throw error;
    return addressee;
  });
  const summary = await alertOperators(cli.env, job, {
    command: 'alert',
    withReports: false,
    died,
    jobFault: broken,
    // A call about a dead run may use the last valid copy of the file.
    isJobFileRead: died === undefined && broken === undefined,
  });
  const events = await postEvents(cli.env, job, undefined);
  assertNotAborted(cli.signal);
  const { sent, unsent, unread, isWhole } = summary;
  const lines = [
    ...sent.map(({ target, alerts, recovered, file }) => {
      const who = file === undefined ? `Alerted ${target}` : `Written to ${file} for ${target}`;
      return `${who}: ${[...alerts, ...recovered].join(', ')}`;
    }),
    ...unsent.map(({ target, reason }) => `Not alerted ${target}: ${reason}`),
    unread !== null && `Gaps are unknown: ${unread}`,
    events.posted > 0 && `Posted events: ${events.posted}`,
    events.owed !== null && `Not posted: ${[events.owed.count, events.owed.reason ?? []].flat().join(': ')}`,
  ].filter((line) => line !== false);
  const none = isWhole ? 'Nothing to report.' : 'No alert was sent; the log has the reason.';
  const document = { job: job.name, run_id: cli.openers.runId, sent, unsent, unread, events };
  cli.print(document, lines.length === 0 ? [none] : lines);
  return isWhole ? undefined : EXIT_CODES.failed;
}
