/** A clock that a test moves: sleeps take no time and move it, but for those that wait until time has come to their end. */
import type { Clock } from '../../src/core/clock.ts';

export const FAKE_START = Date.parse('2026-11-20T15:00:00Z');

export interface FakeClock extends Clock {
  /** Sleeps that moved it. */
  readonly slept: number[];
  /** Time goes by: those that wait so long wake. */
  advance(ms: number): void;
  /** Shows another time. What sleepers wait for is a duration, which it does not change. */
  set(ms: number): void;
  /** Lets the action come to its end: when nothing else is left to do, time goes on to the next sleeper's end. */
  run<T>(action: Promise<T>): Promise<T>;
}

export interface FakeClockOptions {
  readonly startMs?: number;
  /** Lengths of the sleeps that wait: those of what goes on beside, or all where several sleepers meet. Default: none. */
  readonly waiting?: readonly number[] | 'all';
}

export function createFakeClock({ startMs = FAKE_START, waiting = [] }: FakeClockOptions = {}): FakeClock {
  let now = startMs;
  let elapsed = 0;
  const slept: number[] = [];
  const sleepers = new Set<{ readonly due: number; wake(): void }>();
  const listSleepers = () => [...sleepers].sort((a, b) => a.due - b.due);
  const advance = (ms: number) => {
    now += ms;
    elapsed += ms;
    for (const sleeper of listSleepers()) if (sleeper.due <= elapsed) sleeper.wake();
  };
  return {
    slept,
    now: () => now,
    advance,
    set: (ms) => {
      now = ms;
    },
    async sleep(ms, signal) {
      signal?.throwIfAborted();
      if (waiting !== 'all' && !waiting.includes(ms)) {
        slept.push(ms);
        return advance(ms);
      }
      await new Promise<void>((resolve, reject) => {
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
        sleepers.add(sleeper);
        signal?.addEventListener('abort', stop, { once: true });
      });
    },
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
        const [next] = listSleepers();
        if (!next) throw new Error('nobody sleeps and nothing goes on');
        advance(next.due - elapsed);
      }
    },
  };
}
