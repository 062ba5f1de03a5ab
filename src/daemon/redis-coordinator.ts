/**
 * A schedule that several daemons share, kept in Redis (6 or newer). Invariant: of all daemons that ask for a tick one gets
 * it, whichever clock said that it was due, because its name is when it was due. A claim holds for a lease; each daemon
 * start is an owner of its own, so one whose lease ran out, and whose tick another has taken over, can neither renew nor
 * complete it.
 *
 * What it does not promise: that a tick runs once whatever happens. A daemon cut off for longer than a lease goes on with a
 * run that another has taken over, and a server that comes back without its memory lets a tick be claimed again, unless
 * whoever runs it renews first. Runs are idempotent, since the store is the ledger: a tick that runs twice costs requests,
 * never a row. While the server is away every method throws; ticks that nobody could claim are found afterwards by
 * `lastTick` and `claim`.
 */
import { createHash, randomUUID } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { describeError, Fault } from '../core/errors.ts';
import { readRedisAddress } from '../core/redis-address.ts';
import { type Coordinator, LEASE_MS, type Tick } from './coordinator.ts';
import { COMPLETE_SCRIPT, HOLD_SCRIPT, TAKE_OVER_SCRIPT } from './coordinator-scripts.ts';

const KEY_PREFIX = 'flowdrop:schedule';
const CONNECT_TIMEOUT_MS = 2_000;
/** A connection that says nothing for this long is replaced. */
const SILENT_MS = 2_000;
/** How long a call waits for a lost connection to come back: a restart or a fail-over, and no longer than a renewal. */
const PATIENCE_MS = 5_000;
const LONGEST_RECONNECT_PAUSE_MS = 1_000;
/** Enough to tell stores apart. */
const NAMESPACE_DIGITS = 24;
/** node-cron's key is the task's name and this. */
const KEY_TIME = /:(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)$/;

export interface RedisCoordinatorOptions {
  readonly url: string;
  /** Kept beside a claim, for people who look into Redis. */
  readonly daemonId: string;
  /** Where a job drops to, in the one form that every daemon has for it: jobs of one name and store are one job. */
  storeOf(job: string): string;
  /**
   * How long a claim holds without being renewed. Shorter: a dead daemon's ticks are taken over sooner; longer: a busy one
   * keeps its own. The same for all daemons. Default: `LEASE_MS`.
   */
  readonly leaseMs?: number;
}

/** Connects when it is first used. Methods throw Fault `COORDINATOR_REDIS_FAILED`. @throws Fault `SETTING_INVALID` */
export function openRedisCoordinator(options: RedisCoordinatorOptions): Coordinator {
  const { url, leaseMs = LEASE_MS } = options;
  const address = readRedisAddress(url);
  const owner = `${options.daemonId} ${randomUUID()}`;
  /** Ticks that this daemon runs, and the keys that they were claimed by: the job file may change meanwhile. */
  const held = new Map<string, HeldTick>();
  /** Ended here, and the server does not know yet. */
  const ended = new Map<string, HeldTick>();
  /** What the server is being told of them. */
  const ending = new Set<Promise<unknown>>();
  let lastError: unknown;
  /** When the connection came about, by `performance.now()`. */
  let connectedAtMs = 0;

  const client = new Redis(url, {
    lazyConnect: true,
    connectTimeout: CONNECT_TIMEOUT_MS,
    socketTimeout: SILENT_MS,
    commandTimeout: SILENT_MS,
    // Nothing is sent late: a claim whose caller has given up would take the tick from whoever runs it.
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    retryStrategy: (times) => Math.min(50 * 2 ** Math.min(times, 10), LONGEST_RECONNECT_PAUSE_MS),
  });
  client.on('error', (error) => {
    lastError = error;
  });
  client.on('ready', () => {
    lastError = undefined;
    connectedAtMs = performance.now();
  });

  /** @param action may be done twice: a connection may be lost before the answer comes @throws Fault */
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
        const reason = describeError(lastError ?? cause);
        throw new Fault(
          'COORDINATOR_REDIS_FAILED',
          `Redis at ${address}, which shares the schedule between daemons, does not serve: ${reason}`,
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
  const claim = (tick: Tick) => hold(tick, keysOf(tick.job));

  return {
    // No `onComplete`: node-cron calls it when the task's function has returned, and the run may have been put in a queue.
    forJob: (job) => ({ shouldRun: (key) => claim({ job, dueAtMs: parseDueTime(key) }) }),
    claim,
    renew: (tick) => hold(tick, held.get(idOf(tick))?.keys ?? keysOf(tick.job)),
    // When it fails, it is said again before anything is taken over.
    complete: (tick) => end(idOf(tick), held.get(idOf(tick)) ?? { tick, keys: keysOf(tick.job) }),
    async takeOver(jobs) {
      for (const [id, tick] of [...ended]) await end(id, tick);
      const [seconds = 0, micros = 0] = (await use(() => client.time())).map(Number);
      // The server may have been away for everybody: whoever is alive renews before anybody takes over.
      if (performance.now() - connectedAtMs < leaseMs / 2) return [];
      const askedAtMs = Math.floor(seconds * 1000 + micros / 1000);
      const taken: Tick[] = [];
      for (const job of jobs) {
        const keys = keysOf(job);
        const mine = [...held.values()].filter(({ tick }) => tick.job === job).map(({ tick }) => nameDueTime(tick));
        // The script answers with a list of due times.
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
      // A tick that has just ended would be run again: the server's answer is waited for, as long as for any other.
      if (client.status === 'ready') await Promise.allSettled(ending);
      client.disconnect();
    },
  };
}

/** Whether it may come back; also before the client has noticed, when the server has closed and no event has told so yet. */
function isLost({ status, stream }: Redis): boolean {
  return status === 'ready' ? !stream.writable : status !== 'end';
}

/** Connects when nobody has yet. Rejects when the signal is aborted first, or the client is closed. */
async function untilReady(client: Redis, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  if (client.status === 'ready') return;
  if (client.status === 'end') throw new RangeError('the coordinator is closed');
  // Its failures come as events, and it is tried again.
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

/** In the order in which the scripts take them. */
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

/** @throws RangeError when a caller made it of something else than when the tick was due */
function nameDueTime({ dueAtMs }: Tick): string {
  if (!Number.isSafeInteger(dueAtMs) || dueAtMs < 0 || dueAtMs % 1000 !== 0) {
    throw new RangeError(`a tick is due at ${dueAtMs}; needed are milliseconds since the epoch, whole seconds`);
  }
  return String(dueAtMs);
}

/** @throws RangeError when node-cron's key has another form than that of the version this was written for */
function parseDueTime(key: string): number {
  const time = Date.parse(KEY_TIME.exec(key)?.[1] ?? '');
  if (Number.isNaN(time)) throw new RangeError(`node-cron asks for the tick ${JSON.stringify(key)}, which has no time`);
  return time;
}
