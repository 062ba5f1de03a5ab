/**
 * A schedule that several daemons share, kept in Redis (6 or newer). Invariant: of all daemons that ask for a tick, one
 * gets it. A tick is named by its due time, so it does not matter whose clock fired it. A claim holds for a lease. Each
 * start of a daemon is a separate owner, so a daemon whose lease expired, and whose tick was taken over, can neither
 * renew nor complete that tick.
 *
 * It does not guarantee that a tick runs only once. A daemon that is cut off for longer than a lease continues a run
 * that another has taken over. After a server loses its data, a tick can be claimed again unless the daemon that runs
 * it renews first. Runs are idempotent, since the store is the ledger: a tick that runs twice costs requests, never a
 * row. While the server is down every method throws; afterwards, `lastTick` and `claim` find the ticks that could not
 * be claimed.
 */
import { createHash, randomUUID } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { describeError, Fault } from '../core/errors.ts';
import { createPromptRedis, readRedisAddress } from '../core/redis-client.ts';
import { type Coordinator, LEASE_MS, type Tick } from './coordinator.ts';
import { COMPLETE_SCRIPT, HOLD_SCRIPT, TAKE_OVER_SCRIPT } from './coordinator-scripts.ts';

const KEY_PREFIX = 'flowdrop:schedule';
/**
 * How long a call waits for a lost connection: enough for a restart or a fail-over, and no longer than a renewal
 * interval.
 */
const PATIENCE_MS = 5_000;
/** Enough to keep stores distinct. */
const NAMESPACE_DIGITS = 24;

export interface RedisCoordinatorOptions {
  readonly url: string;
  /** Stored with a claim, for people who inspect Redis. */
  readonly daemonId: string;
  /** Where a job drops to, in a form that is the same for all daemons: equal name and store mean the same job. */
  storeOf(job: string): string;
  /**
   * How long a claim holds without renewal. Shorter: ticks of a dead daemon are taken over sooner. Longer: a busy
   * daemon keeps its ticks. Must be the same for all daemons. Default: `LEASE_MS`.
   */
  readonly leaseMs?: number;
}

/** Connects on first use. Methods throw Fault `COORDINATOR_REDIS_FAILED`. @throws Fault `SETTING_INVALID` */
export function openRedisCoordinator(options: RedisCoordinatorOptions): Coordinator {
  const { url, leaseMs = LEASE_MS } = options;
  const address = readRedisAddress(url);
  const owner = `${options.daemonId} ${randomUUID()}`;
  /** Ticks that this daemon runs, with the keys they were claimed under: the job file may change meanwhile. */
  const held = new Map<string, HeldTick>();
  /** Ticks that ended here, but are not recorded on the server yet. */
  const ended = new Map<string, HeldTick>();
  /** Their calls in flight. */
  const ending = new Set<Promise<unknown>>();
  /** When the connection was established, by `performance.now()`. */
  let connectedAtMs = 0;

  // Prompt, because a claim whose caller gave up would take the tick from the daemon that runs it.
  const redis = createPromptRedis(url);
  const { client } = redis;
  client.on('ready', () => {
    connectedAtMs = performance.now();
  });

  /** @param action must be repeatable: the connection may be lost before the answer arrives @throws Fault */
  const use = async <T>(action: () => Promise<T>): Promise<T> => {
    const patience = AbortSignal.timeout(PATIENCE_MS);
    for (;;) {
      try {
        await untilReady(client, patience);
        return await action();
      } catch (cause) {
        if (isLost(client) && !patience.aborted) {
          await nextTurn();
          continue;
        }
        const reason = describeError(redis.connectionError ?? cause);
        throw new Fault(
          'COORDINATOR_REDIS_FAILED',
          `Redis at ${address}, which shares the schedule between daemons, is unavailable: ${reason}`,
          {
            cause,
            hint: 'Check FLOWDROP_REDIS_URL and the server. Until it is back, jobs with schedule.distributed are not started.',
          },
        );
      }
    }
  };
  const run = (script: string, keys: readonly string[], ...values: readonly (string | number)[]) =>
    use(() => client.eval(script, keys.length, ...keys, ...values));
  const keysOf = (job: string) => listKeys(options.storeOf(job), job);

  const hold = async (tick: Tick, keys: readonly string[]): Promise<boolean> => {
    const isMine = (await run(HOLD_SCRIPT, keys, nameDueTime(tick), owner, leaseMs)) === 1;
    if (isMine) held.set(idOf(tick), { tick, keys });
    else held.delete(idOf(tick));
    return isMine;
  };
  const end = async (id: string, { tick, keys }: HeldTick): Promise<void> => {
    ended.set(id, { tick, keys });
    const saying = run(COMPLETE_SCRIPT, keys, nameDueTime(tick), owner);
    ending.add(saying);
    await saying.finally(() => ending.delete(saying));
    ended.delete(id);
    held.delete(id);
  };

  return {
    claim: (tick) => hold(tick, keysOf(tick.job)),
    renew: (tick) => hold(tick, held.get(idOf(tick))?.keys ?? keysOf(tick.job)),
    // If it fails, it is repeated before the next take-over.
    complete: (tick) => end(idOf(tick), held.get(idOf(tick)) ?? { tick, keys: keysOf(tick.job) }),
    async takeOver(jobs) {
      for (const [id, tick] of [...ended]) await end(id, tick);
      const [seconds = 0, micros = 0] = (await use(() => client.time())).map(Number);
      // The server may have been down for all daemons: those alive renew before any take-over.
      if (performance.now() - connectedAtMs < leaseMs / 2) return [];
      const askedAtMs = Math.floor(seconds * 1000 + micros / 1000);
      const taken: Tick[] = [];
      for (const job of jobs) {
        const keys = keysOf(job);
        const mine = [...held.values()].filter(({ tick }) => tick.job === job).map(({ tick }) => nameDueTime(tick));
        // The script returns a list of due times.
        const due = (await run(TAKE_OVER_SCRIPT, keys, owner, leaseMs, askedAtMs, ...mine)) as readonly string[];
        for (const time of due) {
          const tick = { job, dueAtMs: Number(time) };
          held.set(idOf(tick), { tick, keys });
          taken.push(tick);
        }
      }
      return taken;
    },
    async lastTick(job) {
      const [, , , last = ''] = keysOf(job);
      const found = await use(() => client.get(last));
      return found === null ? undefined : Number(found);
    },
    async close() {
      // Otherwise a tick that just ended would run again. These calls have the usual time-out.
      if (client.status === 'ready') await Promise.allSettled(ending);
      client.disconnect();
    },
  };
}

/**
 * Whether the connection is lost but may come back. Includes a connection that the server closed without an event yet.
 */
function isLost({ status, stream }: Redis): boolean {
  return status === 'ready' ? !stream.writable : status !== 'end';
}

/** Connects if necessary. Rejects if the signal aborts first or the client is closed. */
async function untilReady(client: Redis, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  if (client.status === 'ready') return;
  if (client.status === 'end') throw new RangeError('the coordinator is closed');
  // Failures arrive as events, and the client retries.
  if (client.status === 'wait') client.connect().catch(() => undefined);
  await new Promise<void>((resolve, reject) => {
    const settle = () => {
      client.off('ready', settle);
      client.off('end', settle);
      signal.removeEventListener('abort', settle);
      if (client.status === 'ready') resolve();
      else reject(signal.reason ?? new RangeError('the coordinator is closed'));
    };
    client.on('ready', settle);
    client.on('end', settle);
    signal.addEventListener('abort', settle);
  });
}

interface HeldTick {
  readonly tick: Tick;
  readonly keys: readonly string[];
}

/** In the order that the scripts expect. */
function listKeys(store: string, job: string): readonly string[] {
  const namespace = createHash('sha256')
    .update(JSON.stringify([store, job]))
    .digest('hex')
    .slice(0, NAMESPACE_DIGITS);
  const base = `${KEY_PREFIX}:{${namespace}}:${encodeURIComponent(job)}`;
  return ['claims', 'leases', 'claimed', 'last'].map((name) => `${base}:${name}`);
}

function idOf({ job, dueAtMs }: Tick): string {
  return `${dueAtMs} ${job}`;
}

/** @throws RangeError when the due time is not a valid number of milliseconds in whole seconds */
function nameDueTime({ dueAtMs }: Tick): string {
  if (!Number.isSafeInteger(dueAtMs) || dueAtMs < 0 || dueAtMs % 1000 !== 0) {
    throw new RangeError(`a tick is due at ${dueAtMs}; needed are milliseconds since the epoch, whole seconds`);
  }
  return String(dueAtMs);
}
