/** Clocks that a test moves: one that jumps to the end of each sleep, and one on which several sleepers meet in order. */
import type { Clock } from '../../src/core/clock.ts';

export const FAKE_START = Date.parse('2026-11-20T15:00:00Z');

/**
 * For one sleeper: `slept` is what was asked.
 * @param backgroundMs sleeps of these lengths are of what goes on beside it: they end when time has come to their end
 */
export function createFakeClock(
  ...backgroundMs: readonly number[]
): Clock & { slept: number[]; advance(ms: number): void } {
  let now = FAKE_START;
  const slept: number[] = [];
  const waiting = new Set<{ readonly dueMs: number; wake(): void }>();
  const advance = (ms: number) => {
    now += ms;
    for (const sleeper of [...waiting]) if (sleeper.dueMs <= now) sleeper.wake();
  };
  return {
    slept,
    now: () => now,
    advance,
    sleep: async (ms, signal) => {
      signal?.throwIfAborted();
      if (!backgroundMs.includes(ms)) {
        slept.push(ms);
        advance(ms);
        return;
      }
      await new Promise<void>((resolve, reject) => {
        const stop = () => {
          waiting.delete(sleeper);
          reject(signal?.reason as Error);
        };
        const sleeper = {
          dueMs: now + ms,
          wake() {
            waiting.delete(sleeper);
            signal?.removeEventListener('abort', stop);
            resolve();
          },
        };
        waiting.add(sleeper);
        signal?.addEventListener('abort', stop, { once: true });
      });
    },
  };
}

/** Virtual time: it goes on to the next sleeper's end when nothing else is left to do. */
export function createVirtualClock(): Clock & { set(ms: number): void; run<T>(action: Promise<T>): Promise<T> } {
  let now = FAKE_START;
  /** What a sleeper waits for is a duration: setting the clock does not change it. */
  let elapsed = 0;
  const sleepers = new Set<{ readonly due: number; wake(): void }>();
  return {
    now: () => now,
    set: (ms) => {
      now = ms;
    },
    sleep: (ms, signal) =>
      new Promise((resolve, reject) => {
        const stop = () => {
          sleepers.delete(sleeper);
          reject(signal?.reason as Error);
        };
        const sleeper = {
          due: elapsed + ms,
          wake() {
            sleepers.delete(sleeper);
            signal?.removeEventListener('abort', stop);
            resolve();
          },
        };
        if (signal?.aborted) return stop();
        signal?.addEventListener('abort', stop, { once: true });
        sleepers.add(sleeper);
      }),
    async run(action) {
      let isOver = false;
      const over = () => {
        isOver = true;
      };
      action.then(over, over);
      for (;;) {
        // Everything that can go on without time goes on first.
        await new Promise((resolve) => setImmediate(resolve));
        if (isOver) return await action;
        const [next] = [...sleepers].sort((a, b) => a.due - b.due);
        if (!next) throw new Error('nobody sleeps and nothing goes on');
        now += next.due - elapsed;
        elapsed = next.due;
        next.wake();
      }
    },
  };
}
