/**
 * The request budget of a key. Invariant: request starts keep to the pace of the budget, whatever the answers take, over
 * all processes that share a state folder and, through Redis, over machines. A 429 lowers the rate for a while; it
 * recovers slowly. Time is a `Clock`.
 */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import type { Clock } from '../core/clock.ts';
import { BUDGETS, type BudgetName, paceOf } from './pace/budget.ts';
import type { Permit } from './pace/permit.ts';
import { createQueue, type Queue } from './pace/queue.ts';
import { createMemoryCell, openStateFile, type StateCell } from './pace/state-file.ts';

/** A server that asks for more patience than this is down: the caller's retries end sooner that way. */
export const MAX_RETRY_AFTER_MS = 15 * 60_000;

export interface AcquireOptions {
  readonly signal?: AbortSignal | undefined;
  /** A date is about to expire: before all that is not urgent, though never for ever. */
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
  slowDown(retryAfterMs: number, startedAtMs?: number): void | Promise<void>;
  /** Milliseconds between two starts at present. */
  intervalMs(): number;
  /** When nobody waits any more. */
  close?(): Promise<void>;
}

/** A budget of this process alone. */
export function createPacer(clock: Clock, options: { readonly requestsPerSecond: number }): Pacer {
  const pace = paceOf({ ...options, burst: 1 }, MAX_RETRY_AFTER_MS);
  return pacerOf(createQueue({ clock, pace, cell: createMemoryCell() }), undefined);
}

export interface PacerOptions {
  readonly clock: Clock;
  /** Processes with the same folder share the budget. */
  readonly stateDir: string;
  readonly apiKey: string;
  /** In place of the budget's own rate. */
  readonly requestsPerSecond?: number | undefined;
  /** Machines with the same Redis share the budget, too. */
  readonly redisUrl?: string | undefined;
}

/** A budget of all processes and machines that use the key. Nothing is touched before the first request. @throws Fault */
export async function openPacer(name: BudgetName, options: PacerOptions): Promise<Pacer> {
  const { clock, stateDir, apiKey, redisUrl, requestsPerSecond = BUDGETS[name].requestsPerSecond } = options;
  const pace = paceOf({ requestsPerSecond, burst: BUDGETS[name].burst }, MAX_RETRY_AFTER_MS);
  // Never the key itself: the folder and Redis are not made to keep secrets.
  const key = `${name}-${createHash('sha256').update(apiKey).digest('hex').slice(0, 16)}`;
  let file: StateCell | undefined;
  const cell: StateCell = {
    update(change) {
      file ??= openStateFile(join(stateDir, 'pace', key), clock.now());
      return file.update(change);
    },
  };
  const permit = redisUrl ? (await import('./pace/redis.ts')).openRedisPermit(redisUrl, key, pace) : undefined;
  return pacerOf(createQueue({ clock, pace, cell, permit }), permit);
}

function pacerOf(queue: Queue, permit: Permit | undefined): Pacer {
  return {
    acquire: ({ urgent = false, signal } = {}) => queue.acquire(urgent, signal),
    slowDown: (retryAfterMs, startedAtMs) => queue.slowDown(retryAfterMs, startedAtMs),
    intervalMs: () => queue.intervalMs(),
    close: async () => {
      await permit?.close();
    },
  };
}
