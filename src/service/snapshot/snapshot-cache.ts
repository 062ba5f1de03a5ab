/**
 * Computed values that several calls share. Invariants: a value is computed once, however many calls wait for it; a
 * caller who leaves does not cancel it for the others; when the last caller leaves, the computation is canceled; a
 * failure is not kept. The cache is bounded by weight and evicts the least recently used values first.
 */
import { untilAborted } from '../../core/side-by-side.ts';

interface CacheOptions<Value> {
  /** Maximum total weight of the kept values. A heavier value is computed and returned, but not kept. */
  readonly maxWeight: number;
  readonly weigh: (value: Value) => number;
  /** Called on every lookup: `hit` when the value was kept or already being computed. */
  readonly onLookup?: ((result: 'hit' | 'miss') => void) | undefined;
}

interface Pending<Value> {
  readonly result: Promise<Value>;
  readonly controller: AbortController;
  waiters: number;
}

export class SnapshotCache<Value extends object> {
  readonly #options: CacheOptions<Value>;
  /** Least recently used first. */
  readonly #kept = new Map<string, Value>();
  readonly #pending = new Map<string, Pending<Value>>();
  #weight = 0;

  constructor(options: CacheOptions<Value>) {
    this.#options = options;
  }

  /**
   * Returns the value of `key`, computing it when it is missing.
   * @param signal stops the waiting of this caller only
   * @throws what `compute` throws, or the signal's reason
   */
  async get(key: string, signal: AbortSignal, compute: (signal: AbortSignal) => Promise<Value>): Promise<Value> {
    signal.throwIfAborted();
    const kept = this.#kept.get(key);
    this.#options.onLookup?.(kept || this.#pending.has(key) ? 'hit' : 'miss');
    if (kept) {
      this.#kept.delete(key);
      this.#kept.set(key, kept);
      return kept;
    }
    const pending = this.#pending.get(key) ?? this.#start(key, compute);
    pending.waiters += 1;
    try {
      return await untilAborted(pending.result, signal);
    } finally {
      pending.waiters -= 1;
      if (pending.waiters === 0 && this.#pending.get(key) === pending) {
        this.#pending.delete(key);
        pending.controller.abort(signal.reason);
      }
    }
  }

  #start(key: string, compute: (signal: AbortSignal) => Promise<Value>): Pending<Value> {
    const controller = new AbortController();
    const pending: Pending<Value> = { result: compute(controller.signal), controller, waiters: 0 };
    this.#pending.set(key, pending);
    const settle = (value: Value | undefined) => {
      if (this.#pending.get(key) !== pending) return;
      this.#pending.delete(key);
      if (value) this.#keep(key, value);
    };
    // The waiting callers get the failure; this handler covers the case that none is left.
    pending.result.then(settle, () => settle(undefined));
    return pending;
  }

  #keep(key: string, value: Value): void {
    const weight = this.#options.weigh(value);
    if (weight > this.#options.maxWeight) return;
    this.#kept.set(key, value);
    this.#weight += weight;
    for (const [oldest, dropped] of this.#kept) {
      if (this.#weight <= this.#options.maxWeight) break;
      this.#kept.delete(oldest);
      this.#weight -= this.#options.weigh(dropped);
    }
  }
}
