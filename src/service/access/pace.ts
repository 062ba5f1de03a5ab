/**
 * A rate limit per caller: a sustained rate and a burst. It is the generic cell rate algorithm (ITU-T I.371): each
 * caller has a due time for its next request. A request that is early by more than the tolerance is refused and costs
 * nothing. Memory is bounded by the number of recent callers.
 */
import type { Clock } from '../../core/clock.ts';

export interface PaceOptions {
  /** Sustained rate. */
  readonly requestsPerSecond: number;
  /** Requests that an idle caller may send at once; at least 1. */
  readonly burst: number;
}

/**
 * Share of the interval by which a request may be early, so that jitter does not fail a caller who sends every second.
 */
const TOLERANCE = 0.1;

/** The clock counts whole milliseconds: two requests in the same millisecond have no order. */
const CLOCK_STEP_MS = 1;

export interface Pace {
  /** Counts a caller's request. @returns whole seconds to wait (1 or more) if it is too early, else 0 */
  admit(id: string): number | Promise<number>;
}

/** Milliseconds between requests, and how many of them a request may be early. */
export function computePace({ requestsPerSecond, burst }: PaceOptions): {
  readonly intervalMs: number;
  readonly toleranceMs: number;
} {
  const intervalMs = 1000 / requestsPerSecond;
  return { intervalMs, toleranceMs: (burst - 1) * intervalMs + Math.max(intervalMs * TOLERANCE, CLOCK_STEP_MS) };
}

/** In the memory of this process. */
export class KeyPace implements Pace {
  readonly #clock: Clock;
  readonly #intervalMs: number;
  readonly #toleranceMs: number;
  /** Ordered by last admission, oldest first. */
  readonly #dueMs = new Map<string, number>();

  constructor(clock: Clock, options: PaceOptions) {
    this.#clock = clock;
    const { intervalMs, toleranceMs } = computePace(options);
    this.#intervalMs = intervalMs;
    this.#toleranceMs = toleranceMs;
  }

  admit(id: string): number {
    const now = this.#clock.now();
    this.#forget(now);
    const found = this.#dueMs.get(id);
    const due = found !== undefined && this.#isAhead(found, now) ? found : now;
    const waitMs = due - this.#toleranceMs - now;
    if (waitMs > 0) return Math.max(1, Math.ceil(waitMs / 1000));
    this.#dueMs.delete(id); // Moves the caller to the end of the map.
    this.#dueMs.set(id, due + this.#intervalMs);
    return 0;
  }

  /** Number of remembered callers. */
  get size(): number {
    return this.#dueMs.size;
  }

  /**
   * Drops the oldest callers, up to the first whose due time still matters; at most the callers of the last burst stay.
   */
  #forget(now: number): void {
    for (const [id, due] of this.#dueMs) {
      if (this.#isAhead(due, now)) return;
      this.#dueMs.delete(id);
    }
  }

  /**
   * Whether a due time still matters. Beyond what admission can set, the clock was set back: no caller should wait for
   * that.
   */
  #isAhead(due: number, now: number): boolean {
    // One extra step, because fractions of milliseconds do not add up exactly.
    return due > now && due <= now + this.#intervalMs + this.#toleranceMs + CLOCK_STEP_MS;
  }
}
