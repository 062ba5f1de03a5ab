/**
 * Fair slots: tasks of several owners take and release them, and wait in one queue. Invariant: a slot has one holder;
 * with more than one slot no owner holds all of them; the queue is bounded. This module knows neither engines nor time:
 * the pools run the tasks.
 */
import { EngineFault, PoolBusyFault } from './engine-fault.ts';

export interface TurnLimits {
  /** Tasks that may run concurrently; at least 1. */
  readonly size: number;
  /** Tasks that may wait for a slot; more are refused. */
  readonly maxWaiting: number;
}

/** A slot, until it is released. */
export interface FairSlot {
  /** 0 to size - 1. */
  readonly slot: number;
  /** Gives the slot to the next waiter. Idempotent. */
  release(): void;
}

interface Waiter {
  readonly owner: string;
  give(turn: FairSlot): void;
  refuse(reason: unknown): void;
}

export class FairSlots {
  readonly size: number;
  readonly #maxWaiting: number;
  /** Maximum slots of one owner. */
  readonly #share: number;
  readonly #free: number[];
  readonly #held = new Map<string, number>();
  /** In order of arrival. */
  readonly #queue: Waiter[] = [];
  #isClosed = false;

  constructor(limits: TurnLimits) {
    this.size = limits.size;
    this.#maxWaiting = limits.maxWaiting;
    this.#share = Math.max(1, limits.size - 1);
    this.#free = Array.from({ length: limits.size }, (_, slot) => slot);
  }

  /** Number of slots in use. */
  get running(): number {
    return this.size - this.#free.length;
  }

  get waiting(): number {
    return this.#queue.length;
  }

  /**
   * Waits for a slot: the owner with the fewest slots goes first, then the earliest arrival.
   * @throws PoolBusyFault if the queue is full, EngineFault if closed, the signal's reason if aborted while waiting
   */
  async take(owner: string, signal: AbortSignal): Promise<FairSlot> {
    signal.throwIfAborted();
    if (this.#isClosed) throw closedFault();
    return await new Promise<FairSlot>((resolve, reject) => {
      const leave = () => {
        this.#queue.splice(this.#queue.indexOf(waiter), 1);
        waiter.refuse(signal.reason);
      };
      const settle =
        <T>(act: (value: T) => void) =>
        (value: T) => {
          signal.removeEventListener('abort', leave);
          act(value);
        };
      const waiter: Waiter = { owner, give: settle(resolve), refuse: settle(reject) };
      signal.addEventListener('abort', leave, { once: true });
      this.#queue.push(waiter);
      this.#giveOut();
      if (this.#queue.length > this.#maxWaiting) this.#refuseOne();
    });
  }

  /** Refuses waiting and later callers; slots in use stay in use until released. Idempotent. */
  close(): void {
    this.#isClosed = true;
    for (const waiter of this.#queue.splice(0)) waiter.refuse(closedFault());
  }

  #giveOut(): void {
    while (this.#free.length > 0) {
      const next = this.#next();
      if (next === undefined) return;
      this.#queue.splice(this.#queue.indexOf(next), 1);
      next.give(this.#hold(next.owner));
    }
  }

  #next(): Waiter | undefined {
    let best: Waiter | undefined;
    let fewest = this.#share;
    for (const waiter of this.#queue) {
      const held = this.#heldBy(waiter.owner);
      if (held >= fewest) continue;
      best = waiter;
      fewest = held;
    }
    return best;
  }

  #hold(owner: string): FairSlot {
    // Lowest first: an idle engine that was used before is warm.
    const slot = Math.min(...this.#free);
    this.#free.splice(this.#free.indexOf(slot), 1);
    this.#held.set(owner, this.#heldBy(owner) + 1);
    let isHeld = true;
    const release = () => {
      if (!isHeld) return;
      isHeld = false;
      const left = this.#heldBy(owner) - 1;
      if (left === 0) this.#held.delete(owner);
      else this.#held.set(owner, left);
      this.#free.push(slot);
      this.#giveOut();
    };
    return { slot, release };
  }

  /**
   * Refuses the newest waiter of the owner with the most waiters: usually the one that just came. Otherwise one caller
   * with many requests would fill the queue, and all others would be refused.
   */
  #refuseOne(): void {
    const counts = new Map<string, number>();
    for (const { owner } of this.#queue) counts.set(owner, (counts.get(owner) ?? 0) + 1);
    const most = Math.max(...counts.values());
    const refused = this.#queue.findLast(({ owner }) => counts.get(owner) === most);
    if (refused === undefined) return;
    this.#queue.splice(this.#queue.indexOf(refused), 1);
    refused.refuse(new PoolBusyFault(this.#queue.length));
  }

  #heldBy(owner: string): number {
    return this.#held.get(owner) ?? 0;
  }
}

function closedFault(): EngineFault {
  return new EngineFault(0, 'the engines are closed');
}
