/**
 * Checks whether the Redis of `FLOWDROP_REDIS_URL` can hold a budget: it is reachable, lets us in, and runs scripts.
 */
import { describeError, Fault } from '../../core/errors.ts';
import { readRedisAddress } from '../../core/redis-client.ts';

const CONNECT_TIMEOUT_MS = 3_000;
const COMMAND_TIMEOUT_MS = 5_000;
/** First version that supports the budget's scripts. */
const OLDEST_MAJOR = 6;

/** @returns what was found, without user and password @throws Fault `SETTING_INVALID`, `PACE_REDIS_FAILED` */
export async function checkRedis(url: string): Promise<string> {
  const address = readRedisAddress(url);
  const { Redis } = await import('ioredis');
  const redis = new Redis(url, {
    lazyConnect: true,
    connectTimeout: CONNECT_TIMEOUT_MS,
    commandTimeout: COMMAND_TIMEOUT_MS,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
  });
  let lastError: unknown;
  redis.on('error', (error) => {
    lastError = error;
  });
  try {
    await redis.connect();
    const version = /redis_version:(\S+)/.exec(await redis.info('server'))?.[1] ?? '(unknown)';
    if (Number.parseInt(version, 10) < OLDEST_MAJOR)
      throw new RangeError(`it has version ${version}; flowdrop needs ${OLDEST_MAJOR} or newer`);
    await redis.eval("return redis.call('TIME')[1]", 0);
    return `Redis ${version} at ${address} accepts the login and runs scripts`;
  } catch (cause) {
    throw new Fault('PACE_REDIS_FAILED', `Redis at ${address} cannot be used: ${describeError(lastError ?? cause)}`, {
      cause,
      hint: 'Check FLOWDROP_REDIS_URL and the server. Without this setting, each machine has its own budget.',
    });
  } finally {
    redis.disconnect();
  }
}
