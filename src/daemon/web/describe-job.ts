/** Turns the daemon's view into the documents of the API, which the pages draw. Pure: the time is passed in. */
import { type CalendarOverride, listSessions } from '../../calendar/session.ts';
import { addDays, formatWallDate } from '../../calendar/wall-clock.ts';
import { reportPath } from '../../core/report-page.ts';
import { endOf, isEndedRun, isFailed, type RunRecord, whyFailed } from '../../state/run-record.ts';
import type { StatusDocument } from '../documents.ts';
import type { DaemonView, JobView } from '../job-view.ts';
import type { JobDocument, JobStateWord, JobSummary, JobsDocument, ReportLink, RunSummary } from './api-shape.ts';
import { listGaps, parseInstant } from './date-gap.ts';
import { judge } from './health-text.ts';

/** Three weeks: what a row of the overview has room for on a phone. */
export const SHOWN_SESSIONS = 15;
/** Days that certainly contain that many sessions. */
const SPAN_DAYS = 35;

export function describeJobs(view: DaemonView, nowMs: number, calendar: CalendarOverride): JobsDocument {
  return {
    as_of: toInstant(nowMs),
    daemon: {
      version: view.version,
      id: view.id,
      started_at: toInstant(view.startedAtMs),
      is_stopping: view.isStopping,
    },
    problems: [...judge(view, nowMs, calendar)],
    jobs: view.jobs.map((job) => summarizeJob(job, nowMs, calendar)),
  };
}

export function describeJob(job: JobView, view: DaemonView, nowMs: number, calendar: CalendarOverride): JobDocument {
  return {
    ...summarizeJob(job, nowMs, calendar),
    as_of: toInstant(nowMs),
    problems: judge({ ...view, jobs: [job] }, nowMs, calendar).filter(({ level }) => level !== 'well'),
    active: job.running?.record ? describeRun(job.running.record) : null,
    dates: [...(job.status?.document.dates ?? [])],
    date_counts: job.status?.document.date_counts ?? null,
    runs: job.runs.map(describeRun),
    reports: [...listReports(job)],
  };
}

/** Its process is nobody's business. */
export function describeRun({ process: _, ...run }: RunRecord): RunSummary {
  return run;
}

export function listReports({ name, status }: JobView): readonly ReportLink[] {
  return (status?.document.reports ?? []).map((report) => ({ job: name, ...report, href: reportPath(name, report) }));
}

/** End of the last `done` run, in milliseconds since the epoch; `undefined` if none is known. */
export function findLastSuccess({ runs, status }: JobView): number | undefined {
  const done = runs.find(({ command, outcome }) => command === 'run' && outcome === 'done');
  // May be older than the runs that are kept here.
  return parseInstant(done?.finished_at ?? status?.document.last_success ?? null);
}

function summarizeJob(job: JobView, nowMs: number, calendar: CalendarOverride): JobSummary {
  const { schedule, running, status } = job;
  const last = job.runs.find(isEndedRun);
  const gaps = status && listGaps(job, nowMs, calendar).length;
  return {
    name: job.name,
    file: job.file,
    dataset: status?.document.dataset ?? null,
    store: status?.document.store ?? null,
    state: judgeState(job, gaps, last !== undefined && isFailed(last.outcome)),
    schedule: schedule ?? null,
    next_run: toInstantOrNull(job.nextRunAtMs),
    retry_at: toInstantOrNull(job.retryAtMs),
    last_success: toInstantOrNull(findLastSuccess(job)),
    last_run: last?.outcome
      ? {
          id: last.id,
          outcome: last.outcome,
          finished_at: endOf(last),
          error: whyFailed(last)?.code ?? null,
        }
      : null,
    running: running ? { id: running.runId, reason: running.reason, started_at: toInstant(running.startedAtMs) } : null,
    gaps: gaps ?? null,
    sessions: listLastSessions(status?.document.dates ?? [], nowMs, calendar),
    status_read_at: toInstantOrNull(status?.readAtMs),
  };
}

/** One word; the most urgent that is true. */
function judgeState(job: JobView, gaps: number | undefined, hasFailed: boolean): JobStateWord {
  if (job.fault) return 'broken';
  if (job.running) return 'running';
  if (hasFailed) return 'failed';
  if (job.statusFault !== undefined || job.status?.document.fault) return 'unread';
  if (gaps) return 'gaps';
  if (job.waitingSinceMs !== undefined) return 'waiting';
  return job.status && job.status.document.dates.length > 0 ? 'well' : 'new';
}

/** The last sessions up to today, oldest first, and what is known of each. */
function listLastSessions(
  dates: StatusDocument['dates'],
  nowMs: number,
  calendar: CalendarOverride,
): JobSummary['sessions'] {
  const today = formatWallDate(nowMs);
  const from = addDays(today, -SPAN_DAYS);
  // Dates are sorted: only their end matters.
  const recent = dates.slice(-SPAN_DAYS).filter(({ date }) => date >= from);
  const known = new Map(recent.map((date) => [date.date, date]));
  const listed = new Set([...listSessions(from, today, calendar), ...known.keys()]);
  // Today's session is no cell until something is known of it.
  const shown = [...listed].filter((date) => date < today || known.has(date)).sort();
  return shown.slice(-SHOWN_SESSIONS).map((date) => {
    const { condition = null, rows = null, revision = null } = known.get(date) ?? {};
    return { date, condition, rows, revision };
  });
}

function toInstant(atMs: number): string {
  return new Date(atMs).toISOString();
}

function toInstantOrNull(atMs: number | undefined): string | null {
  return atMs === undefined || !Number.isFinite(atMs) ? null : toInstant(atMs);
}
