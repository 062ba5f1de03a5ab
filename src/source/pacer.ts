/**
 * The request budget. Invariant: request starts are at least `1 / rate` seconds apart, whatever the answers take, and no
 * unused second is saved up for a burst. A 429 lowers the rate for a while; it recovers slowly. Time is a `Clock`.
 */
import type { Clock } from '../core/clock.ts';

export interface PacerOptions {
  /** Requests a second that the provider allows this key. */
  readonly requestsPerSecond: number;
}

/** A 429 halves the rate, at most this many times over: below 1/8 the provider is down rather than busy. */
const MAX_SLOWDOWN = 8;
/** A server that asks for more patience than this is down: the caller's retries end sooner that way. */
export const MAX_RETRY_AFTER_MS = 15 * 60_000;
/** Every this many starts without a 429, a lowered rate doubles again, up to the allowed one. */
const STARTS_TO_RECOVER = 20;
/** Requests leave this much later than the budget allows: network jitter must not make two of them arrive too close. */
const JITTER_GUARD = 1.01;

export interface Pacer {
  /** Resolves when the next request may start. Callers are served in the order they came. */
  acquire(signal?: AbortSignal): Promise<void>;
  /** After a 429: no start before `retryAfterMs` from now, and a lower rate. */
  slowDown(retryAfterMs: number): void;
  /** Milliseconds between two starts at present. */
  intervalMs(): number;
}

export function createPacer(clock: Clock, options: PacerOptions): Pacer {
  const allowedMs = (1000 / options.requestsPerSecond) * JITTER_GUARD;
  let slowdown = 1;
  let startsSince429 = 0;
  let nextStart = 0;
  let queue: Promise<void> = Promise.resolve();

  const takeTurn = async (signal?: AbortSignal) => {
    // The budget may move (429) while this caller sleeps, so it looks again.
    for (let wait = nextStart - clock.now(); wait > 0; wait = nextStart - clock.now()) await clock.sleep(wait, signal);
    signal?.throwIfAborted();
    nextStart = Math.max(clock.now(), nextStart) + allowedMs * slowdown;
    startsSince429 += 1;
    if (slowdown > 1 && startsSince429 >= STARTS_TO_RECOVER) {
      slowdown /= 2;
      startsSince429 = 0;
    }
  };

  return {
    acquire(signal) {
      const turn = queue.then(() => takeTurn(signal));
      queue = turn.catch(() => undefined);
      return turn;
    },
    slowDown(retryAfterMs) {
      nextStart = Math.max(nextStart, clock.now() + Math.min(retryAfterMs, MAX_RETRY_AFTER_MS));
      // Several requests in flight may all meet the same 429: they count once.
      if (startsSince429 > 0 || slowdown === 1) slowdown = Math.min(MAX_SLOWDOWN, slowdown * 2);
      startsSince429 = 0;
    },
    intervalMs: () => allowedMs * slowdown,
  };
}
