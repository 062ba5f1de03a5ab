/**
 * Time as a dependency. Invariant: logic in `src` calls `Date.now()` and `setTimeout` only through a `Clock`, so that
 * tests can move time. It knows no time zones: `calendar/` does.
 */
import { setTimeout as delay } from 'node:timers/promises';

export interface Clock {
  /** Milliseconds since the Unix epoch. */
  now(): number;
  /** Resolves after `ms` milliseconds; rejects with the signal's reason when aborted. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** Milliseconds since an arbitrary moment, from a monotonic clock. If absent, `now` is monotonic. */
  elapsed?(): number;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  elapsed: () => performance.now(),
  sleep: async (ms, signal) => {
    await delay(Math.max(0, ms), undefined, { signal });
  },
};

/** A clock that shows `startMs` now and advances with `base`. */
export function shiftClock(base: Clock, startMs: number): Clock {
  const offsetMs = startMs - base.now();
  return { ...base, now: () => base.now() + offsetMs };
}

/** Milliseconds since an arbitrary moment: only differences mean anything. */
export function elapsedMs(clock: Clock): number {
  return clock.elapsed?.() ?? clock.now();
}
