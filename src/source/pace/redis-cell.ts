/**
 * The state of a budget in Redis (6 or newer), for machines that share one key. Invariant: the time is the Redis
 * server's, and a state is replaced only if it has not changed since it was read, so the logic is the same as on one
 * machine. While Redis is down no request starts; a Redis that restarts empty costs one interval.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { describeError, Fault } from '../../core/errors.ts';
import { readRedisAddress } from '../../core/redis-client.ts';
import { type PaceCell, type PaceState, parseState } from './reservations.ts';

const KEY_PREFIX = 'flowdrop:pace';
/** A budget unused for this long is deleted, with the spacing it learned; the next start then waits for one interval. */
const FORGET_MS = 30 * 24 * 3_600_000;
/** Connection attempts at first use. An address that never answered is most likely wrong. */
const FIRST_TRIES = 4;
const FIRST_PAUSE_MS = 250;
const CONNECT_TIMEOUT_MS = 3_000;
/** A connection silent for this long is replaced, and the command is sent again. */
const SILENT_MS = 5_000;
const LONGEST_RECONNECT_PAUSE_MS = 1_000;
/** A try fails only if another machine succeeded, so this many failures in a row are not normal contention. */
const MAX_TRIES = 100;

/** Replaces the value if it still equals the one that was read; an empty text stands for a missing value. */
const SWAP_SCRIPT = `
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
`;

interface RedisCellOptions {
  /** How long a command waits for a lost connection to return, after a restart or a fail-over. Default: 30 s. */
  readonly patienceMs?: number | undefined;
}

/**
 * Connects on first use. `update` throws Fault `PACE_REDIS_FAILED`.
 * @param key names the budget
 * @throws Fault `SETTING_INVALID`
 */
export function createRedisCell(url: string, key: string, { patienceMs = 30_000 }: RedisCellOptions = {}): PaceCell {
  const address = readRedisAddress(url);
  const name = `${KEY_PREFIX}:${key}`;
  let opened: Promise<Redis> | undefined;
  let client: Redis | undefined;
  const closing = new AbortController();
  let lastError: unknown;

  const open = async (): Promise<Redis> => {
    const ioredis = await import('ioredis');
    let wasReady = false;
    const redis = new ioredis.Redis(url, {
      lazyConnect: true,
      connectTimeout: CONNECT_TIMEOUT_MS,
      socketTimeout: SILENT_MS,
      commandTimeout: patienceMs,
      // The command timeout above is the only bound: a command waits for the connection, however often it reconnects.
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
        return redis;
      } catch (error) {
        if (attempt === FIRST_TRIES || closing.signal.aborted) {
          redis.disconnect();
          throw error;
        }
        await delay(FIRST_PAUSE_MS * attempt, undefined, { signal: closing.signal });
      }
    }
  };

  /** Runs commands on the connection and opens it if needed. @throws Fault */
  const use = async <Result>(action: (redis: Redis) => Promise<Result>): Promise<Result> => {
    try {
      opened ??= open();
      return await action(await opened);
    } catch (cause) {
      // A failed first connection is opened anew next time; an established one reconnects by itself.
      if (!(await opened?.catch(() => undefined))) opened = undefined;
      throw new Fault(
        'PACE_REDIS_FAILED',
        `Redis at ${address}, which shares the request budget between machines, cannot be used: ${describeError(lastError ?? cause)}`,
        {
          cause,
          hint: 'Check FLOWDROP_REDIS_URL and the server. Without this setting, each machine has its own budget.',
        },
      );
    }
  };

  return {
    update: (change) =>
      use(async (redis) => {
        for (let attempt = 1; attempt <= MAX_TRIES; attempt += 1) {
          // In this order a state is never from a later time than `nowMs`, which would make it look impossible.
          const text = (await redis.get(name)) ?? '';
          const [seconds, micros] = await redis.time();
          const { state, result } = change(readState(text), Number(seconds) * 1000 + Number(micros) / 1000);
          const swapped = await redis.eval(SWAP_SCRIPT, 1, name, text, JSON.stringify(state), FORGET_MS);
          if (swapped === 1) return result;
        }
        throw new RangeError('too many machines change the budget at once');
      }),
    async close() {
      // A server that does not answer must not keep the process alive: abort an ongoing connection attempt.
      closing.abort();
      client?.disconnect();
      await opened?.catch(() => undefined);
      opened = undefined;
    },
  };
}

/** A state that the server lost or someone edited counts as unreadable. */
function readState(text: string): PaceState | undefined {
  try {
    return parseState(text);
  } catch {
    return undefined;
  }
}

const COMMAND_TIMEOUT_MS = 5_000;
/** First version that supports the budget's scripts. */
const OLDEST_MAJOR = 6;

/**
 * Checks whether the Redis of `FLOWDROP_REDIS_URL` can hold a budget: it is reachable, lets us in, and runs scripts.
 * @returns what was found, without user and password @throws Fault `SETTING_INVALID`, `PACE_REDIS_FAILED`
 */
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
