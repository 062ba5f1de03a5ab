/**
 * A rate limit per caller: a sustained rate and a burst. It is the generic cell rate algorithm (ITU-T I.371): each
 * caller has a due time for its next request. A request that is early by more than the tolerance is refused and costs
 * nothing. The due times are in this process, or in a Redis that several services behind one address share.
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

export interface Pace {
  /** Counts a caller's request. @returns whole seconds to wait (1 or more) if it is too early, else 0 */
  admit(id: string): number | Promise<number>;
}

/**
 * Share of the interval by which a request may be early, so that jitter does not fail a caller who sends every second.
 */
const TOLERANCE = 0.1;

/** The clock counts whole milliseconds: two requests in the same millisecond have no order. */
const CLOCK_STEP_MS = 1;

/** Decides about one caller at a time. */
function createRule({ requestsPerSecond, burst }: PaceOptions) {
  const intervalMs = 1000 / requestsPerSecond;
  const toleranceMs = (burst - 1) * intervalMs + Math.max(intervalMs * TOLERANCE, CLOCK_STEP_MS);
  /** One extra step, because fractions of milliseconds do not add up exactly. */
  const furthestMs = intervalMs + toleranceMs + CLOCK_STEP_MS;
  /** Whether a due time still matters. Beyond what admission can set, the clock was set back: no caller waits for that. */
  const matters = (dueMs: number, nowMs: number) => dueMs > nowMs && dueMs <= nowMs + furthestMs;
  return {
    furthestMs,
    matters,
    /** @param foundMs the caller's due time; `undefined`: none @returns its next one, and whole seconds to wait */
    admit(foundMs: number | undefined, nowMs: number): { readonly dueMs: number; readonly waitSeconds: number } {
      const dueMs = foundMs !== undefined && matters(foundMs, nowMs) ? foundMs : nowMs;
      const waitMs = dueMs - toleranceMs - nowMs;
      if (waitMs > 0) return { dueMs, waitSeconds: Math.max(1, Math.ceil(waitMs / 1000)) };
      return { dueMs: dueMs + intervalMs, waitSeconds: 0 };
    },
  };
}

/** In the memory of this process, which is bounded by the number of recent callers. */
export class KeyPace implements Pace {
  readonly #clock: Clock;
  readonly #rule: ReturnType<typeof createRule>;
  /** Ordered by last admission, oldest first. */
  readonly #dueMs = new Map<string, number>();

  constructor(clock: Clock, options: PaceOptions) {
    this.#clock = clock;
    this.#rule = createRule(options);
  }

  admit(id: string): number {
    const now = this.#clock.now();
    // Drops the oldest callers, up to the first whose due time still matters; at most the callers of the last burst stay.
    for (const [old, due] of this.#dueMs) {
      if (this.#rule.matters(due, now)) break;
      this.#dueMs.delete(old);
    }
    const { dueMs, waitSeconds } = this.#rule.admit(this.#dueMs.get(id), now);
    if (waitSeconds > 0) return waitSeconds;
    this.#dueMs.delete(id); // Moves the caller to the end of the map.
    this.#dueMs.set(id, dueMs);
    return 0;
  }

  /** Number of remembered callers. */
  get size(): number {
    return this.#dueMs.size;
  }
}

const KEY_PREFIX = 'flowdrop:serve';

/**
 * Connects to Redis, whose time counts, so together the services admit no more than one would. While it is down nobody is
 * admitted (500), because nobody could be counted.
 * @returns what opens a budget by its name
 * @throws Fault `SETTING_INVALID` (usage), `SERVICE_REDIS_FAILED`
 */
export async function openSharedPace(url: string) {
  // Loaded only where services share.
  const { changeValue, createPromptRedis, readRedisAddress } = await import('../../core/redis-client.ts');
  const address = readRedisAddress(url);
  // Prompt, because a request waits for it.
  const redis = createPromptRedis(url);
  const { client } = redis;
  const toFault = (cause: unknown) => {
    const why = describeError(redis.connectionError ?? cause);
    const message = `Redis at ${address}, which shares key budgets between services, cannot be used: ${why}`;
    return new Fault('SERVICE_REDIS_FAILED', message, {
      cause,
      hint: 'Check FLOWDROP_REDIS_URL and the server. Without this setting, each service counts only its own requests.',
    });
  };
  await client.connect().catch((cause: unknown) => {
    const fault = toFault(cause);
    client.disconnect();
    throw fault;
  });
  return {
    open: (budget: string, options: PaceOptions): Pace => {
      const rule = createRule(options);
      const admit = (text: string, nowMs: number) => {
        const { dueMs, waitSeconds } = rule.admit(text === '' ? undefined : Number(text), nowMs);
        return { value: waitSeconds > 0 ? text : String(dueMs), result: waitSeconds };
      };
      return {
        admit: (id) =>
          changeValue(client, `${KEY_PREFIX}:${budget}:${id}`, rule.furthestMs, admit).catch((cause: unknown) => {
            throw internalError(toFault(cause));
          }),
      };
    },
    close: async () => client.disconnect(),
  };
}
