/**
 * `flowdrop runs [JOB]`: the runs that this machine remembers, by the daemon and by hand, newest first. Reads only the
 * state folder.
 */
import { EXCHANGE_TIME_ZONE } from '../api-contract/published-limits.ts';
import { formatInstant } from '../core/date-text.ts';
import { formatCount, formatDuration } from '../core/units.ts';
import { readJob, readValidJobs } from '../job/job-folder.ts';
import { RunHistory } from '../state/run-history.ts';
import { type RunRecord, whyFailed } from '../state/run-record.ts';
import { type Call, type Cli, usage } from './context.ts';
import { formatTable, measureWidth, right } from './terminal/text.ts';

export async function runs({ openers, terminal, globals, print }: Cli, call: Call<'runs'>) {
  const { argument } = call;
  const { limit = 20, stages = false } = call.options;
  if (!Number.isInteger(limit) || limit < 1)
    throw usage(`--limit is ${limit}; allowed is a whole number of 1 or more`, undefined, 'LIMIT_INVALID');
  // A broken job file has runs, too, but no name to find them by.
  const jobs = argument === undefined ? await readValidJobs(globals.jobs) : [await readJob(argument, globals.jobs)];
  const found = await Promise.all(jobs.map(({ name }) => new RunHistory(openers.stateDir, name).list(limit, stages)));
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
      `${outcome ?? 'running'}${code === undefined ? '' : `: ${code}`}`,
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
