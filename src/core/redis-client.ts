/**
 * Connections to Redis (6 or newer), and a change of one value that several clients make. A prompt connection is for what
 * must not happen late: a command fails at once while there is no connection, and within two seconds if no answer comes. On
 * a patient one, commands wait for a lost connection to come back. The caller disconnects.
 */
import { type CommonRedisOptions, Redis } from 'ioredis';
import { describeError, Fault } from './errors.ts';

const PROMPT_MS = 2_000;
const CONNECT_TIMEOUT_MS = 3_000;
/** A patient connection that is silent for this long is replaced, and the command is sent again. */
const SILENT_MS = 5_000;
/** Connection attempts at first use. An address that never answered is most likely wrong. */
const FIRST_TRIES = 4;
const FIRST_PAUSE_MS = 250;
const LONGEST_RECONNECT_PAUSE_MS = 1_000;
/** ioredis waits so long for a connection to close that may be gone already, and keeps the process alive meanwhile. */
const DISCONNECT_MS = 100;
/** A try fails only if another client succeeded, so this many failures in a row are not normal contention. */
const MAX_TRIES = 1_000;

export interface RedisConnection {
  readonly client: Redis;
  /** Why there is no connection; `undefined` since it was last there. */
  readonly connectionError: unknown;
}

/** Does not connect yet. A lost connection comes back by itself. */
export function createPromptRedis(url: string): RedisConnection {
  return createRedis(url, {
    connectTimeout: PROMPT_MS,
    socketTimeout: PROMPT_MS,
    commandTimeout: PROMPT_MS,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    retryStrategy: pauseOf,
  });
}

interface PatientUse {
  /** How long a command waits at most, through a restart or a fail-over. */
  readonly patienceMs: number;
  /** Called when a connection was established. */
  readonly onReady?: () => void;
  /** Of the Fault that says why Redis cannot be used, with what it does for whom: `which shares ...`. */
  readonly code: string;
  readonly purpose: string;
  readonly hint: string;
}

/** Connects at the first command. @throws Fault `SETTING_INVALID` */
export function openPatientRedis(url: string, { patienceMs, onReady, code, purpose, hint }: PatientUse) {
  const address = readRedisAddress(url);
  let redis: RedisConnection | undefined;
  let isClosed = false;
  return {
    /** @throws Fault */
    async use<T>(action: (client: Redis) => Promise<T>): Promise<T> {
      if (isClosed) throw new Fault(code, `Redis at ${address}, which ${purpose}, is not used any more`, { hint });
      // After a server that never answered, a connection is of no more use.
      const used = redis && redis.client.status !== 'end' ? redis : createPatientRedis(url, patienceMs, onReady);
      redis = used;
      try {
        return await action(used.client);
      } catch (cause) {
        const why = describeError(used.connectionError ?? cause);
        throw new Fault(code, `Redis at ${address}, which ${purpose}, cannot be used: ${why}`, { cause, hint });
      }
    },
    isReady: () => redis?.client.status === 'ready',
    close(): void {
      isClosed = true;
      // Between two attempts to connect, ioredis forgets the commands that wait, and their timers keep the process alive.
      if (redis?.client.status === 'reconnecting') void redis.client.connect().catch(() => undefined);
      redis?.client.disconnect();
    },
  };
}

function createPatientRedis(url: string, patienceMs: number, onReady = () => {}): RedisConnection {
  let wasReady = false;
  const redis = createRedis(url, {
    connectTimeout: CONNECT_TIMEOUT_MS,
    socketTimeout: SILENT_MS,
    commandTimeout: patienceMs,
    // The command timeout above is the only bound: a command waits for the connection, however often it reconnects.
    maxRetriesPerRequest: null,
    retryStrategy: (times) => {
      if (wasReady) return pauseOf(times);
      return times < FIRST_TRIES ? FIRST_PAUSE_MS * times : null;
    },
  });
  redis.client.on('ready', () => {
    wasReady = true;
    onReady();
  });
  return redis;
}

function pauseOf(times: number): number {
  return Math.min(50 * 2 ** Math.min(times, 10), LONGEST_RECONNECT_PAUSE_MS);
}

function createRedis(url: string, options: Omit<CommonRedisOptions, 'replyMapping'>): RedisConnection {
  let lastError: unknown;
  const client = new Redis(url, { lazyConnect: true, disconnectTimeout: DISCONNECT_MS, ...options });
  client.on('error', (error) => {
    lastError = error;
  });
  client.on('ready', () => {
    lastError = undefined;
  });
  return {
    client,
    get connectionError() {
      return lastError;
    },
  };
}

/** A change that a lost connection delayed by more than this is not made. */
const LATE_MS = 2_000;

/** Replaces the value if it still equals the one that was read before the time `ARGV[4]`; an empty text stands for none. */
export const SWAP_SCRIPT = `
local t = redis.call('TIME')
if t[1] * 1000 + math.floor(t[2] / 1000) - tonumber(ARGV[4]) > ${LATE_MS} then return 0 end
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
`;

/**
 * Changes a value, again and again until no other client was faster.
 * @param keptMs how long it is kept after its last change
 * @param change of the value, empty if there is none, and of the server's time in milliseconds, which is never earlier
 * than that of the change before
 */
export async function changeValue<Result>(
  client: Redis,
  key: string,
  keptMs: number,
  change: (value: string, nowMs: number) => { readonly value: string; readonly result: Result },
): Promise<Result> {
  for (let attempt = 1; attempt <= MAX_TRIES; attempt += 1) {
    const before = (await client.get(key)) ?? '';
    const [seconds, micros] = await client.time();
    const nowMs = Number(seconds) * 1000 + Number(micros) / 1000;
    const { value, result } = change(before, nowMs);
    if (value === before) return result;
    if ((await client.eval(SWAP_SCRIPT, 1, key, before, value, Math.ceil(keptMs), nowMs)) === 1) return result;
  }
  throw new RangeError('too many clients change the same value at once');
}

/** Host and port, for people: the setting may contain a password, so its value is never shown. @throws Fault `SETTING_INVALID` */
export function readRedisAddress(url: string): string {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (!parsed || !/^rediss?:$/.test(parsed.protocol) || parsed.hostname === '') {
    throw new Fault(
      'SETTING_INVALID',
      'FLOWDROP_REDIS_URL is not a Redis address; allowed is redis://user:password@host:6379/0, or rediss:// for TLS',
      { kind: 'usage' },
    );
  }
  return parsed.host;
}
