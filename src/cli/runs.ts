/**
 * `flowdrop runs [JOB]`: the runs that this machine remembers, by the daemon and by hand, newest first. `flowdrop runs JOB
 * RUN`: one of them: how it ended and why, what to type next, its dates, its requests, the end of its log. Reads only the
 * state folder.
 */
import { EXCHANGE_TIME_ZONE } from '../api-contract/published-limits.ts';
import { formatExactTime, formatInstant } from '../core/date-text.ts';
import { countOf, formatCount, formatDuration } from '../core/units.ts';
import { readJob, readValidJobs } from '../job/job-folder.ts';
import { RunHistory } from '../state/run-history.ts';
import { type RunLog, readRunLog } from '../state/run-log.ts';
import { describeMailed, endOf, OUTCOME_WORDS, type RunRecord, whyFailed } from '../state/run-record.ts';
import { type Call, type Cli, usage } from './context.ts';
import { escapeText, formatTable, measureWidth, right } from './terminal/text.ts';

/** In place of an id: the newest. */
const LAST = 'last';

export async function runs(cli: Cli, { argument, options }: Call<'runs'>) {
  const { openers, terminal, globals, print } = cli;
  const { limit = 20, stages = false } = options;
  const [name, wanted, ...more] = argument;
  if (more.length > 0) throw usage(`runs takes a job and a run, not also ${more.join(' ')}`, 'flowdrop runs JOB RUN');
  if (!Number.isInteger(limit) || limit < 1)
    throw usage(`--limit is ${limit}; allowed is a whole number of 1 or more`, undefined, 'LIMIT_INVALID');
  // A broken job file has runs, too, but no name to find them by.
  const jobs = name === undefined ? await readValidJobs(globals.jobs) : [await readJob(name, globals.jobs)];
  const histories = jobs.map((job) => new RunHistory(openers.stateDir, job.name));
  const [[job], [history]] = [jobs, histories];
  if (wanted !== undefined && job && history) {
    const isWanted = ({ id, run_id }: RunRecord) => wanted === LAST || id === wanted || run_id === wanted;
    const run = await history.find(isWanted, stages || wanted !== LAST);
    if (!run) {
      const hint = `\`flowdrop runs ${job.name}\` lists their ids; \`${LAST}\` is the newest.`;
      throw usage(`${job.name} has no run "${wanted}" on record on this machine`, hint, 'RUN_UNKNOWN');
    }
    const { log: log_file } = history.files(run);
    const log = (await readRunLog(log_file, globals.debug ? '' : 'info')).lines.slice(-limit);
    const text = describeRun(run, log_file, log, openers.clock.now(), terminal.columns.out);
    return print({ ...run, next: suggestNext(run), log_file, log }, text);
  }
  const found = await Promise.all(histories.map((history) => history.list(limit, stages)));
  const all = found.flat().sort((a, b) => (a.started_at < b.started_at ? 1 : -1));
  const newest = all.slice(0, limit);
  const table = describeRuns(newest, openers.clock.now(), terminal.columns.out);
  return print(newest, [newest.length === 0 ? 'No runs on record.' : table]);
}

function describeRuns(entries: readonly RunRecord[], nowMs: number, width: number | undefined): string {
  const columns = ['started', 'command', 'why', 'outcome', right('took'), right('requests'), right('rows'), 'run'];
  const rows = entries.map((run) => {
    const { outcome, started_at: start, finished_at: end } = run;
    // What stopped it, or what the first of its dates failed with.
    const code = outcome === null || outcome === 'done' ? undefined : whyFailed(run)?.code;
    return [
      formatInstant(start, EXCHANGE_TIME_ZONE, nowMs),
      run.args.join(' '),
      run.reason,
      `${nameOutcome(outcome)}${code === undefined ? '' : `: ${code}`}`,
      end === null ? '' : formatDuration(Date.parse(end) - Date.parse(start)),
      formatCount(run.requests),
      formatCount(run.rows),
      run.id,
    ];
  });
  const table = formatTable(columns, rows);
  if (width === undefined || measureWidth(table.split('\n')[1] ?? '') <= width) return table;
  // The id of a run leads to its log; the page and --json have it, and a cut one leads nowhere.
  const shorter = rows.map((row) => row.slice(0, -1));
  return formatTable(columns.slice(0, -1), shorter, { width });
}

const nameOutcome = (outcome: RunRecord['outcome']) => (outcome === null ? 'running' : OUTCOME_WORDS[outcome]);

/** What to type after it; null if nothing is left to do. */
function suggestNext({ job, outcome, args }: RunRecord): string | null {
  if (outcome === 'done') return null;
  return outcome === null || outcome === 'incomplete' ? `flowdrop status ${job}` : `flowdrop ${args.join(' ')}`;
}

/** @param lines the end of its log */
function describeRun(run: RunRecord, path: string, lines: RunLog['lines'], nowMs: number, width: number | undefined) {
  const { id, job, outcome, args, reason, error, dates, reports } = run;
  const next = suggestNext(run);
  const took = formatDuration(Date.parse(endOf(run)) - Date.parse(run.started_at));
  const rows = dates.map(({ date, status, rows: sealed, requests, error: failed }) => {
    return [date, failed ? `${status}: ${failed.code}` : status, formatCount(sealed), formatCount(requests)];
  });
  const table = formatTable(['date', 'result', right('rows'), right('requests')], rows, { width });
  const again = run.retries > 0 ? `, ${countOf(run.retries, 'retry', 'retries')} (429: ${run.rate_limited})` : '';
  const started = formatInstant(run.started_at, EXCHANGE_TIME_ZONE, nowMs);
  const why = [error, ...dates.map((one) => one.error)].flatMap((one) => one ?? []);
  const told = why.filter((one, at) => why.findIndex(({ message }) => message === one.message) === at);
  return [
    `Run ${id} of ${job}: ${nameOutcome(outcome)}`,
    `\`flowdrop ${args.join(' ')}\` (${reason}), ${started}, ${outcome === null ? 'so far' : 'took'} ${took}`,
    ...told.map(
      ({ code, message, hint }) => `${code}: ${escapeText(`${message}${hint ? `\n  -> ${hint}` : ''}`, '\n')}`,
    ),
    outcome === 'incomplete' && told.length === 0 && 'Dates are lost, newly missing, degraded or held back.',
    next !== null && `Next: \`${next}\``,
    rows.length > 0 && `\n${table}\n`,
    `${countOf(run.requests, 'request')}${again}, ${countOf(run.rows, 'row')}`,
    ...reports.map((one) => `${one.report} of ${one.date}: ${describeMailed(one)}`),
    lines.length === 0 ? 'Nothing was logged.' : `\nThe end of ${path}:`,
    ...lines.map(({ at, level, text }) => {
      return `${at === null ? '' : `${formatExactTime(at, EXCHANGE_TIME_ZONE)} `}${level} ${escapeText(text)}`;
    }),
  ];
}
