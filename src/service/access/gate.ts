/**
 * Decides who may ask for what, and how often: authentication (401), then entitlement (403), then the pace of that
 * caller and product (429). Invariant: a refused call costs nothing of any budget. One gate serves all addresses, so
 * both entry points of historical SQL share one budget.
 *
 * A pace is a sustained rate and a burst, by the generic cell rate algorithm (ITU-T I.371): each caller has a due time for
 * the next request, and a request that is early by more than the tolerance is refused. The due times are in this process, or
 * in a Redis that several services behind one address share.
 */
import type { Clock } from '../../core/clock.ts';
import { ApiFailure } from '../http/api-failure.ts';
import type { ServiceOptions } from '../options.ts';
import type { Caller } from './key-file.ts';
import type { KeyRing } from './keys.ts';

/** What is counted separately: the products, and logins. */
export type Budget = 'historical' | 'chain' | 'market-structure' | 'login';

interface Credentials {
  /** From the body or the Authorization header; empty counts as missing. */
  readonly apiKey?: string | undefined;
  /** Caller id of a verified session. */
  readonly session?: string | undefined;
  /** Where the call comes from. */
  readonly address?: string | undefined;
}

/**
 * The specification's limit for the option chain, and ours where it gives none: market structure, logins (a person or a
 * script logs in a few times a day; ten at once are a team that shares one key), and wrong keys (a person mistypes a key a
 * few times; a script that tries many fills the log and costs a comparison each).
 */
export const USUAL_RATE: Rate = { requestsPerSecond: 1, burst: 10 };

export type Gate = ReturnType<typeof createGate>;

/** @param openPace where the budgets are counted; default: in this process */
export function createGate(
  clock: Clock,
  keys: KeyRing,
  { requestsPerSecond }: Pick<ServiceOptions, 'requestsPerSecond'>,
  openPace: (budget: Budget, rate: Rate) => Pace = (_, rate) => createPace(clock, rate),
) {
  /** Of wrong keys, by address. Not shared: it only slows down. */
  const wrongKeys = createPace(clock, USUAL_RATE);
  const paces: Readonly<Record<Budget, Pace>> = {
    historical: openPace('historical', { requestsPerSecond, burst: 1 }),
    chain: openPace('chain', USUAL_RATE),
    'market-structure': openPace('market-structure', USUAL_RATE),
    login: openPace('login', USUAL_RATE),
  };
  return {
    /**
     * Admits one call. If a key is given, it is used, even beside a valid session. Any valid key may log in. Wrong keys
     * are slowed down by address. A right key is never refused for the wrong ones of others: behind a proxy, one stranger
     * would lock everybody out, and keys are too long to be guessed.
     * @throws ApiFailure 401 UNAUTHORIZED, 403 SUBSCRIPTION_REQUIRED, 429 RATE_LIMITED with `retryAfterSeconds`
     */
    async enter({ apiKey = '', session = '', address = '' }: Credentials, budget: Budget): Promise<Caller> {
      const caller = apiKey === '' ? keys.find(session) : keys.identify(apiKey);
      if (caller === undefined) {
        if (apiKey !== '') assertAdmitted(wrongKeys.admit(address), 'Too many wrong keys from this address');
        throw new ApiFailure(401, 'UNAUTHORIZED', 'The API key is missing or not valid.');
      }
      assertEntitled(caller, budget);
      assertAdmitted(await paces[budget].admit(caller.id), 'Too many requests');
      return caller;
    },
  };
}

function assertAdmitted(waitSeconds: number, reason: string): void {
  if (waitSeconds === 0) return;
  const message = `${reason}; try again in ${waitSeconds} s.`;
  throw new ApiFailure(429, 'RATE_LIMITED', message, { retryAfterSeconds: waitSeconds });
}

function assertEntitled(caller: Caller, budget: Budget): void {
  if (budget === 'login' || (budget === 'historical' ? caller.historical !== 'none' : caller.realtime)) return;
  const lacks =
    budget === 'historical' ? 'subscription to historical SQL' : 'realtime subscription, trialing or active';
  throw new ApiFailure(403, 'SUBSCRIPTION_REQUIRED', `This key has no ${lacks}.`);
}

interface Rate {
  /** Sustained. */
  readonly requestsPerSecond: number;
  /** Requests that an idle caller may send at once; at least 1. */
  readonly burst: number;
}

interface Pace {
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
function createRule({ requestsPerSecond, burst }: Rate) {
  const intervalMs = 1000 / requestsPerSecond;
  const toleranceMs = (burst - 1) * intervalMs + Math.max(intervalMs * TOLERANCE, CLOCK_STEP_MS);
  /** One extra step, because fractions of milliseconds do not add up exactly. */
  const furthestMs = intervalMs + toleranceMs + CLOCK_STEP_MS;
  /** Whether a due time still matters. Beyond what admission can set, the clock was set back: no caller waits for that. */
  const matters = (dueMs: number, nowMs: number) => dueMs > nowMs && dueMs <= nowMs + furthestMs;
  return {
    furthestMs,
    matters,
    /** @param foundMs the caller's due time; 0: none @returns its next one, and whole seconds to wait */
    admit(foundMs: number, nowMs: number): { readonly dueMs: number; readonly waitSeconds: number } {
      const dueMs = matters(foundMs, nowMs) ? foundMs : nowMs;
      const waitMs = dueMs - toleranceMs - nowMs;
      if (waitMs > 0) return { dueMs, waitSeconds: Math.max(1, Math.ceil(waitMs / 1000)) };
      return { dueMs: dueMs + intervalMs, waitSeconds: 0 };
    },
  };
}

/** In the memory of this process, which is bounded by the number of recent callers. */
export function createPace(clock: Clock, rate: Rate) {
  const rule = createRule(rate);
  /** Due times, ordered by last admission, oldest first. */
  const callers = new Map<string, number>();
  return {
    callers: callers as ReadonlyMap<string, number>,
    /** See `Pace`. */
    admit(id: string): number {
      const now = clock.now();
      // Drops the oldest callers, up to the first whose due time still matters; at most those of the last burst stay.
      for (const [old, due] of callers) {
        if (rule.matters(due, now)) break;
        callers.delete(old);
      }
      const { dueMs, waitSeconds } = rule.admit(callers.get(id) ?? 0, now);
      if (waitSeconds > 0) return waitSeconds;
      callers.delete(id); // Moves the caller to the end of the map.
      callers.set(id, dueMs);
      return 0;
    },
  };
}

/** A request waits so long for a lost connection. */
const PATIENCE_MS = 2_000;

/**
 * Connects to Redis, whose time counts, so together the services admit no more than one would. While it is down nobody is
 * admitted (500), because nobody could be counted.
 * @returns what opens a budget by its name
 * @throws Fault `SETTING_INVALID` (usage), `SERVICE_REDIS_FAILED`
 */
export async function openSharedPace(url: string) {
  // Loaded only where services share.
  const { changeValue, openPatientRedis } = await import('../../core/redis-client.ts');
  const redis = openPatientRedis(url, {
    patienceMs: PATIENCE_MS,
    code: 'SERVICE_REDIS_FAILED',
    purpose: 'shares key budgets between services',
    hint: 'Check FLOWDROP_REDIS_URL and the server. Without this setting, each service counts only its own requests.',
  });
  await redis
    .use((client) => client.ping())
    .catch((error: unknown) => {
      redis.close();
      throw error;
    });
  return {
    open(budget: Budget, rate: Rate): Pace {
      const rule = createRule(rate);
      const admit = (text: string, nowMs: number) => {
        const { dueMs, waitSeconds } = rule.admit(Number(text), nowMs);
        return { value: waitSeconds > 0 ? text : String(dueMs), result: waitSeconds };
      };
      return {
        admit: (id) =>
          redis.use((client) => changeValue(client, `flowdrop:serve:${budget}:${id}`, rule.furthestMs, admit)),
      };
    },
    close: async () => redis.close(),
  };
}
