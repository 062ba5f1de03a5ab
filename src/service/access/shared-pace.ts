/**
 * The budgets of keys that several services behind one address share through Redis (6 or newer). Invariant: the time is the Redis server's, and a budget changes in one step there, so together the
 * services admit no more than one would. While Redis is down nobody is admitted (500), because nobody could be counted.
 */
import { describeError, Fault } from '../../core/errors.ts';
import { createPromptRedis, readRedisAddress } from '../../core/redis-client.ts';
import { internalError } from '../http/api-failure.ts';
import type { Budget } from './gate.ts';
import { computePace, type Pace, type PaceOptions } from './pace.ts';

const KEY_PREFIX = 'flowdrop:serve';

/**
 * The generic cell rate algorithm of `KeyPace`. A due time beyond what admission can set is of a clock that was set back.
 * KEYS: the budget of a caller. ARGV: interval and tolerance, milliseconds. Returns whole seconds to wait, or 0.
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

export interface SharedPace {
  open(budget: Budget, pace: PaceOptions): Pace;
  close(): Promise<void>;
}

/** Connects. @throws Fault `SETTING_INVALID` (usage), `SERVICE_REDIS_FAILED` */
export async function openSharedPace(url: string): Promise<SharedPace> {
  const address = readRedisAddress(url);
  // Prompt, because a request waits for it.
  const redis = createPromptRedis(url);
  const { client } = redis;
  const use = async <T>(action: () => Promise<T>): Promise<T> => {
    try {
      return await action();
    } catch (cause) {
      throw new Fault(
        'SERVICE_REDIS_FAILED',
        `Redis at ${address}, which shares key budgets between services, cannot be used: ${describeError(redis.connectionError ?? cause)}`,
        {
          cause,
          hint: 'Check FLOWDROP_REDIS_URL and the server. Without this setting, each service counts only its own requests.',
        },
      );
    }
  };
  const close = async () => client.disconnect();
  try {
    await use(() => client.connect());
  } catch (error) {
    await close();
    throw error;
  }
  return {
    open: (budget, pace) => {
      const { intervalMs, toleranceMs } = computePace(pace);
      return {
        async admit(id) {
          const key = `${KEY_PREFIX}:${budget}:${id}`;
          return await use(async () => Number(await client.eval(ADMIT_SCRIPT, 1, key, intervalMs, toleranceMs))).catch(
            (error: unknown) => {
              throw internalError(error);
            },
          );
        },
      };
    },
    close,
  };
}
