/**
 * A Redis connection for what must not happen late: a command fails at once while there is no connection, and within two
 * seconds if no answer comes. A lost connection comes back by itself. The caller connects and disconnects.
 */
import { Redis } from 'ioredis';
import { Fault } from './errors.ts';

const CONNECT_TIMEOUT_MS = 2_000;
/** A connection that is silent for this long is replaced. */
const SILENT_MS = 2_000;
const LONGEST_RECONNECT_PAUSE_MS = 1_000;
/** ioredis waits so long for a connection to close that may be gone already, and keeps the process alive meanwhile. */
const DISCONNECT_MS = 100;

interface PromptRedis {
  readonly client: Redis;
  /** Why there is no connection; `undefined` since it was last there. */
  readonly connectionError: unknown;
}

/** Does not connect yet. */
export function createPromptRedis(url: string): PromptRedis {
  let lastError: unknown;
  const client = new Redis(url, {
    lazyConnect: true,
    connectTimeout: CONNECT_TIMEOUT_MS,
    disconnectTimeout: DISCONNECT_MS,
    socketTimeout: SILENT_MS,
    commandTimeout: SILENT_MS,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    retryStrategy: (times) => Math.min(50 * 2 ** Math.min(times, 10), LONGEST_RECONNECT_PAUSE_MS),
  });
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
