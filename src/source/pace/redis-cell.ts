/**
 * The state of a budget in Redis (6 or newer), for machines that use one key. Invariant: the time is the server's, and a
 * state is replaced only if nobody has replaced it since it was read, so the arithmetic is that of one machine. While the
 * server is away nothing starts; a server that comes back empty costs one interval.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { describeError, Fault } from '../../core/errors.ts';
import { readRedisAddress } from '../../core/redis-address.ts';
import type { PaceCell } from './cell.ts';
import { type PaceState, parseState } from './reservations.ts';

const KEY_PREFIX = 'flowdrop:pace';
/** A budget unused for this long is forgotten; the next start then waits for one interval. */
const FORGET_MS = 24 * 3_600_000;
/** An address that never answered is most likely wrong: it is tried this often, with pauses between. */
const FIRST_TRIES = 4;
const FIRST_PAUSE_MS = 250;
const CONNECT_TIMEOUT_MS = 3_000;
/** A connection that says nothing for this long is replaced, and the command sent again. */
const SILENT_MS = 5_000;
const LONGEST_RECONNECT_PAUSE_MS = 1_000;
/** Each try is lost to another machine that got on, so many in a row are no contention any more. */
const MAX_TRIES = 100;

/** Replaces the value if it is still the one that was read; an empty text stands for none. */
const SWAP_SCRIPT = `
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
`;

interface RedisCellOptions {
  /** How long a command waits for a lost connection to come back: a restart or a fail-over. Default: 30 s. */
  readonly patienceMs?: number | undefined;
}

/** Connects with the first use. `update` throws Fault `PACE_REDIS_FAILED`. @param key what names the budget @throws Fault `SETTING_INVALID` */
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

  /** Runs commands on a connection that is opened when there is none. @throws Fault */
  const use = async <Result>(action: (redis: Redis) => Promise<Result>): Promise<Result> => {
    try {
      opened ??= open();
      return await action(await opened);
    } catch (cause) {
      // Another try may find the server; a connection that was there comes back by itself.
      if (!(await opened?.catch(() => undefined))) opened = undefined;
      throw new Fault(
        'PACE_REDIS_FAILED',
        `Redis at ${address}, which shares the request budget between machines, does not serve: ${describeError(lastError ?? cause)}`,
        {
          cause,
          hint: 'Check FLOWDROP_REDIS_URL and the server. Without the setting the budget is of this machine alone.',
        },
      );
    }
  };

  return {
    update: (change) =>
      use(async (redis) => {
        for (let attempt = 1; attempt <= MAX_TRIES; attempt += 1) {
          const [seconds, micros] = await redis.time();
          const text = (await redis.get(name)) ?? '';
          const { state, result } = change(readState(text), Number(seconds) * 1000 + Number(micros) / 1000);
          const swapped = await redis.eval(SWAP_SCRIPT, 1, name, text, JSON.stringify(state), FORGET_MS);
          if (swapped === 1) return result;
        }
        throw new RangeError('too many machines change the budget at once');
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

/** What the server has lost, or somebody edited, counts as a state that cannot be read. */
function readState(text: string): PaceState | undefined {
  try {
    return parseState(text);
  } catch {
    return undefined;
  }
}
