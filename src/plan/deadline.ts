/**
 * The deadline of a session, `schedule.sealed_by`: by when its date must be sealed and its reports accepted. It is the
 * first such time of day at which the date can be sealed, so no deadline is before its own session. Pure.
 */
import { type CalendarOverride, listSessions } from '../calendar/session.ts';
import { addDays, formatWallDate } from '../calendar/wall-clock.ts';
import type { Job } from '../job/job.ts';
import { sealsFrom } from './dates.ts';
import { createTicks } from './ticks.ts';

/** Longer than any closing of the exchange. */
const SEARCHED_DAYS = 10;

/** @returns `undefined` for a job without a deadline */
export function createDeadlines(
  job: Pick<Job, 'schedule' | 'source' | 'settleSeconds' | 'settleUntil'>,
  calendar?: CalendarOverride,
) {
  const { sealedBy, timezone } = job.schedule ?? {};
  if (!sealedBy || timezone === undefined) return undefined;
  const [hour, minute] = sealedBy.split(':').map(Number);
  const ticks = createTicks({ cron: `${minute} ${hour} * * *`, timezone });
  const list = (nowMs: number) => {
    const today = formatWallDate(nowMs);
    const dates = listSessions(addDays(today, -SEARCHED_DAYS), addDays(today, SEARCHED_DAYS), calendar);
    return dates.map((date) => ({ date, atMs: ticks.next(sealsFrom(job, date, calendar) - 1) }));
  };
  return {
    /** The newest session whose deadline has passed. */
    last: (nowMs: number) => list(nowMs).findLast(({ atMs }) => atMs <= nowMs),
    /** The next deadline, milliseconds since the epoch. */
    next: (nowMs: number) => list(nowMs).find(({ atMs }) => atMs > nowMs)?.atMs,
  };
}
