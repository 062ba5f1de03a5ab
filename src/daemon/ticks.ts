/**
 * The ticks of a schedule as instants. node-cron fires them; this lists them, so that missed ticks are found and no
 * tick counts twice. When clocks change: in autumn a repeated time ticks only the first time, as in node-cron. In
 * spring a skipped time, which node-cron drops, ticks right after the jump, unless the schedule also ticks soon after
 * it. Nothing is started here.
 */
import { createTask } from 'node-cron';
import type { JobSchedule } from '../job/job.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;
/** Days whose answers are cached: a lookback, and the days of current ticks. */
const LOOKED_BACK_DAYS = 32;
/** All sizes of clock changes: an hour, half an hour on Lord Howe Island, two hours at some stations. */
const SHIFTS_MS = [30 * MINUTE_MS, 60 * MINUTE_MS, 120 * MINUTE_MS];
/** No clock changes within such a block: today all zones change at full quarters of an hour, in UTC too. */
const OFFSET_BLOCK_MS = 15 * MINUTE_MS;

export interface Ticks {
  /**
   * The newest tick in `(afterMs, throughMs]`, in milliseconds since the epoch; `undefined` when there is none.
   * @param accept filters ticks
   */
  newest(afterMs: number, throughMs: number, accept?: (tickMs: number) => boolean): number | undefined;
  /** The first tick after now, by this machine's clock. */
  next(nowMs: number): number;
}

export function createTicks({ cron, timezone }: Pick<JobSchedule, 'cron' | 'timezone'>): Ticks {
  const wallOf = createWallClock(timezone);
  const zoned = createTask(cron, () => undefined, { timezone });
  const matches = createMatcher(cron);

  const isTick = (ms: number, shown: number, shownBefore: number): boolean => {
    if (matches(shown)) return !SHIFTS_MS.some((shift) => wallOf(ms - shift) === shown);
    const skippedMs = shown - shownBefore - MINUTE_MS;
    if (skippedMs <= 0) return false;
    const anyOf = (fromMs: number) => {
      for (let at = fromMs; at < fromMs + skippedMs; at += MINUTE_MS) if (matches(at)) return true;
      return false;
    };
    return anyOf(shownBefore + MINUTE_MS) && !anyOf(shown);
  };
  const newest: Ticks['newest'] = (afterMs, throughMs, accept = () => true) => {
    let ms = floorToMinute(throughMs);
    let shown = wallOf(ms);
    for (; ms > afterMs; ms -= MINUTE_MS) {
      const shownBefore = wallOf(ms - MINUTE_MS);
      if (isTick(ms, shown, shownBefore) && accept(ms)) return ms;
      shown = shownBefore;
    }
    return undefined;
  };

  let known: { readonly askedAtMs: number; readonly nextMs: number } | undefined;
  const next = (nowMs: number): number => {
    if (known && known.askedAtMs <= nowMs && nowMs < known.nextMs) return known.nextMs;
    const [fired] = zoned.getNextRuns(1);
    const firedMs = fired?.getTime() ?? Number.POSITIVE_INFINITY;
    const jumpMs = findSpringTick(floorToMinute(nowMs), firedMs);
    known = { askedAtMs: nowMs, nextMs: jumpMs ?? firedMs };
    return known.nextMs;
  };
  /** A tick of a skipped time in `(fromMs, toMs)`: it can only be where the clock jumps. */
  const findSpringTick = (fromMs: number, toMs: number): number | undefined => {
    for (let at = fromMs; at < toMs; at += DAY_MS) {
      const end = Math.min(at + DAY_MS, floorToMinute(toMs));
      if (wallOf(end) - end <= wallOf(at) - at) continue;
      const jump = findJump(at, end);
      if (jump < toMs && isTick(jump, wallOf(jump), wallOf(jump - MINUTE_MS))) return jump;
    }
    return undefined;
  };
  /** The first minute of `(fromMs, toMs]` that has the offset of the last. */
  const findJump = (fromMs: number, toMs: number): number => {
    const offset = wallOf(toMs) - toMs;
    let [before, after] = [fromMs, toMs];
    while (after - before > MINUTE_MS) {
      const middle = floorToMinute((before + after) / 2);
      if (wallOf(middle) - middle === offset) after = middle;
      else before = middle;
    }
    return after;
  };
  return { newest, next };
}

/**
 * Whether a schedule matches a wall-clock time, even one that the zone skips. Minute, hour and day are matched
 * separately and cached: the whole lookback has 21,600 minutes, and node-cron formats a date for each match.
 */
function createMatcher(cron: string): (wallMs: number) => boolean {
  const [minute = '*', hour = '*', ...day] = cron.trim().split(/\s+/);
  const ofMinute = createPartMatcher(`${minute} * * * *`, HOUR_MS / MINUTE_MS);
  const ofHour = createPartMatcher(`* ${hour} * * *`, DAY_MS / HOUR_MS);
  const ofDay = createPartMatcher(`* * ${day.join(' ')}`, LOOKED_BACK_DAYS);
  return (wallMs) =>
    ofMinute(wallMs, (wallMs % HOUR_MS) / MINUTE_MS) &&
    ofHour(wallMs, Math.floor((wallMs % DAY_MS) / HOUR_MS)) &&
    ofDay(wallMs, Math.floor(wallMs / DAY_MS));
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
  const readWall = createWallReader(timeZone);
  let blockMs = Number.NaN;
  let offsetMs = 0;
  return (ms) => {
    const atMs = floorToMinute(ms);
    const block = Math.floor(atMs / OFFSET_BLOCK_MS) * OFFSET_BLOCK_MS;
    if (block !== blockMs) {
      blockMs = block;
      offsetMs = readWall(block) - block;
    }
    return atMs + offsetMs;
  };
}

/** Reads the zone's rules, which costs more than everything else. */
function createWallReader(timeZone: string): (ms: number) => number {
  const format = new Intl.DateTimeFormat('en-CA', {
    timeZone,
    hourCycle: 'h23',
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
    hour: '2-digit',
    minute: '2-digit',
  });
  return (ms) => {
    const field: Record<string, number> = {};
    for (const { type, value } of format.formatToParts(ms)) field[type] = Number(value);
    const { year = 0, month = 1, day = 1, hour = 0, minute = 0 } = field;
    return Date.UTC(year, month - 1, day, hour, minute);
  };
}

function floorToMinute(ms: number): number {
  return Math.floor(ms / MINUTE_MS) * MINUTE_MS;
}
