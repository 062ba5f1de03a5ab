/**
 * The request budget of a key. Invariant: request starts keep to the pace of the budget, whatever the answers take, over
 * all processes that share a state folder or, through Redis, over machines. A 429 lowers the rate for a while; it
 * recovers slowly. Each process has one queue for urgent requests and one for the others, first come, first served; the
 * head of each reserves the next start in a cell that all share. Time is a `Clock`.
 */
import { createHash, randomBytes } from 'node:crypto';
import { join } from 'node:path';
import type { Clock } from '../core/clock.ts';
import { BUDGETS, type BudgetName, type Pace, paceOf } from './pace/budget.ts';
import type { PaceCell } from './pace/cell.ts';
import { cancel, type PaceState, reserve, settle, slowDown } from './pace/reservations.ts';

/** A server that asks for more patience than this is down: the caller's retries end sooner that way. */
export const MAX_RETRY_AFTER_MS = 15 * 60_000;

interface AcquireOptions {
  readonly signal?: AbortSignal | undefined;
  /** A date is about to expire: before all that is not urgent, though never for ever. Default: false. */
  readonly urgent?: boolean | undefined;
}

export interface Pacer {
  /**
   * Resolves when the next request may start. Callers of a process are served in the order they came; processes in turn.
   * @throws Fault when the shared budget cannot be kept: nothing is ever sent unpaced
   */
  acquire(options?: AcquireOptions): Promise<void>;
  /**
   * After a 429: no start before `retryAfterMs` from now, and a lower rate.
   * @param startedAtMs when the refused request started: several in flight that meet the same 429 then count once
   */
  slowDown(retryAfterMs: number, startedAtMs?: number): Promise<void>;
  /** Milliseconds between two starts at present, as far as this process knows. */
  intervalMs(): number;
  /** When nobody waits any more. */
  close(): Promise<void>;
}

interface PacerOptions {
  readonly clock: Clock;
  /** Processes with the same folder share the budget. */
  readonly stateDir: string;
  readonly apiKey: string;
  /** In place of the budget's own rate. */
  readonly requestsPerSecond?: number | undefined;
  /** Machines with the same Redis share the budget; the folder is then not used. */
  readonly redisUrl?: string | undefined;
}

/** A budget of all processes or machines that use the key. Nothing is touched before the first request. @throws Fault */
export async function openPacer(name: BudgetName, options: PacerOptions): Promise<Pacer> {
  const { clock, stateDir, apiKey, redisUrl, requestsPerSecond = BUDGETS[name].requestsPerSecond } = options;
  const pace = paceOf({ requestsPerSecond, burst: BUDGETS[name].burst }, MAX_RETRY_AFTER_MS);
  // Never the key itself: the folder and Redis are not made to keep secrets.
  const key = `${name}-${createHash('sha256').update(apiKey).digest('hex').slice(0, 16)}`;
  const cell = redisUrl
    ? (await import('./pace/redis-cell.ts')).createRedisCell(redisUrl, key)
    : (await import('./pace/file-cell.ts')).createFileCell(join(stateDir, 'pace', key), clock);
  return createCellPacer(clock, pace, cell);
}

interface Queue {
  /** Of its reservation. */
  readonly id: string;
  readonly urgent: boolean;
  /** Ends when the last caller has started, or left. */
  tail: Promise<void>;
}

export function createCellPacer(clock: Clock, pace: Pace, cell: PaceCell): Pacer {
  const process = randomBytes(6).toString('hex');
  const plain: Queue = { id: `${process}-plain`, urgent: false, tail: Promise.resolve() };
  const urgent: Queue = { id: `${process}-urgent`, urgent: true, tail: Promise.resolve() };
  let slowdown = 1;

  const update = <Result>(change: (state: PaceState, nowMs: number) => { state: PaceState; result: Result }) =>
    cell.update((found, nowMs) => {
      const changed = change(settle(found, pace, nowMs), nowMs);
      slowdown = changed.state.slowdown;
      return changed;
    });

  const waitForStart = async (queue: Queue, signal: AbortSignal | undefined) => {
    try {
      for (;;) {
        signal?.throwIfAborted();
        const waitMs = await update((state, nowMs) => {
          const reserved = reserve(state, queue, pace, nowMs);
          return { state: reserved.state, result: reserved.waitMs };
        });
        if (waitMs === 0) return;
        await clock.sleep(waitMs, signal);
      }
    } catch (error) {
      // What made the caller leave says more; a reservation that stays costs the others one slot.
      await update((state) => ({ state: cancel(state, queue.id), result: undefined })).catch(() => undefined);
      throw error;
    }
  };

  return {
    async acquire({ urgent: isUrgent = false, signal } = {}) {
      signal?.throwIfAborted();
      const queue = isUrgent ? urgent : plain;
      const start = queue.tail.then(() => waitForStart(queue, signal));
      queue.tail = start.catch(() => undefined);
      await untilAborted(start, signal);
    },
    async slowDown(pauseMs, startedAtMs) {
      const startedAgoMs = startedAtMs === undefined ? undefined : Math.max(0, clock.now() - startedAtMs);
      await update((state, nowMs) => {
        const started = startedAgoMs === undefined ? undefined : nowMs - startedAgoMs;
        return { state: slowDown(state, pace, nowMs, pauseMs, started), result: undefined };
      });
    },
    intervalMs: () => pace.intervalMs * slowdown,
    close: () => cell.close(),
  };
}

/** Lets a caller go at once, also from behind others: its turn, when it comes, spends nothing. */
async function untilAborted(turn: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  if (!signal) return await turn;
  let stop: (() => void) | undefined;
  const aborted = new Promise<never>((_resolve, reject) => {
    stop = () => reject(signal.reason as Error);
    signal.addEventListener('abort', stop, { once: true });
  });
  try {
    await Promise.race([turn, aborted]);
  } finally {
    if (stop) signal.removeEventListener('abort', stop);
  }
}
