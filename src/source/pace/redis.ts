/**
 * One budget for many machines, kept in Redis (6 or newer) by a limiter library. Invariant: starts
 * are spaced by the server's clock, in one script that the server runs whole; what the server has lost costs one interval.
 * It knows no urgency: the machines order their own requests, and then compete as equals.
 */

import { setTimeout as delay } from 'node:timers/promises';
import type { Redis as Client } from 'ioredis';
import type { RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible';
import { describeError, Fault } from '../../core/errors.ts';
import { readRedisAddress } from '../../core/redis-address.ts';
import type { Pace } from './budget.ts';
import type { Permit } from './permit.ts';
import { MAX_SLOWDOWN, STARTS_TO_RECOVER } from './state.ts';

const KEY_PREFIX = 'flowdrop-pace';
/** A budget unused for this long is forgotten; the next start then waits for one interval. */
const FORGET_MS = 24 * 3_600_000;
/** An address that never answered is most likely wrong: it is tried this often, with pauses between. */
const FIRST_TRIES = 4;
const FIRST_PAUSE_MS = 250;
const CONNECT_TIMEOUT_MS = 3_000;
/** A connection that says nothing for this long is replaced, and the command sent again. */
const SILENT_MS = 5_000;
const LONGEST_RECONNECT_PAUSE_MS = 1_000;

export interface RedisPermitOptions {
  /** How long a command waits for a lost connection to come back: a restart or a fail-over. Default: 30 s. */
  readonly patienceMs?: number;
}

/** @param key what names the budget @throws Fault `SETTING_INVALID` */
export function openRedisPermit(url: string, key: string, pace: Pace, options: RedisPermitOptions = {}): Permit {
  const { patienceMs = 30_000 } = options;
  const address = readRedisAddress(url);
  let opened: Promise<{ readonly client: Client; readonly limiter: RateLimiterRedis }> | undefined;
  let client: Client | undefined;
  const closing = new AbortController();
  let lastError: unknown;

  const open = async () => {
    const [{ Redis }, { RateLimiterRedis }] = await Promise.all([import('ioredis'), import('rate-limiter-flexible')]);
    let wasReady = false;
    const redis = new Redis(url, {
      lazyConnect: true,
      connectTimeout: CONNECT_TIMEOUT_MS,
      socketTimeout: SILENT_MS,
      commandTimeout: patienceMs,
      // The time-out above is the one bound: a command waits for the connection to come back, however often it is tried.
      maxRetriesPerRequest: null,
      retryStrategy: (times) => (wasReady ? Math.min(50 * 2 ** Math.min(times, 10), LONGEST_RECONNECT_PAUSE_MS) : null),
    });
    client = redis;
    redis.on('error', (error) => {
      lastError = error;
    });
    redis.on('ready', () => {
      wasReady = true;
      lastError = undefined;
    });
    for (let attempt = 1; ; attempt += 1) {
      try {
        await redis.connect();
        break;
      } catch (error) {
        if (attempt === FIRST_TRIES || closing.signal.aborted) {
          redis.disconnect();
          throw error;
        }
        await delay(FIRST_PAUSE_MS * attempt, undefined, { signal: closing.signal });
      }
    }
    const limiter = new RateLimiterRedis({
      storeClient: redis,
      keyPrefix: KEY_PREFIX,
      points: pace.burst,
      // The library hands a whole number of what it takes for seconds to the script; the script takes microseconds.
      duration: Math.ceil(pace.intervalMs * 1000),
      customIncrTtlLuaScript: startScript(pace),
    });
    return { client: redis, limiter };
  };

  /** Runs one command, on a connection that is opened when there is none. @throws Fault */
  const use = async <T>(action: (parts: { client: Client; limiter: RateLimiterRedis }) => Promise<T>): Promise<T> => {
    try {
      opened ??= open();
      return await action(await opened);
    } catch (cause) {
      const parts = await opened?.catch(() => undefined);
      // Another try may find the server; a connection that was there comes back by itself.
      if (!parts) opened = undefined;
      const reason = describeError(lastError ?? cause);
      throw new Fault(
        'PACE_REDIS_FAILED',
        `Redis at ${address}, which shares the request budget between machines, does not serve: ${reason}`,
        {
          cause,
          hint: 'Check FLOWDROP_REDIS_URL and the server. Without the setting the budget is of this machine alone.',
        },
      );
    }
  };

  return {
    ask: () =>
      use(async ({ limiter }) => {
        try {
          await limiter.consume(key);
          return 0;
        } catch (refusal) {
          if (refusal instanceof Error) throw refusal;
          // The library refuses by throwing its result.
          return Math.max(1, (refusal as RateLimiterRes).msBeforeNext);
        }
      }),
    slowDown: (pauseMs, startedAgoMs) =>
      use(async ({ client, limiter }) => {
        const pauseUs = Math.round(Math.min(pauseMs, pace.longestPauseMs) * 1000);
        const agoUs = startedAgoMs === undefined ? -1 : Math.round(startedAgoMs * 1000);
        await client.eval(SLOW_DOWN_SCRIPT, 1, limiter.getKey(key), pauseUs, agoUs);
      }),
    async close() {
      // A server that says nothing must not keep the process: what is being opened is given up.
      closing.abort();
      client?.disconnect();
      await opened?.catch(() => undefined);
      opened = undefined;
    },
  };
}

/** Both scripts: what is known of the budget, in microseconds of the server's clock. */
const READ_BUDGET = `
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local known = redis.call('HMGET', KEYS[1], 'paced_until', 'blocked_until', 'interval', 'slowdown', 'starts_since_429', 'slowed_at')
local paced = tonumber(known[1])
local blocked = tonumber(known[2]) or 0
local last_interval = tonumber(known[3]) or 0
local slowdown = tonumber(known[4]) or 1
local starts = tonumber(known[5]) or 0
local slowed = math.min(tonumber(known[6]) or 0, now)
local function whole(number) return string.format('%.0f', number) end
`;

/**
 * The arithmetic of `state.ts` on the server. The library's own script counts whole seconds, so it can space neither a
 * fraction of one nor a rate that a 429 has lowered. Arguments: points, interval, burst. Answers as the library expects.
 */
function startScript(pace: Pace): string {
  return `${READ_BUDGET}
local interval = ARGV[2] * slowdown
local burst = tonumber(ARGV[3])
local saved = slowdown > 1 and 0 or (burst - 1) * ARGV[2]
if blocked > now + ${pace.longestPauseMs * 1000} then blocked = 0; paced = nil end
if not paced or paced > now + burst * math.max(interval, last_interval) + 1000 then
  paced = now + interval + saved
end
local start = math.max(blocked, paced - saved)
local answer = {burst + 1, math.ceil((start - now) / 1000)}
if now >= start then
  paced = math.max(now, paced) + interval
  last_interval = interval
  starts = starts + 1
  if slowdown > 1 and starts >= ${STARTS_TO_RECOVER} then slowdown = math.max(1, slowdown / 2); starts = 0 end
  answer = {1, 0}
end
redis.call('HSET', KEYS[1], 'paced_until', whole(paced), 'blocked_until', whole(blocked), 'interval', whole(last_interval),
  'slowdown', whole(slowdown), 'starts_since_429', whole(starts), 'slowed_at', whole(slowed))
redis.call('PEXPIRE', KEYS[1], ${FORGET_MS})
return answer
`;
}

/** Arguments: the pause, and how long ago the refused request started (-1: not known). */
const SLOW_DOWN_SCRIPT = `${READ_BUDGET}
local ago = tonumber(ARGV[2])
local counts = now - ago > slowed
if ago < 0 then counts = slowdown == 1 or starts > 0 end
if counts then slowdown = math.min(${MAX_SLOWDOWN}, slowdown * 2); slowed = now end
redis.call('HSET', KEYS[1], 'blocked_until', whole(math.max(blocked, now + ARGV[1])), 'slowdown', whole(slowdown),
  'starts_since_429', 0, 'slowed_at', whole(slowed))
redis.call('PEXPIRE', KEYS[1], ${FORGET_MS})
return 1
`;
