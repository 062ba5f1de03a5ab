/**
 * The state of a budget in Redis, for machines that share one key. Invariant: the time is the Redis server's, and a state
 * is replaced only if it has not changed since it was read, so the logic is the same as on one machine. While Redis is
 * down no request starts; a Redis that restarts empty costs one interval.
 */
import { describeError, Fault } from '../../core/errors.ts';
import { changeValue, createPromptRedis, openPatientRedis, readRedisAddress } from '../../core/redis-client.ts';
import { type PaceCell, parseState } from './reservations.ts';

const KEY_PREFIX = 'flowdrop:pace';
/** A budget unused for this long is deleted, with the spacing it learned; the next start then waits for one interval. */
const FORGET_MS = 30 * 24 * 3_600_000;
/** How long a request waits for a lost connection to return. */
const PATIENCE_MS = 30_000;
const HINT = 'Check FLOWDROP_REDIS_URL and the server. Without this setting, each machine has its own budget.';

/**
 * Connects on first use. `update` throws Fault `PACE_REDIS_FAILED`.
 * @param key names the budget
 * @throws Fault `SETTING_INVALID`
 */
export function createRedisCell(url: string, key: string, patienceMs = PATIENCE_MS): PaceCell {
  const purpose = 'shares the request budget between machines';
  const redis = openPatientRedis(url, { patienceMs, code: 'PACE_REDIS_FAILED', purpose, hint: HINT });
  return {
    update: (change) =>
      redis.use((client) =>
        changeValue(client, `${KEY_PREFIX}:${key}`, FORGET_MS, (text, nowMs) => {
          const { state, result } = change(parseState(text), nowMs);
          return { value: JSON.stringify(state), result };
        }),
      ),
    close: async () => redis.close(),
  };
}

/** First version that supports the budget's scripts. */
const OLDEST_MAJOR = 6;

/**
 * Checks whether the Redis of `FLOWDROP_REDIS_URL` can hold a budget: it is reachable, lets us in, and runs scripts.
 * @returns what was found, without user and password @throws Fault `SETTING_INVALID`, `PACE_REDIS_FAILED`
 */
export async function checkRedis(url: string): Promise<string> {
  const address = readRedisAddress(url);
  const redis = createPromptRedis(url);
  const { client } = redis;
  try {
    await client.connect();
    const version = /redis_version:(\S+)/.exec(await client.info('server'))?.[1] ?? '(unknown)';
    if (Number.parseInt(version, 10) < OLDEST_MAJOR)
      throw new RangeError(`it has version ${version}; flowdrop needs ${OLDEST_MAJOR} or newer`);
    await client.eval("return redis.call('TIME')[1]", 0);
    return `Redis ${version} at ${address} accepts the login and runs scripts`;
  } catch (cause) {
    const why = describeError(redis.connectionError ?? cause);
    throw new Fault('PACE_REDIS_FAILED', `Redis at ${address} cannot be used: ${why}`, { cause, hint: HINT });
  } finally {
    client.disconnect();
  }
}
