/**
 * The soft rate limit: so many requests a second per key, both entry points together. The generic cell rate algorithm
 * (ITU-T I.371): a key has a time at which its next request is due; early by more than the tolerance is refused, and a
 * refused request costs nothing.
 */
import type { Clock } from '../core/clock.ts';

/** Share of the interval that a request may be early: a caller who sends each second is not punished for jitter. */
const TOLERANCE = 0.1;

/** The clock counts whole milliseconds: two requests of one millisecond have no order. */
const CLOCK_STEP_MS = 1;

export class Pace {
  readonly #clock: Clock;
  readonly #intervalMs: number;
  readonly #toleranceMs: number;
  readonly #dueMs = new Map<number, number>();

  constructor(clock: Clock, requestsPerSecond: number) {
    this.#clock = clock;
    this.#intervalMs = 1000 / requestsPerSecond;
    this.#toleranceMs = Math.max(this.#intervalMs * TOLERANCE, CLOCK_STEP_MS);
  }

  /** Counts a request of `key`. @returns whole seconds to wait (1 or more) when it comes too early, else 0 */
  admit(key: number): number {
    const now = this.#clock.now();
    const due = this.#readDue(key, now);
    const waitMs = due - this.#toleranceMs - now;
    if (waitMs > 0) return Math.max(1, Math.ceil(waitMs / 1000));
    this.#dueMs.set(key, Math.max(now, due) + this.#intervalMs);
    return 0;
  }

  #readDue(key: number, now: number): number {
    const due = this.#dueMs.get(key) ?? now;
    // Further ahead than one interval only when the clock was set back, for which no caller should wait.
    return due > now + this.#intervalMs + this.#toleranceMs ? now : due;
  }
}
