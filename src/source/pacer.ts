/**
 * The request budget of a key. Invariant: request starts keep the pace of the budget, however long the answers take,
 * across all processes that share a state folder or, through Redis, across machines. A single 429 widens the spacing a
 * little, repeated ones lower the rate for a few starts. The requests of a process wait in one
 * line, whose head reserves the next start in a shared cell (`pace/reservations.ts` has the numbers). Time comes from a `Clock`.
 */
import { createHash, randomBytes } from 'node:crypto';
import { join } from 'node:path';
import type { Clock } from '../core/clock.ts';
import { untilAborted } from '../core/side-by-side.ts';
import {
  BUDGETS,
  type BudgetName,
  cancel,
  intervalOf,
  type Pace,
  type PaceCell,
  type PaceState,
  paceOf,
  reserve,
  settle,
  slowDown,
  UNUSED,
} from './pace/reservations.ts';

/** A server that asks for a longer wait is down: with this cap, the caller's retries end sooner. */
export const MAX_RETRY_AFTER_MS = 15 * 60_000;

export type Pacer = ReturnType<typeof createCellPacer>;

interface PacerOptions {
  readonly clock: Clock;
  /** Processes with the same folder share the budget. */
  readonly stateDir: string;
  readonly apiKey: string;
  /** Replaces the budget's own rate. */
  readonly requestsPerSecond?: number | undefined;
  /** Machines with the same Redis share the budget; the folder is then unused. */
  readonly redisUrl?: string | undefined;
}

/** Opens a budget that all users of the key share. Touches no file or server before the first request. @throws Fault */
export async function openPacer(name: BudgetName, options: PacerOptions): Promise<Pacer> {
  const { clock, stateDir, apiKey, redisUrl, requestsPerSecond = BUDGETS[name].requestsPerSecond } = options;
  const pace = paceOf({ requestsPerSecond, burst: BUDGETS[name].burst }, MAX_RETRY_AFTER_MS);
  // Never the key itself: the folder and Redis are not a place for secrets.
  const key = `${name}-${createHash('sha256').update(apiKey).digest('hex').slice(0, 16)}`;
  const cell = redisUrl
    ? (await import('./pace/redis-cell.ts')).createRedisCell(redisUrl, key)
    : (await import('./pace/file-cell.ts')).createFileCell(join(stateDir, 'pace', key), clock);
  return createCellPacer(clock, pace, cell);
}

export function createCellPacer(clock: Clock, pace: Pace, cell: PaceCell) {
  /** Identifies the reservation of this process. */
  const id = randomBytes(6).toString('hex');
  /** Resolves when the last caller has started or left. */
  let tail: Promise<void> = Promise.resolve();
  let known: Pick<PaceState, 'spacing' | 'slowdown'> = UNUSED;

  const update = <Result>(change: (state: PaceState, nowMs: number) => { state: PaceState; result: Result }) =>
    cell.update((found, nowMs) => {
      const changed = change(settle(found, pace, nowMs), nowMs);
      known = changed.state;
      return changed;
    });

  const waitForStart = async (signal: AbortSignal | undefined) => {
    try {
      for (;;) {
        signal?.throwIfAborted();
        const waitMs = await update((state, nowMs) => {
          const reserved = reserve(state, id, pace, nowMs);
          return { state: reserved.state, result: reserved.waitMs };
        });
        if (waitMs === 0) return;
        await clock.sleep(waitMs, signal);
      }
    } catch (error) {
      // The original error matters more than a failed cancel; a reservation that stays costs others one slot.
      await update((state) => ({ state: cancel(state, id), result: undefined })).catch(() => undefined);
      throw error;
    }
  };

  return {
    /**
     * Resolves when the next request may start. Callers in one process are served in order; processes take turns.
     * @throws Fault if the shared budget cannot be stored: no request is ever sent unpaced
     */
    async acquire(signal?: AbortSignal): Promise<void> {
      signal?.throwIfAborted();
      const start = tail.then(() => waitForStart(signal));
      tail = start.catch(() => undefined);
      // An aborted caller is released at once, even if others are ahead; its turn then uses no budget.
      await (signal ? untilAborted(start, signal) : start);
    },
    /**
     * After a 429: no start for the next `pauseMs`, and a wider spacing or, if it is not the first, a lower rate.
     * @param startedAtMs start of the refused request; several requests in flight that get the same 429 then count once
     */
    async slowDown(pauseMs: number, startedAtMs?: number): Promise<void> {
      const startedAgoMs = startedAtMs === undefined ? undefined : Math.max(0, clock.now() - startedAtMs);
      await update((state, nowMs) => {
        const started = startedAgoMs === undefined ? undefined : nowMs - startedAgoMs;
        return { state: slowDown(state, pace, nowMs, pauseMs, started), result: undefined };
      });
    },
    /** Milliseconds between two starts at present, as far as this process knows. */
    intervalMs: () => intervalOf(known, pace),
    /** Call it only when no caller waits any more. */
    close: () => cell.close(),
  };
}
