/**
 * A schedule that several daemons share, kept in Redis (6 or newer). Invariant: of all daemons that ask for a tick, one
 * gets it. A tick is named by its due time, so it does not matter whose clock fired it. A claim holds for a lease. Each
 * start of a daemon is a separate owner, so a daemon whose lease expired, and whose tick was taken over, can neither
 * renew nor complete that tick.
 *
 * Of each job one document is kept: the newest ticks that are over, and those that run now, each with owner and lease.
 * The time is the server's, so the clocks of daemons may differ. Doing a change twice, because an answer was lost, does no
 * harm.
 *
 * It does not guarantee that a tick runs only once. A daemon that is cut off for longer than a lease continues a run
 * that another has taken over. After a server loses its data, a tick can be claimed again unless the daemon that runs
 * it renews first. Runs are idempotent, since the store is the ledger: a tick that runs twice costs requests, never a
 * row. While the server is down every method throws; afterwards, `claim` finds the ticks that could not be claimed.
 */
import { createHash, randomUUID } from 'node:crypto';
import { z } from 'zod';
import { LOOKBACK_DAYS } from '../api-contract/published-limits.ts';
import { tryParseJson } from '../core/atomic-file.ts';
import { changeValue, openPatientRedis } from '../core/redis-client.ts';
import { type Coordinator, LEASE_MS, type Tick } from './state.ts';

const KEY_PREFIX = 'flowdrop:schedule';
/** Longer than a daemon looks back for missed ticks: a tick forgotten earlier could be claimed again. */
const KEEP_MS = (LOOKBACK_DAYS + 2) * 86_400_000;
/** Ticks that are older than so many others are over: of several missed ones only the newest counts. */
const MAX_DONE = 1_000;
/**
 * How long a call waits for a lost connection: enough for a restart or a fail-over, and no longer than a renewal
 * interval.
 */
const PATIENCE_MS = 5_000;
/** Enough to keep stores distinct. */
const NAMESPACE_DIGITS = 24;

const sharedSchema = z.object({
  /** Due times of what is over, oldest first. */
  done: z.array(z.number()),
  /** What runs now, by due time. */
  open: z.record(z.string(), z.object({ owner: z.string(), until: z.number() })),
});

type Shared = z.infer<typeof sharedSchema>;

export interface RedisCoordinatorOptions {
  readonly url: string;
  /** Stored with a claim, for people who inspect Redis. */
  readonly daemonId: string;
  /** Where a job drops to, in a form that is the same for all daemons: equal name and store mean the same job. */
  storeOf(job: string): string;
  /** How long a claim holds without renewal; the same for all daemons. Default: `LEASE_MS`. */
  readonly leaseMs?: number;
}

/** A tick that this daemon runs, and the key it was claimed under: the job file may change meanwhile. */
interface HeldTick {
  readonly tick: Tick;
  readonly key: string;
  /** It ended here, and this is the last call that says so. */
  readonly saying?: Promise<void>;
}

/** Connects on first use. Methods throw Fault `COORDINATOR_REDIS_FAILED`. @throws Fault `SETTING_INVALID` */
export function openRedisCoordinator(options: RedisCoordinatorOptions): Coordinator {
  const { url, leaseMs = LEASE_MS } = options;
  const owner = `${options.daemonId} ${randomUUID()}`;
  const held = new Map<string, HeldTick>();
  /** When the connection was established, by `performance.now()`. */
  let connectedAtMs = 0;
  // A claim whose caller gave up must not take the tick from the daemon that runs it: no change is made late.
  const { use, isReady, close } = openPatientRedis(url, {
    patienceMs: PATIENCE_MS,
    onReady: () => {
      connectedAtMs = performance.now();
    },
    code: 'COORDINATOR_REDIS_FAILED',
    purpose: 'shares the schedule between daemons',
    hint: 'Check FLOWDROP_REDIS_URL and the server. Until it is back, jobs with schedule.distributed are not started.',
  });
  const parse = (text: string): Shared => sharedSchema.safeParse(tryParseJson(text)).data ?? { done: [], open: {} };
  /** @param change gets the server's time; what it returns is the result */
  const update = <T>(key: string, change: (shared: Shared, nowMs: number) => T): Promise<T> =>
    use((client) =>
      changeValue(client, key, KEEP_MS, (text, nowMs) => {
        const shared = parse(text);
        const result = change(shared, Math.floor(nowMs));
        return { value: JSON.stringify(shared), result };
      }),
    );
  const keyOf = (job: string) => nameKey(options.storeOf(job), job);
  const keyOfTick = (tick: Tick) => held.get(idOf(tick))?.key ?? keyOf(tick.job);

  /** Claims a tick, or renews the claim. A server that lost its data learns of the tick from the daemon that runs it. */
  const hold = async (tick: Tick, key: string): Promise<boolean> => {
    const isMine = await update(key, (shared, nowMs) => {
      const { dueAtMs } = tick;
      const claim = shared.open[dueAtMs];
      const isOver = shared.done.includes(dueAtMs) || dueAtMs < (shared.done.at(-MAX_DONE) ?? 0);
      if (claim ? claim.owner !== owner : isOver) return false;
      shared.open[dueAtMs] = { owner, until: nowMs + leaseMs };
      return true;
    });
    // It may have ended meanwhile.
    if (isMine && !held.has(idOf(tick))) held.set(idOf(tick), { tick, key });
    if (!isMine) held.delete(idOf(tick));
    return isMine;
  };
  const end = async (tick: Tick): Promise<void> => {
    const key = keyOfTick(tick);
    const saying = update(key, (shared) => {
      const claim = shared.open[tick.dueAtMs];
      // Another daemon that has taken it over completes it.
      if (claim && claim.owner !== owner) return;
      delete shared.open[tick.dueAtMs];
      const done = [...new Set([...shared.done, tick.dueAtMs])].sort((a, b) => a - b);
      shared.done = done.slice(-MAX_DONE);
    }).then(() => void held.delete(idOf(tick)));
    held.set(idOf(tick), { tick, key, saying });
    await saying;
  };

  return {
    claim: (tick) => hold(tick, keyOf(tick.job)),
    renew: (tick) => hold(tick, keyOfTick(tick)),
    // If it fails, it is repeated before the next take-over.
    complete: end,
    async takeOver(jobs) {
      for (const { tick, saying } of [...held.values()]) if (saying) await end(tick);
      // The server may have been down for all daemons: those alive renew before any take-over.
      await use((client) => client.time());
      if (performance.now() - connectedAtMs < leaseMs / 2) return [];
      const taken: HeldTick[] = [];
      for (const job of jobs) {
        const key = keyOf(job);
        const free = await update(key, ({ open }, nowMs) => {
          const ticks = Object.keys(open).map((time) => ({ job, dueAtMs: Number(time) }));
          return ticks.filter((tick) => {
            const isFree = (open[tick.dueAtMs]?.until ?? 0) <= nowMs && !held.has(idOf(tick));
            if (isFree) open[tick.dueAtMs] = { owner, until: nowMs + leaseMs };
            return isFree;
          });
        });
        taken.push(...free.map((tick) => ({ tick, key })));
        for (const one of taken) held.set(idOf(one.tick), one);
      }
      return taken.map(({ tick }) => tick);
    },
    async close() {
      // Otherwise a tick that just ended would run again. These calls have the usual time-out.
      if (isReady()) await Promise.allSettled([...held.values()].map(({ saying }) => saying));
      close();
    },
  };
}

function nameKey(store: string, job: string): string {
  const namespace = createHash('sha256')
    .update(JSON.stringify([store, job]))
    .digest('hex');
  return `${KEY_PREFIX}:${namespace.slice(0, NAMESPACE_DIGITS)}:${encodeURIComponent(job)}`;
}

function idOf({ job, dueAtMs }: Tick): string {
  return `${dueAtMs} ${job}`;
}
