/**
 * Describes what is wrong, in the sentences at the top of the page, the worst first. Pure. It includes only problems
 * that a person can act on. A lost date is mentioned for a while, then only shown in the calendar.
 */

import type { CalendarOverride } from '../../calendar/session.ts';
import { addDays, formatWallDate } from '../../calendar/wall-clock.ts';
import { formatRelative, formatSpan } from '../../core/date-text.ts';
import { endOf, isEndedRun, isFailed, type RunOutcome, whyFailed } from '../../state/run-record.ts';
import type { DaemonView, JobView } from '../job-view.ts';
import type { Problem } from './api-shape.ts';
import { bySoonestExpiry, type Gap, listGaps } from './date-gap.ts';

/** How long losses are mentioned: as long as in the alerts of runs. */
const TELL_LOSSES_DAYS = 30;
/** Gaps that expire within this time are urgent, as in the alert `gap-expires-soon`. */
const URGENT_MS = 48 * 3_600_000;

/** Never empty; the worst problem comes first. */
export function judge(view: DaemonView, nowMs: number, calendar: CalendarOverride): readonly Problem[] {
  const { jobs } = view;
  const found = [
    ...jobs
      .map((job) => listGaps(job, nowMs, calendar))
      .filter((gaps) => gaps.length > 0)
      .sort(([a], [b]) => bySoonestExpiry(a, b))
      .map((gaps) => tellGaps(gaps, nowMs))
      .map((each) => (jobs.some(({ name, running }) => running && name === each.job) ? { ...each, help: null } : each)),
    ...jobs.flatMap((job) => [
      ...tellLosses(job, nowMs),
      ...tellLastRun(job, nowMs),
      ...tellOwed(job, nowMs),
      ...tellFaults(job),
    ]),
    ...(view.isStopping ? [problem('note', 'The daemon is stopping: it starts no more runs.')] : []),
    ...(jobs.length === 0 ? [problem('note', 'There is no job with a schedule.')] : []),
  ];
  if (found.length === 0) return [problem('well', tellWell(jobs, nowMs))];
  return found.sort((a, b) => rank(a) - rank(b));
}

/** @param gaps of one job, soonest expiry first; at least one */
function tellGaps(gaps: readonly Gap[], nowMs: number): Problem {
  const [first] = gaps;
  const count = `${gaps.length} gap${gaps.length === 1 ? '' : 's'}`;
  const about = { job: first?.job ?? null, help: 'run' as const };
  if (first?.expiresAtMs === undefined) return problem('note', `${count}; none expires`, about);
  const leftMs = first.expiresAtMs - nowMs;
  const which = gaps.length === 1 ? `; ${first.date}` : `; the first, ${first.date},`;
  const when = leftMs > 0 ? `begins to expire in ${formatSpan(leftMs)}` : `has begun to expire`;
  return problem(leftMs < URGENT_MS ? 'wrong' : 'note', `${count}${which} ${when}`, about);
}

function tellLosses({ name, status }: JobView, nowMs: number): readonly Problem[] {
  const since = addDays(formatWallDate(nowMs), -TELL_LOSSES_DAYS);
  const lost = (status?.document.dates ?? []).filter(
    ({ date, condition, accepted }) => condition === 'expired' && !accepted && date > since,
  );
  const [first] = lost;
  if (!first) return [];
  const dates = lost.length === 1 ? `${first.date} has` : `${lost.length} dates, starting with ${first.date}, have`;
  const about = { job: name, help: 'accept', date: first.date } as const;
  return [problem('note', `${dates} expired before being sealed`, about)];
}

function tellLastRun(job: JobView, nowMs: number): readonly Problem[] {
  const { name } = job;
  const last = job.runs.find(isEndedRun);
  if (!last?.outcome || !isFailed(last.outcome)) return [];
  const why = whyFailed(last)?.code ?? OUTCOMES[last.outcome][0];
  const text = `The last run of ${name} failed ${formatRelative(Date.parse(endOf(last)), nowMs)}: ${why}`;
  return [problem('wrong', text, { job: name, help: job.running ? null : 'retry', run: last.id })];
}

/** Events that a program waits for. A run posts them at its end, so while one runs it is too early to say. */
function tellOwed({ name, status, running }: JobView, nowMs: number): readonly Problem[] {
  const owed = status?.document.owed_events;
  if (!owed || running) return [];
  const what = `${owed.count} event${owed.count === 1 ? ' has' : 's have'}`;
  const since = formatRelative(Date.parse(owed.since), nowMs);
  const why = owed.reason === null ? '' : `: ${firstLine(owed.reason)}`;
  const text = `${what} not reached ${owed.count === 1 ? 'its receiver' : 'their receiver'}, the oldest ${since}${why}. To try again: flowdrop alert ${name}`;
  return [problem('wrong', text, { job: name })];
}

function tellFaults({ name, fault, status, statusFault }: JobView): readonly Problem[] {
  const reason = statusFault ?? status?.document.fault ?? undefined;
  return [
    ...(fault
      ? [
          problem('wrong', `The current job file of ${name} is not in use: ${firstLine(fault.message)}`, {
            job: name,
            help: 'reload',
          }),
        ]
      : []),
    ...(reason ? [problem('wrong', `The status of ${name} cannot be read: ${firstLine(reason)}`, { job: name })] : []),
  ];
}

/** Outcomes for people, in words and by their look. */
export const OUTCOMES: Readonly<Record<RunOutcome, readonly [words: string, tone: 'good' | 'fair' | 'bad' | 'calm']>> =
  {
    done: ['done', 'good'],
    failed: ['failed', 'bad'],
    usage: ['refused', 'bad'],
    incomplete: ['incomplete', 'fair'],
    active: ['another run was active', 'calm'],
    interrupted: ['interrupted', 'fair'],
    died: ['died', 'bad'],
    'timed-out': ['timed out', 'bad'],
  };

function tellWell(jobs: readonly JobView[], nowMs: number): string {
  const read = jobs.filter(({ status }) => status !== undefined).length;
  if (read < jobs.length) return 'No problem is known, but some statuses have not been read yet';
  const running = jobs.filter((job) => job.running !== undefined).length;
  if (running > 0) return `All is well; ${running === 1 ? 'a run is' : `${running} runs are`} active`;
  const next = Math.min(...jobs.map(({ nextRunAtMs }) => nextRunAtMs ?? Number.POSITIVE_INFINITY));
  return `All is well${Number.isFinite(next) ? `; the next run is due ${formatRelative(next, nowMs)}` : ''}`;
}

function rank({ level }: Problem): number {
  return ['wrong', 'note', 'well'].indexOf(level);
}

function problem(
  level: Problem['level'],
  text: string,
  { job = null, help = null, date = null, run = null }: Partial<Omit<Problem, 'level' | 'text'>> = {},
): Problem {
  return { level, text, job, help, date, run };
}

function firstLine(text: string): string {
  return text.split('\n')[0] ?? '';
}
