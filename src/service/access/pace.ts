/**
 * A rate limit: so many requests a second per caller, so many of them at once. The generic cell rate algorithm
 * (ITU-T I.371): a caller has a time at which the next request is due; early by more than the tolerance is refused, and
 * a refused request costs nothing. Memory is bounded by the callers of the last moments.
 */
import type { Clock } from '../../core/clock.ts';

interface PaceOptions {
  /** Sustained rate. */
  readonly requestsPerSecond: number;
  /** Requests that an idle caller may send at once: 1 or more. */
  readonly burst: number;
}

/** Share of the interval that a request may be early: a caller who sends each second is not punished for jitter. */
const TOLERANCE = 0.1;

/** The clock counts whole milliseconds: two requests of one millisecond have no order. */
const CLOCK_STEP_MS = 1;

export class KeyPace {
  readonly #clock: Clock;
  readonly #intervalMs: number;
  readonly #toleranceMs: number;
  /** In the order of the last admission. */
  readonly #dueMs = new Map<string, number>();

  constructor(clock: Clock, options: PaceOptions) {
    this.#clock = clock;
    this.#intervalMs = 1000 / options.requestsPerSecond;
    this.#toleranceMs = (options.burst - 1) * this.#intervalMs + Math.max(this.#intervalMs * TOLERANCE, CLOCK_STEP_MS);
  }

  /** Counts a request of a caller. @returns whole seconds to wait (1 or more) when it comes too early, else 0 */
  admit(id: string): number {
    const now = this.#clock.now();
    this.#forget(now);
    const found = this.#dueMs.get(id);
    const due = found !== undefined && this.#isAhead(found, now) ? found : now;
    const waitMs = due - this.#toleranceMs - now;
    if (waitMs > 0) return Math.max(1, Math.ceil(waitMs / 1000));
    this.#dueMs.delete(id); // So that it becomes the last one.
    this.#dueMs.set(id, due + this.#intervalMs);
    return 0;
  }

  /** Callers that are remembered. */
  get size(): number {
    return this.#dueMs.size;
  }

  /** Drops the oldest callers, up to the first whose past still counts: at most those of the last burst are left. */
  #forget(now: number): void {
    for (const [id, due] of this.#dueMs) {
      if (this.#isAhead(due, now)) return;
      this.#dueMs.delete(id);
    }
  }

  /** Further ahead than admission leads to only when the clock was set back, for which no caller should wait. */
  #isAhead(due: number, now: number): boolean {
    // A step more, as fractions of milliseconds do not add up exactly.
    return due > now && due <= now + this.#intervalMs + this.#toleranceMs + CLOCK_STEP_MS;
  }
}
