/**
 * A rate limit per caller: a sustained rate and a burst. It is the generic cell rate algorithm (ITU-T I.371): each
 * caller has a due time for its next request. A request that is early by more than the tolerance is refused and costs
 * nothing. The due times are in this process, or in a Redis (6 or newer) that several services behind one address share.
 */
import type { Clock } from '../../core/clock.ts';
import { describeError, Fault } from '../../core/errors.ts';
import { internalError } from '../http/api-failure.ts';

export interface PaceOptions {
  /** Sustained rate. */
  readonly requestsPerSecond: number;
  /** Requests that an idle caller may send at once; at least 1. */
  readonly burst: number;
}

/**
 * Share of the interval by which a request may be early, so that jitter does not fail a caller who sends every second.
 */
const TOLERANCE = 0.1;

/** The clock counts whole milliseconds: two requests in the same millisecond have no order. */
const CLOCK_STEP_MS = 1;

export interface Pace {
  /** Counts a caller's request. @returns whole seconds to wait (1 or more) if it is too early, else 0 */
  admit(id: string): number | Promise<number>;
}

/** Milliseconds between requests, and how many of them a request may be early. */
function computePace({ requestsPerSecond, burst }: PaceOptions) {
  const intervalMs = 1000 / requestsPerSecond;
  return { intervalMs, toleranceMs: (burst - 1) * intervalMs + Math.max(intervalMs * TOLERANCE, CLOCK_STEP_MS) };
}

/** In the memory of this process, which is bounded by the number of recent callers. */
export class KeyPace implements Pace {
  readonly #clock: Clock;
  readonly #pace: ReturnType<typeof computePace>;
  /** Ordered by last admission, oldest first. */
  readonly #dueMs = new Map<string, number>();

  constructor(clock: Clock, options: PaceOptions) {
    this.#clock = clock;
    this.#pace = computePace(options);
  }

  admit(id: string): number {
    const now = this.#clock.now();
    this.#forget(now);
    const found = this.#dueMs.get(id);
    const due = found !== undefined && this.#isAhead(found, now) ? found : now;
    const waitMs = due - this.#pace.toleranceMs - now;
    if (waitMs > 0) return Math.max(1, Math.ceil(waitMs / 1000));
    this.#dueMs.delete(id); // Moves the caller to the end of the map.
    this.#dueMs.set(id, due + this.#pace.intervalMs);
    return 0;
  }

  /** Number of remembered callers. */
  get size(): number {
    return this.#dueMs.size;
  }

  /**
   * Drops the oldest callers, up to the first whose due time still matters; at most the callers of the last burst stay.
   */
  #forget(now: number): void {
    for (const [id, due] of this.#dueMs) {
      if (this.#isAhead(due, now)) return;
      this.#dueMs.delete(id);
    }
  }

  /**
   * Whether a due time still matters. Beyond what admission can set, the clock was set back: no caller should wait for
   * that.
   */
  #isAhead(due: number, now: number): boolean {
    // One extra step, because fractions of milliseconds do not add up exactly.
    return due > now && due <= now + this.#pace.intervalMs + this.#pace.toleranceMs + CLOCK_STEP_MS;
  }
}

const KEY_PREFIX = 'flowdrop:serve';

/**
 * The algorithm of `KeyPace`, in one step on the server and by its time, so together the services admit no more than one
 * would. KEYS: the budget of a caller. ARGV: interval and tolerance, milliseconds. Returns whole seconds to wait, or 0.
 */
const ADMIT_SCRIPT = `
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local interval, tolerance = tonumber(ARGV[1]), tonumber(ARGV[2])
local due = tonumber(redis.call('GET', KEYS[1]) or '') or now
if due < now or due > now + interval + tolerance + 1 then due = now end
local wait = due - tolerance - now
if wait > 0 then return math.max(1, math.ceil(wait / 1000)) end
redis.call('SET', KEYS[1], string.format('%.3f', due + interval), 'PX', math.ceil(2 * interval + tolerance))
return 0
`;

/**
 * Connects to Redis. While it is down nobody is admitted (500), because nobody could be counted.
 * @returns what opens a budget by its name
 * @throws Fault `SETTING_INVALID` (usage), `SERVICE_REDIS_FAILED`
 */
export async function openSharedPace(url: string) {
  // Loaded only where services share.
  const { createPromptRedis, readRedisAddress } = await import('../../core/redis-client.ts');
  const address = readRedisAddress(url);
  // Prompt, because a request waits for it.
  const redis = createPromptRedis(url);
  const { client } = redis;
  const toFault = (cause: unknown) =>
    new Fault(
      'SERVICE_REDIS_FAILED',
      `Redis at ${address}, which shares key budgets between services, cannot be used: ${describeError(redis.connectionError ?? cause)}`,
      {
        cause,
        hint: 'Check FLOWDROP_REDIS_URL and the server. Without this setting, each service counts only its own requests.',
      },
    );
  await client.connect().catch((cause: unknown) => {
    const fault = toFault(cause);
    client.disconnect();
    throw fault;
  });
  return {
    open: (budget: string, options: PaceOptions): Pace => {
      const { intervalMs, toleranceMs } = computePace(options);
      return {
        async admit(id) {
          const key = `${KEY_PREFIX}:${budget}:${id}`;
          const waitSeconds = await client
            .eval(ADMIT_SCRIPT, 1, key, intervalMs, toleranceMs)
            .catch((cause: unknown) => {
              throw internalError(toFault(cause));
            });
          return Number(waitSeconds);
        },
      };
    },
    close: async () => client.disconnect(),
  };
}
