import type { Clock } from '../../src/core/clock.ts';
import type { PaceCell } from '../../src/source/pace/reservations.ts';
import { paceOf, UNUSED } from '../../src/source/pace/reservations.ts';
import { createCellPacer, MAX_RETRY_AFTER_MS, type Pacer } from '../../src/source/pacer.ts';

/** A budget of this process alone, without bursts. */
export function createPacer(clock: Clock, { requestsPerSecond }: { readonly requestsPerSecond: number }): Pacer {
  const pace = paceOf({ requestsPerSecond, burst: 1 }, MAX_RETRY_AFTER_MS);
  return createCellPacer(clock, pace, createMemoryCell(clock));
}

/** A cell in memory. */
export function createMemoryCell(clock: Clock): PaceCell {
  let current = UNUSED;
  return {
    async update(change) {
      const { state, result } = change(current, clock.now());
      current = state;
      return result;
    },
    async close() {},
  };
}

/** Times between the neighbours of a list. */
export const gapsOf = (times: readonly number[]) => times.slice(1).map((time, i) => time - (times[i] ?? 0));
