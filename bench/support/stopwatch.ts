/** Sums milliseconds by step. */
import type { Steps } from './way.ts';

export interface Stopwatch {
  /** Runs the action and adds its time to the step. */
  time<T>(step: string, action: () => T | Promise<T>): Promise<T>;
  steps(): Steps;
}

export function createStopwatch(): Stopwatch {
  const totals = new Map<string, number>();
  return {
    async time(step, action) {
      const started = performance.now();
      try {
        return await action();
      } finally {
        totals.set(step, (totals.get(step) ?? 0) + performance.now() - started);
      }
    },
    steps: () => Object.fromEntries(totals),
  };
}
