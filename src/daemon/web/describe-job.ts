/**
 * Makes the documents of the API, which the pages draw, of the daemon's view, with what is wrong in sentences, the worst
 * first. Pure: the time is passed in. Problems are only those that a person can act on; a lost date is mentioned for a
 * while, then only shown in the calendar. Gaps are dates that are not sealed, will expire, and were not accepted; the
 * newest session is none until a run that could seal it has ended, because every date is pending between its close and
 * the evening's run.
 */

import { type CalendarOverride, listSessions, sessionCloseSecond } from '../../calendar/session.ts';
import { addDays, formatWallDate, parseWallClock } from '../../calendar/wall-clock.ts';
import { formatRelative, formatSpan } from '../../core/date-text.ts';
import { reportPath } from '../../core/report-page.ts';
import { countOf } from '../../core/units.ts';
import { GAP_WARNING_MS, settledAt } from '../../plan/dates.ts';
import {
  endOf,
  isEndedRun,
  isFailed,
  OUTCOME_WORDS,
  type RunOutcome,
  type RunRecord,
  whyFailed,
} from '../../state/run-record.ts';
import type { DaemonView } from '../daemon.ts';
import {
  type Gap,
  type JobDocument,
  type JobStateWord,
  type JobSummary,
  type JobsDocument,
  type JobView,
  jobSummarySchema,
  type Problem,
  parseInstant,
  type RunSummary,
  toInstant,
} from '../shapes.ts';

/** Three weeks: what a row of the overview has room for on a phone. */
const SHOWN_SESSIONS = 15;
/** Days that certainly contain that many sessions. */
const SPAN_DAYS = 35;
const SUMMARY = Object.keys(jobSummarySchema.shape) as (keyof JobSummary)[];

export function describeJobs(view: DaemonView, nowMs: number, calendar: CalendarOverride): JobsDocument {
  const { version, id, startedAtMs, isStopping } = view;
  const jobs = view.jobs.map((job) => describeFacts(job, nowMs, calendar));
  return {
    as_of: toInstant(nowMs),
    daemon: { version, id, started_at: toInstant(startedAtMs), is_stopping: isStopping },
    problems: judge(view, jobs, nowMs),
    jobs: jobs.map((job) => Object.fromEntries(SUMMARY.map((name) => [name, job[name]])) as JobSummary),
  };
}

export function describeJob(job: JobView, view: DaemonView, nowMs: number, calendar: CalendarOverride): JobDocument {
  const facts = describeFacts(job, nowMs, calendar);
  return { ...facts, problems: judge(view, [facts], nowMs).filter(({ level }) => level !== 'well') };
}

/** Its process is nobody's business. */
export function describeRun({ process: _, ...run }: RunRecord): RunSummary {
  return run;
}

export type JobFacts = Omit<JobDocument, 'problems'>;

/** All of a job's document but its problems. */
export function describeFacts(view: JobView, nowMs: number, calendar: CalendarOverride): JobFacts {
  const { settle_seconds: _, status, active, runs, ...known } = view;
  const { name } = view;
  const last = runs.find(isEndedRun);
  const done = runs.find(({ command, outcome }) => command === 'run' && outcome === 'done');
  const gaps = listGaps(view, nowMs, calendar);
  const facts = {
    ...known,
    as_of: toInstant(nowMs),
    dataset: status?.dataset ?? null,
    store: status?.store ?? null,
    // May be older than the runs that are kept here.
    last_success: done?.finished_at ?? status?.last_success ?? null,
    last_run: last?.outcome
      ? { id: last.id, outcome: last.outcome, finished_at: endOf(last), error: whyFailed(last)?.code ?? null }
      : null,
    gaps: status && gaps.length,
    sessions: listLastSessions(view, nowMs, calendar),
    status_fault: view.status_fault ?? status?.fault ?? null,
    gap_dates: gaps,
    owed_events: status?.owed_events ?? null,
    late: status?.late ?? null,
    next_deadline: status?.next_deadline ?? null,
    active: active && describeRun(active),
    dates: status?.dates ?? [],
    date_counts: status?.date_counts ?? null,
    runs: runs.map(describeRun),
    reports: (status?.reports ?? []).map((report) => ({ job: name, ...report, href: reportPath(name, report) })),
  };
  return { ...facts, state: judgeState(facts) };
}

/** One word; the most urgent that is true. */
function judgeState(job: Omit<JobFacts, 'state'>): JobStateWord {
  if (job.fault) return 'broken';
  if (job.running) return 'running';
  if (job.last_run && isFailed(job.last_run.outcome)) return 'failed';
  if (job.status_fault !== null) return 'unread';
  if (job.gaps) return 'gaps';
  if (job.waiting_since !== null) return 'waiting';
  return job.dates.length > 0 ? 'well' : 'new';
}

/** The last sessions up to today, oldest first, and what is known of each. */
function listLastSessions({ status }: JobView, nowMs: number, calendar: CalendarOverride): JobSummary['sessions'] {
  const today = formatWallDate(nowMs);
  const from = addDays(today, -SPAN_DAYS);
  // Dates are sorted: only their end matters.
  const recent = (status?.dates ?? []).slice(-SPAN_DAYS).filter(({ date }) => date >= from);
  const known = new Map(recent.map((date) => [date.date, date]));
  const listed = new Set([...listSessions(from, today, calendar), ...known.keys()]);
  // Today's session is no cell until something is known of it.
  const shown = [...listed].filter((date) => date < today || known.has(date)).sort();
  return shown.slice(-SHOWN_SESSIONS).map((date) => {
    const { condition = null, rows = null, revision = null } = known.get(date) ?? {};
    return { date, condition, rows, revision };
  });
}

/** How long losses are mentioned: as long as in the alerts of runs. */
const TELL_LOSSES_DAYS = 30;
/** A date without a run this long after its close is a gap, whatever the schedule. */
const PATIENCE_MS = 24 * 3_600_000;

/** Gaps of a job, soonest expiry first; empty while its status is unknown. */
function listGaps(job: JobView, nowMs: number, calendar: CalendarOverride): Gap[] {
  const dates = job.status?.dates ?? [];
  const newest = dates.at(-1)?.date;
  const gaps = dates.flatMap(({ date, condition, accepted, begins_to_expire }) => {
    if (accepted || (condition !== 'pending' && condition !== 'missing')) return [];
    if (condition === 'pending' && date === newest && isAwaited(job, date, nowMs, calendar)) return [];
    return [{ job: job.name, date, condition, begins_to_expire }];
  });
  return gaps.sort(bySoonestExpiry);
}

function bySoonestExpiry(a: Gap | undefined, b: Gap | undefined): number {
  const expiryOf = (gap: Gap | undefined) => parseInstant(gap?.begins_to_expire) ?? Number.MAX_SAFE_INTEGER;
  return expiryOf(a) - expiryOf(b);
}

/** Whether the close is recent, and no run that could have sealed the date has ended. */
function isAwaited(
  { runs, settle_seconds: settleSeconds }: JobView,
  date: string,
  nowMs: number,
  calendar: CalendarOverride,
): boolean {
  const closeMs = parseWallClock(date, sessionCloseSecond(date, calendar));
  if (nowMs - closeMs > PATIENCE_MS) return false;
  const lastRunMs = parseInstant(runs.find(isEndedRun)?.started_at);
  return lastRunMs === undefined || lastRunMs < settledAt(date, { settleSeconds, calendar });
}

/** Never empty; the worst problem comes first. */
function judge({ isStopping }: DaemonView, jobs: readonly JobFacts[], nowMs: number): Problem[] {
  const found = jobs
    .toSorted((a, b) => bySoonestExpiry(a.gap_dates[0], b.gap_dates[0]))
    .flatMap((job) => judgeJob(job, nowMs).map((problem) => ({ ...NOTHING, job: job.name, ...problem })));
  if (isStopping) found.push({ ...NOTHING, text: 'The daemon is stopping: it starts no more runs.' });
  if (jobs.length === 0) found.push({ ...NOTHING, text: 'There is no job with a schedule.' });
  if (found.length === 0) return [{ ...NOTHING, level: 'well', text: tellWell(jobs, nowMs) }];
  return found.sort((a, b) => Number(a.level !== 'wrong') - Number(b.level !== 'wrong'));
}

const NOTHING: Problem = { level: 'note', text: '', job: null, help: null, date: null, run: null };

function judgeJob(job: JobFacts, nowMs: number): readonly (Partial<Problem> & { text: string })[] {
  const { name, running, fault, gap_dates: gaps, last_run: last, owed_events: owed, status_fault: unread } = job;
  const problems: (Partial<Problem> & { text: string })[] = [];
  const [first] = gaps;
  if (first) problems.push({ ...tellGaps(first, gaps.length, nowMs), help: running ? null : 'run' });
  const since = addDays(formatWallDate(nowMs), -TELL_LOSSES_DAYS);
  const lost = job.dates.filter(
    ({ date, condition, accepted }) => condition === 'expired' && !accepted && date > since,
  );
  if (lost[0]) {
    const { date } = lost[0];
    const dates = lost.length === 1 ? `${date} has` : `${lost.length} dates, starting with ${date}, have`;
    problems.push({ text: `${dates} expired before being sealed`, help: 'accept', date });
  }
  if (last && isFailed(last.outcome)) {
    const when = formatRelative(Date.parse(last.finished_at), nowMs);
    const text = `The last run of ${name} failed ${when}: ${last.error ?? OUTCOME_WORDS[last.outcome]}`;
    problems.push({ level: 'wrong', text, help: running ? null : 'retry', run: last.id });
  }
  if (job.late) problems.push({ level: 'wrong', text: `${job.late.date} has missed its deadline: ${job.late.lacks}` });
  // Events that a program waits for. A run posts them at its end, so while one runs it is too early to say.
  if (owed && !running) {
    const [what, whose] = owed.count === 1 ? ['event has', 'its receiver'] : ['events have', 'their receiver'];
    const oldest = formatRelative(Date.parse(owed.since), nowMs);
    const why = owed.reason === null ? '' : `: ${firstLine(owed.reason)}`;
    const text = `${owed.count} ${what} not reached ${whose}, the oldest ${oldest}${why}. To try again: flowdrop alert ${name}`;
    problems.push({ level: 'wrong', text });
  }
  if (fault) {
    const text = `The current job file of ${name} is not in use: ${firstLine(fault.message)}`;
    problems.push({ level: 'wrong', text, help: 'reload' });
  }
  if (unread) problems.push({ level: 'wrong', text: `The status of ${name} cannot be read: ${firstLine(unread)}` });
  return problems;
}

function tellGaps(first: Gap, number: number, nowMs: number): Pick<Problem, 'level' | 'text'> {
  const count = countOf(number, 'gap');
  const expiresAtMs = parseInstant(first.begins_to_expire);
  if (expiresAtMs === undefined) return { level: 'note', text: `${count}; none expires` };
  const leftMs = expiresAtMs - nowMs;
  const which = number === 1 ? `; ${first.date}` : `; the first, ${first.date},`;
  const when = leftMs > 0 ? `begins to expire in ${formatSpan(leftMs)}` : 'has begun to expire';
  return { level: leftMs < GAP_WARNING_MS ? 'wrong' : 'note', text: `${count}${which} ${when}` };
}

/** How the end of a run looks. */
export const OUTCOME_TONES: Readonly<Record<RunOutcome, 'good' | 'fair' | 'bad' | 'calm'>> = {
  done: 'good',
  failed: 'bad',
  usage: 'bad',
  incomplete: 'fair',
  active: 'calm',
  interrupted: 'fair',
  died: 'bad',
  'timed-out': 'bad',
};

function tellWell(jobs: readonly JobFacts[], nowMs: number): string {
  if (jobs.some((job) => job.status_read_at === null)) {
    return 'No problem is known, but some statuses have not been read yet';
  }
  const running = jobs.filter((job) => job.running).length;
  if (running > 0) return `All is well; ${running === 1 ? 'a run is' : `${running} runs are`} active`;
  const next = Math.min(...jobs.map((job) => parseInstant(job.next_run) ?? Number.POSITIVE_INFINITY));
  return `All is well${Number.isFinite(next) ? `; the next run is due ${formatRelative(next, nowMs)}` : ''}`;
}

/** @param most characters */
export function firstLine(text: string, most = Number.POSITIVE_INFINITY): string {
  const line = text.split('\n')[0] ?? '';
  return line.length > most ? `${line.slice(0, most)}…` : line;
}
