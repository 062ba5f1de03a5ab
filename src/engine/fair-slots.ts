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
  /** By slot: its owner. */
  readonly #holders: (string | undefined)[];
  /** In order of arrival. */
  readonly #queue: Waiter[] = [];
  #isClosed = false;

  constructor({ size, maxWaiting }: TurnLimits) {
    this.size = size;
    this.#maxWaiting = maxWaiting;
    this.#holders = Array.from({ length: size }, () => undefined);
  }

  /** Number of slots in use. */
  get running(): number {
    return this.#holders.filter((owner) => owner !== undefined).length;
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
    const over = new AbortController();
    try {
      return await new Promise<FairSlot>((give, refuse) => {
        const waiter = { owner, give, refuse };
        const leave = () => {
          if (this.#queue.includes(waiter)) this.#take(waiter).refuse(signal.reason);
        };
        signal.addEventListener('abort', leave, { signal: over.signal });
        this.#queue.push(waiter);
        this.#giveOut();
        if (this.#queue.length > this.#maxWaiting) this.#refuseOne();
      });
    } finally {
      over.abort();
    }
  }

  /** Refuses waiting and later callers; slots in use stay in use until released. Idempotent. */
  close(): void {
    this.#isClosed = true;
    for (const waiter of this.#queue.splice(0)) waiter.refuse(closedFault());
  }

  #take(waiter: Waiter): Waiter {
    this.#queue.splice(this.#queue.indexOf(waiter), 1);
    return waiter;
  }

  #giveOut(): void {
    for (let next = this.#next(); next !== undefined; next = this.#next()) {
      // Lowest first: an idle engine that was used before is warm.
      const slot = this.#holders.indexOf(undefined);
      if (slot === -1) return;
      this.#holders[slot] = next.owner;
      let isHeld = true;
      const release = () => {
        if (!isHeld) return;
        isHeld = false;
        this.#holders[slot] = undefined;
        this.#giveOut();
      };
      this.#take(next).give({ slot, release });
    }
  }

  #next(): Waiter | undefined {
    let best: Waiter | undefined;
    // No owner has all of several slots.
    let fewest = Math.max(1, this.size - 1);
    for (const waiter of this.#queue) {
      const held = this.#holders.filter((owner) => owner === waiter.owner).length;
      if (held >= fewest) continue;
      best = waiter;
      fewest = held;
    }
    return best;
  }

  /**
   * Refuses the newest waiter of the owner with the most waiters: usually the one that just came. Otherwise one caller
   * with many requests would fill the queue, and all others would be refused.
   */
  #refuseOne(): void {
    const countOf = (owner: string) => this.#queue.filter((waiter) => waiter.owner === owner).length;
    const most = Math.max(...this.#queue.map(({ owner }) => countOf(owner)));
    const refused = this.#queue.findLast(({ owner }) => countOf(owner) === most);
    if (refused) this.#take(refused).refuse(new PoolBusyFault(this.#queue.length));
  }
}

function closedFault(): EngineFault {
  return new EngineFault(0, 'the engines are closed');
}
