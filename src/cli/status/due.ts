/**
 * Who makes the next run of a job, as far as this machine knows, and which dates need a person: a schedule is a promise
 * that somebody must keep. Pure: the time is passed in.
 */
import { type CalendarOverride, isSession } from '../../calendar/session.ts';
import { formatWallDate } from '../../calendar/wall-clock.ts';
import { formatSpan } from '../../core/date-text.ts';
import { countOf } from '../../core/units.ts';
import type { Job } from '../../job/job.ts';
import { GAP_WARNING_MS, sealsFrom } from '../../plan/dates.ts';
import type { Ticks } from '../../plan/ticks.ts';
import type { DateStatus, JobStatus } from '../../state/documents.ts';
import type { Heartbeat } from '../../state/heartbeat.ts';
import { isFailed, type RunRecord } from '../../state/run-record.ts';

/** How late a timer may start its run. */
const GRACE_MS = 15 * 60_000;
/** How many due times in a row had a run that no daemon started: one such run is that of a person. */
const TIMER_RUNS = 2;
/** Two due times of a weekly schedule. */
const SEARCHED_MS = 15 * 86_400_000;

export interface DueFacts {
  readonly job: Job;
  /** Of its schedule, if it has one. */
  readonly ticks: Ticks | undefined;
  readonly heartbeat: Heartbeat | undefined;
  /** The last ones on record. */
  readonly runs: readonly RunRecord[];
  readonly calendar: CalendarOverride;
  readonly nowMs: number;
}

/** When the schedule was last due at or before an instant, on a day with a session if there was one. */
export function findLastDue({ ticks, calendar }: DueFacts, throughMs: number): number | undefined {
  const hasSession = (tickMs: number) => isSession(formatWallDate(tickMs), calendar);
  const afterMs = throughMs - SEARCHED_MS;
  return ticks?.newest(afterMs, throughMs, hasSession) ?? ticks?.newest(afterMs, throughMs);
}

export function findRunner(facts: DueFacts): JobStatus['runner'] {
  const { job, heartbeat, runs, nowMs } = facts;
  if (heartbeat?.jobs.includes(job.name)) return 'daemon';
  const byHand = runs.filter(({ command, reason }) => command === 'run' && reason === 'hand');
  const startsMs = byHand.map(({ started_at: at }) => Date.parse(at));
  let [untilMs, throughMs] = [Number.POSITIVE_INFINITY, nowMs - GRACE_MS];
  for (let found = 0; found < TIMER_RUNS; found += 1) {
    const dueMs = findLastDue(facts, throughMs);
    if (dueMs === undefined || !startsMs.some((ms) => ms >= dueMs && ms < untilMs)) return null;
    [untilMs, throughMs] = [dueMs, dueMs - 1];
  }
  return 'timer';
}

/** Dates that can still be fetched, and that nobody fetches in time. */
export function listAttention(
  facts: DueFacts,
  { dates, running, runner, last_run: last }: Pick<JobStatus, 'dates' | 'running' | 'runner' | 'last_run'>,
): JobStatus['attention'] {
  const { job, ticks, nowMs, calendar } = facts;
  const leftOf = ({ begins_to_expire: at }: DateStatus) =>
    at === null ? Number.POSITIVE_INFINITY : Date.parse(at) - nowMs;
  const open = dates.filter((one) => one.condition === 'pending' && one.accepted === null && leftOf(one) > 0);
  const isNeglected = (one: DateStatus) => {
    if (leftOf(one) < GAP_WARNING_MS) return true;
    // Its settings or its file are wrong: every next run fails, too.
    if (runner !== null) return last?.outcome === 'usage';
    const dueMs = findLastDue(facts, nowMs - GRACE_MS);
    return ticks === undefined || (dueMs !== undefined && dueMs >= sealsFrom(job, one.date, calendar));
  };
  // Before the first run that went through nothing is known, so nothing expires here.
  if (dates.length === 0 && running === null && last !== null && isFailed(last.outcome))
    return [`the last run failed before any date was known: \`flowdrop runs ${job.name} last\` says why`];
  const neglected = running === null ? open.filter(isNeglected) : [];
  if (neglected.length === 0) return [];
  const leftMs = Math.min(...neglected.map(leftOf));
  const soonest = Number.isFinite(leftMs) ? `; the first expires in ${formatSpan(leftMs)}` : '';
  return [`${countOf(neglected.length, 'date')} to fetch${soonest}: \`flowdrop run ${job.name}\``];
}
