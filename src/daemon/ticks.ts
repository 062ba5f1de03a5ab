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
/** Days whose answers are cached: a lookback, and the days of current ticks. */
const LOOKED_BACK_DAYS = 32;
/** Longer than from one 29 February to the next, also around a year like 2100. */
const MAX_AHEAD_MS = 9 * 366 * DAY_MS;
/** No jump of a clock is larger. */
const NIGHT_MS = 2 * HOUR_MS;
/** All sizes of clock changes: an hour, half an hour on Lord Howe Island, two hours at some stations. */
const SHIFTS_MS = [30 * MINUTE_MS, 60 * MINUTE_MS, 120 * MINUTE_MS];
/** No clock changes within such a block: today all zones change at full quarters of an hour, in UTC too. */
const OFFSET_BLOCK_MS = 15 * MINUTE_MS;

export type Ticks = ReturnType<typeof createTicks>;

export function createTicks({ cron, timezone }: Pick<JobSchedule, 'cron' | 'timezone'>) {
  const wallOf = createWallClock(timezone);
  const { matches, matchesDay } = createMatcher(cron);
  let known: { readonly askedAtMs: number; readonly nextMs: number } | undefined;

  const isTick = (ms: number): boolean => {
    const shown = wallOf(ms);
    if (matches(shown)) return !SHIFTS_MS.some((shift) => wallOf(ms - shift) === shown);
    const shownBefore = wallOf(ms - MINUTE_MS);
    const skippedMs = shown - shownBefore - MINUTE_MS;
    if (skippedMs <= 0) return false;
    const anyOf = (fromMs: number) => {
      for (let at = fromMs; at < fromMs + skippedMs; at += MINUTE_MS) if (matches(at)) return true;
      return false;
    };
    return anyOf(shownBefore + MINUTE_MS) && !anyOf(shown);
  };
  const findNext = (nowMs: number): number => {
    let ms = floorToMinute(nowMs) + MINUTE_MS;
    while (ms < nowMs + MAX_AHEAD_MS) {
      if (isTick(ms)) return ms;
      // Stops short of the end of a day without ticks: clocks are changed at night.
      const leftMs = DAY_MS - (wallOf(ms) % DAY_MS) - NIGHT_MS;
      ms += leftMs > 0 && !matchesDay(wallOf(ms)) ? leftMs : MINUTE_MS;
    }
    return Number.POSITIVE_INFINITY;
  };
  return {
    /** The newest tick in `(afterMs, throughMs]`, in milliseconds since the epoch; `undefined` when there is none. */
    newest(afterMs: number, throughMs: number, accept = (_tickMs: number) => true): number | undefined {
      for (let ms = floorToMinute(throughMs); ms > afterMs; ms -= MINUTE_MS) if (isTick(ms) && accept(ms)) return ms;
      return undefined;
    },
    /** The first tick after an instant; infinite if there is none within some years. */
    next(nowMs: number): number {
      if (!known || nowMs < known.askedAtMs || nowMs >= known.nextMs) {
        known = { askedAtMs: nowMs, nextMs: findNext(nowMs) };
      }
      return known.nextMs;
    },
  };
}

/**
 * Whether a schedule matches a wall-clock time, even one that the zone skips. Minute, hour and day are matched
 * separately and cached: the whole lookback has 21,600 minutes, and node-cron formats a date for each match.
 */
function createMatcher(cron: string) {
  const [minute = '*', hour = '*', ...day] = cron.trim().split(/\s+/);
  const ofMinute = createPartMatcher(`${minute} * * * *`, HOUR_MS / MINUTE_MS);
  const ofHour = createPartMatcher(`* ${hour} * * *`, DAY_MS / HOUR_MS);
  const ofDay = createPartMatcher(`* * ${day.join(' ')}`, LOOKED_BACK_DAYS);
  const matchesDay = (wallMs: number) => ofDay(wallMs, Math.floor(wallMs / DAY_MS));
  const matches = (wallMs: number) =>
    ofMinute(wallMs, (wallMs % HOUR_MS) / MINUTE_MS) &&
    ofHour(wallMs, Math.floor((wallMs % DAY_MS) / HOUR_MS)) &&
    matchesDay(wallMs);
  return { matches, matchesDay };
}

/** Caches up to `maxKnown` answers. */
function createPartMatcher(cron: string, maxKnown: number): (wallMs: number, part: number) => boolean {
  const task = createTask(cron, () => undefined, { timezone: 'Etc/UTC' });
  const known = new Map<number, boolean>();
  return (wallMs, part) => {
    let answer = known.get(part);
    if (answer === undefined) {
      answer = task.match(new Date(wallMs));
      if (known.size >= maxKnown) known.clear();
      known.set(part, answer);
    }
    return answer;
  };
}

/** The wall-clock time of the zone, as if it were UTC; to the minute. */
function createWallClock(timeZone: string): (ms: number) => number {
  // It prints `2026-11-20 17:30`. Reading the zone's rules costs more than everything else.
  const format = new Intl.DateTimeFormat('sv-SE', { timeZone, dateStyle: 'short', timeStyle: 'short' });
  let blockMs = Number.NaN;
  let offsetMs = 0;
  return (ms) => {
    const atMs = floorToMinute(ms);
    const block = Math.floor(atMs / OFFSET_BLOCK_MS) * OFFSET_BLOCK_MS;
    if (block !== blockMs) {
      blockMs = block;
      offsetMs = Date.parse(`${format.format(block).replace(' ', 'T')}Z`) - block;
    }
    return atMs + offsetMs;
  };
}

function floorToMinute(ms: number): number {
  return Math.floor(ms / MINUTE_MS) * MINUTE_MS;
}
