/**
 * Describes what is wrong, in the sentences at the top of the page, the worst first. Pure. It includes only problems
 * that a person can act on. A lost date is mentioned for a while, then only shown in the calendar.
 */
import type { CalendarOverride } from '../../calendar/session.ts';
import { addDays, formatWallDate } from '../../calendar/wall-clock.ts';
import type { DaemonView, JobView, RunRecord } from '../job-view.ts';
import { type Gap, listGaps } from './date-gap.ts';
import { findLastEnd } from './last-end.ts';
import { formatRelative, formatSpan } from './time-text.ts';

/** How long losses are mentioned: as long as in the alerts of runs. */
const TELL_LOSSES_DAYS = 30;
/** Gaps that expire within this time are urgent, as in the alert `gap-expires-soon`. */
const URGENT_MS = 48 * 3_600_000;

type HealthLevel = 'well' | 'note' | 'wrong';

export interface HealthFinding {
  readonly level: HealthLevel;
  readonly text: string;
  /** The affected job, if it is one job. */
  readonly job: string | undefined;
}

/** Never empty; the worst finding comes first. */
export function judge(view: DaemonView, nowMs: number, calendar: CalendarOverride): readonly HealthFinding[] {
  const { jobs } = view;
  const gaps = jobs.flatMap((job) => listGaps(job, nowMs, calendar)).sort(bySoonestExpiry);
  const findings = [
    ...(gaps.length > 0 ? [tellGaps(gaps, nowMs)] : []),
    ...tellLosses(jobs, nowMs),
    ...jobs.flatMap((job) => tellLastRun(job, nowMs)),
    ...jobs.flatMap(({ name, fault }) =>
      fault ? [found('wrong', `The current job file of ${name} is not in use: ${firstLine(fault.message)}`, name)] : [],
    ),
    ...jobs.flatMap(({ name, statusFault, status }) => {
      const reason = statusFault ?? status?.document.fault ?? undefined;
      return reason ? [found('wrong', `The status of ${name} cannot be read: ${firstLine(reason)}`, name)] : [];
    }),
    ...(view.isStopping ? [found('note', 'The daemon is stopping: it starts no more runs.', undefined)] : []),
    ...(jobs.length === 0 ? [found('note', 'There is no job with a schedule.', undefined)] : []),
  ];
  if (findings.length === 0) return [found('well', tellWell(jobs, nowMs), undefined)];
  return findings.sort((a, b) => rank(a) - rank(b));
}

function tellGaps(gaps: readonly Gap[], nowMs: number): HealthFinding {
  const [first] = gaps;
  const count = `${gaps.length} gap${gaps.length === 1 ? '' : 's'}`;
  const jobs = new Set(gaps.map(({ job }) => job));
  const job = jobs.size === 1 ? first?.job : undefined;
  if (first?.expiresAtMs === undefined) return found('note', `${count}; none expires`, job);
  const leftMs = first.expiresAtMs - nowMs;
  const which = gaps.length === 1 ? `; ${first.date}` : `; the first, ${first.date},`;
  const when = leftMs > 0 ? `begins to expire in ${formatSpan(leftMs)}` : `has begun to expire`;
  return found(leftMs < URGENT_MS ? 'wrong' : 'note', `${count}${which} ${when}`, job);
}

function tellLosses(jobs: readonly JobView[], nowMs: number): readonly HealthFinding[] {
  const since = addDays(formatWallDate(nowMs), -TELL_LOSSES_DAYS);
  return jobs.flatMap(({ name, status }) => {
    const lost = (status?.document.dates ?? []).filter(
      ({ date, condition }) => condition === 'expired' && date > since,
    );
    const [first] = lost;
    if (!first) return [];
    const dates = lost.length === 1 ? `${first.date} has` : `${lost.length} dates, ${first.date} the first, have`;
    return [found('note', `${dates} expired before being sealed`, name)];
  });
}

function tellLastRun(job: JobView, nowMs: number): readonly HealthFinding[] {
  const { name } = job;
  const last = findLastEnd(job);
  if (!last || !FAILED.has(last.outcome)) return [];
  const why = last.error ? last.error.code : OUTCOME_WORDS[last.outcome];
  return [found('wrong', `The last run of ${name} failed ${formatRelative(last.finishedAtMs, nowMs)}: ${why}`, name)];
}

const FAILED: ReadonlySet<RunRecord['outcome']> = new Set(['failed', 'usage', 'died', 'timed-out']);

/** Outcomes for people. */
export const OUTCOME_WORDS: Readonly<Record<RunRecord['outcome'], string>> = {
  done: 'done',
  failed: 'failed',
  usage: 'refused',
  incomplete: 'incomplete',
  active: 'another run was active',
  interrupted: 'interrupted',
  died: 'died',
  'timed-out': 'timed out',
  'no-session': 'no session',
};

function tellWell(jobs: readonly JobView[], nowMs: number): string {
  const read = jobs.filter(({ status }) => status !== undefined).length;
  if (read < jobs.length) return 'No problem is known; not every status is read yet';
  const running = jobs.filter((job) => job.running !== undefined).length;
  if (running > 0) return `All is well; ${running === 1 ? 'a run is' : `${running} runs are`} active`;
  const next = Math.min(...jobs.map(({ nextRunAtMs }) => nextRunAtMs ?? Number.POSITIVE_INFINITY));
  return `All is well${Number.isFinite(next) ? `; the next run is due ${formatRelative(next, nowMs)}` : ''}`;
}

function bySoonestExpiry(a: Gap, b: Gap): number {
  return (a.expiresAtMs ?? Number.MAX_SAFE_INTEGER) - (b.expiresAtMs ?? Number.MAX_SAFE_INTEGER);
}

function rank({ level }: HealthFinding): number {
  return ['wrong', 'note', 'well'].indexOf(level);
}

function found(level: HealthLevel, text: string, job: string | undefined): HealthFinding {
  return { level, text, job };
}

function firstLine(text: string): string {
  return text.split('\n')[0] ?? '';
}
