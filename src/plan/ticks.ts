/**
 * The ticks of a schedule as instants, so that missed ticks are found and no tick counts twice. When clocks change: in
 * autumn a repeated time ticks only the first time, as in node-cron. In spring a skipped time, which node-cron drops,
 * ticks right after the jump, unless the schedule also ticks soon after it. Nothing is started here.
 */
import { createTask } from 'node-cron';
import type { JobSchedule } from '../job/job.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;
/** Longer than from one 29 February to the next, also around a year like 2100. */
const MAX_AHEAD_MS = 9 * 366 * DAY_MS;

export type Ticks = ReturnType<typeof createTicks>;

export function createTicks({ cron, timezone }: Pick<JobSchedule, 'cron' | 'timezone'>) {
  const [minute = '*', hour = '*', ...day] = cron.trim().split(/\s+/);
  const offsetOf = createOffsets(timezone);
  const isDay = createMatcher(`* * ${day.join(' ')}`);
  const hours = listSteps(24, HOUR_MS).filter(createMatcher(`* ${hour} * * *`));
  const minutes = listSteps(60, MINUTE_MS).filter(createMatcher(`${minute} * * * *`));
  /** In milliseconds since midnight. */
  const times = hours.flatMap((hourMs) => minutes.map((minuteMs) => hourMs + minuteMs));
  let known: { readonly askedAtMs: number; readonly nextMs: number } | undefined;
  return { newest, next };

  /** The newest tick in `(afterMs, throughMs]`, in milliseconds since the epoch; `undefined` when there is none. */
  function newest(afterMs: number, throughMs: number, accept = (_tickMs: number) => true): number | undefined {
    if (next(afterMs) > throughMs) return undefined;
    for (let dayMs = dayOf(throughMs); dayMs >= dayOf(afterMs); dayMs -= DAY_MS) {
      const found = listDay(dayMs).findLast((ms) => ms > afterMs && ms <= throughMs && accept(ms));
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /** The first tick after an instant; infinite if there is none within some years. */
  function next(nowMs: number): number {
    if (!known || nowMs < known.askedAtMs || nowMs >= known.nextMs)
      known = { askedAtMs: nowMs, nextMs: findNext(nowMs) };
    return known.nextMs;
  }

  function findNext(nowMs: number): number {
    for (let dayMs = dayOf(nowMs); dayMs < nowMs + MAX_AHEAD_MS; dayMs += DAY_MS) {
      const found = listDay(dayMs).find((ms) => ms > nowMs);
      if (found !== undefined) return found;
    }
    return Number.POSITIVE_INFINITY;
  }

  /** The day of the zone, as if it were UTC. */
  function dayOf(ms: number): number {
    return Math.floor((ms + offsetOf(ms)) / DAY_MS) * DAY_MS;
  }

  /** The ticks of a day of the zone, oldest first. */
  function listDay(dayMs: number): readonly number[] {
    if (!isDay(dayMs)) return [];
    const [before, after] = [offsetOf(dayMs - DAY_MS), offsetOf(dayMs + 2 * DAY_MS)];
    if (before === after) return times.map((time) => dayMs + time - before);
    // The larger offset is the earlier instant.
    const offsets = [before, after].sort((a, b) => b - a);
    const found = times.map((time) =>
      offsets.map((offset) => dayMs + time - offset).find((ms) => ms + offsetOf(ms) === dayMs + time),
    );
    const ticks = found.filter((ms) => ms !== undefined);
    if (ticks.length === times.length) return ticks;
    const jumpMs = listSteps((3 * DAY_MS) / MINUTE_MS, MINUTE_MS)
      .map((ms) => dayMs - DAY_MS + ms)
      .find((ms) => offsetOf(ms) === after);
    if (jumpMs === undefined || ticks.some((ms) => ms >= jumpMs && ms < jumpMs + after - before)) return ticks;
    return [...ticks, jumpMs].sort((a, b) => a - b);
  }
}

/** Whether a schedule matches a wall-clock time, as if it were UTC; even one that the zone skips. */
function createMatcher(cron: string): (wallMs: number) => boolean {
  const task = createTask(cron, () => undefined, { timezone: 'Etc/UTC' });
  return (wallMs) => task.match(new Date(wallMs));
}

function listSteps(count: number, stepMs: number): readonly number[] {
  return Array.from({ length: count }, (_, index) => index * stepMs);
}

/** What the zone's clock is ahead of UTC at an instant, to the minute. */
function createOffsets(timeZone: string): (ms: number) => number {
  // It prints `2026-11-20 17:30`.
  const format = new Intl.DateTimeFormat('sv-SE', { timeZone, dateStyle: 'short', timeStyle: 'short' });
  return (ms) => {
    const atMs = Math.floor(ms / MINUTE_MS) * MINUTE_MS;
    return Date.parse(`${format.format(atMs).replace(' ', 'T')}Z`) - atMs;
  };
}
