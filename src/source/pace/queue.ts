/**
 * The queues of one process before a shared budget: one for urgent requests, one for the others, each first come, first
 * served. The head of each waits for its turn among all processes, asks the other machines where there are any, and
 * starts. Invariant: whoever leaves (abort, failure) leaves no trace that others would wait for.
 */
import { randomBytes } from 'node:crypto';
import type { Clock } from '../../core/clock.ts';
import type { Pace } from './budget.ts';
import type { Permit } from './permit.ts';
import { identifyProcess, isRunning } from './process.ts';
import { type PaceState, settle, slowDown, spendAll, UNUSED } from './state.ts';
import type { StateCell } from './state-file.ts';
import { dropGone, postpone, startRequest, takeStep, withoutLane } from './turn.ts';

export interface QueueParts {
  readonly clock: Clock;
  readonly pace: Pace;
  readonly cell: StateCell;
  /** Of all machines; without it this one is alone. */
  readonly permit?: Permit | undefined;
}

export interface Queue {
  /** Resolves when the next request may start. */
  acquire(urgent: boolean, signal: AbortSignal | undefined): Promise<void>;
  /** After a 429. @param startedAtMs when the refused request started */
  slowDown(pauseMs: number, startedAtMs: number | undefined): void | Promise<void>;
  /** Between two starts at present, as far as this process knows. */
  intervalMs(): number;
}

interface Lane {
  readonly name: string;
  readonly urgent: boolean;
  /** The turn of its last start: it goes behind whoever was not served since. */
  lastTurn: number | undefined;
  tail: Promise<void>;
}

/** A newcomer goes before whoever was served last, and behind everybody else. */
const NEWCOMER_LEAD = 0.5;

type Change<T> = (state: PaceState, nowMs: number) => { readonly state: PaceState; readonly result: T };

export function createQueue({ clock, pace, cell, permit }: QueueParts): Queue {
  const me = identifyProcess();
  const name = `${me.pid}-${randomBytes(4).toString('hex')}`;
  const plain: Lane = { name: `${name}-plain`, urgent: false, lastTurn: undefined, tail: Promise.resolve() };
  const urgent: Lane = { name: `${name}-urgent`, urgent: true, lastTurn: undefined, tail: Promise.resolve() };
  let slowdown = 1;

  const update = <T>(change: Change<T>) => {
    const done = cell.update((found) => {
      const nowMs = clock.now();
      const known = settle(found ?? spendAll(UNUSED, pace, nowMs), pace, nowMs);
      const changed = change(
        dropGone(known, nowMs, (waiter) => isRunning(me, waiter)),
        nowMs,
      );
      return { state: changed.state, result: changed };
    });
    slowdown = done.state.slowdown;
    return done;
  };

  const takeNextStep = (lane: Lane) => {
    const done = update((state, nowMs) => {
      const { name: laneName, urgent: isUrgent } = lane;
      const last_turn = lane.lastTurn ?? state.turn - NEWCOMER_LEAD;
      const waiter = { lane: laneName, ...me, urgent: isUrgent, last_turn, seen: nowMs };
      const { state: next, step } = takeStep(state, waiter, pace, nowMs, permit !== undefined);
      return { state: next, result: step };
    });
    lane.lastTurn = done.result.kind === 'start' ? done.state.turn : (lane.lastTurn ?? done.state.turn - NEWCOMER_LEAD);
    return done.result;
  };

  /** Asks for the start that is this lane's turn. @returns whether it has started */
  const askMachines = async (lane: Lane, all: Permit) => {
    const waitMs = await all.ask();
    const done = update((state, nowMs) => ({
      state:
        waitMs > 0
          ? postpone(state, lane.name, nowMs + Math.min(waitMs, pace.longestPauseMs))
          : startRequest(state, lane.name, pace, nowMs),
      result: waitMs <= 0,
    }));
    if (done.result) lane.lastTurn = done.state.turn;
    return done.result;
  };

  const waitForTurn = async (lane: Lane, signal: AbortSignal | undefined) => {
    try {
      for (;;) {
        signal?.throwIfAborted();
        const step = takeNextStep(lane);
        if (step.kind === 'start') return;
        if (step.kind === 'wait') await clock.sleep(step.waitMs, signal);
        else if (permit && (await askMachines(lane, permit))) return;
      }
    } catch (error) {
      leave(lane);
      throw error;
    }
  };

  const leave = (lane: Lane) => {
    try {
      update((state) => ({ state: withoutLane(state, lane.name), result: undefined }));
    } catch {
      // What made the caller leave says more; the others drop a waiter that falls silent.
    }
  };

  return {
    async acquire(isUrgent, signal) {
      signal?.throwIfAborted();
      const lane = isUrgent ? urgent : plain;
      const turn = lane.tail.then(() => waitForTurn(lane, signal));
      lane.tail = turn.catch(() => undefined);
      await untilAborted(turn, signal);
    },
    slowDown(pauseMs, startedAtMs) {
      update((state, nowMs) => ({ state: slowDown(state, pace, nowMs, pauseMs, startedAtMs), result: undefined }));
      return permit?.slowDown(pauseMs, startedAtMs === undefined ? undefined : Math.max(0, clock.now() - startedAtMs));
    },
    intervalMs: () => pace.intervalMs * slowdown,
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
