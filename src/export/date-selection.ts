/**
 * Which dates a run exports: everything unsealed, or what a backfill names. Pure; planners call it for each date.
 */
import { type DateRange, isInRange } from '../calendar/wall-clock.ts';
import type { Unavailable } from '../state/job-state.ts';

/**
 * - `unsealed`: dates without a drop, and sealed ones whose object is damaged
 * - `missing`: those of `unsealed` that have not failed
 * - `failed`: dates whose last export failed, and degraded drops
 * - `all`: every date; those that are sealed are exported again, and restated where they differ
 * - `none`: no date; only conditions are updated
 */
export type BackfillMode = 'unsealed' | 'missing' | 'failed' | 'all' | 'none';

export interface DateSelection {
  /** Both included; `undefined`: every date inside the lookback. */
  readonly range: DateRange | undefined;
  isWanted(date: string): boolean;
  /** The newest date of the dataset that is sealed: sessions before it are over. */
  readonly newestSealed: string | undefined;
  /** End of the last run. A clock before this instant was set back. */
  readonly notBeforeMs: number;
  /** Dates that the source answered with nothing and that need no new request; none where dates were named. */
  readonly unavailable: Unavailable;
}

export interface SelectionFacts {
  /** Dates that have a manifest. */
  readonly sealed: ReadonlySet<string>;
  /** Of those, the ones known not to be complete. */
  readonly degraded: ReadonlySet<string>;
  readonly failed: ReadonlySet<string>;
  /** Sealed dates that are exported again: their object is damaged, or their next revision could not be finished. */
  readonly again: ReadonlySet<string>;
  readonly unavailable: Unavailable;
}

/** @param notBeforeMs when the job's last run ended */
export function selectDates(
  mode: BackfillMode,
  facts: SelectionFacts,
  range?: DateRange,
  notBeforeMs = Number.NEGATIVE_INFINITY,
): DateSelection {
  const { sealed, degraded, failed, again, unavailable } = facts;
  const isWanted = (date: string): boolean => {
    switch (mode) {
      case 'unsealed':
        return !sealed.has(date) || again.has(date);
      case 'missing':
        return again.has(date) || (!sealed.has(date) && !failed.has(date));
      case 'failed':
        return degraded.has(date) || again.has(date) || (failed.has(date) && !sealed.has(date));
      case 'all':
        return true;
      case 'none':
        return false;
      default:
        return mode satisfies never;
    }
  };
  // Named dates and `all` are always asked again. So is a job that never got any row: its query may be wrong.
  const isRoutine = range === undefined && mode !== 'all' && sealed.size > 0;
  return {
    range,
    isWanted: (date) => isInRange(date, range) && isWanted(date),
    newestSealed: [...sealed].sort().at(-1),
    notBeforeMs,
    unavailable: isRoutine ? unavailable : {},
  };
}
