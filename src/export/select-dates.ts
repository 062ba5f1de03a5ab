/**
 * Which dates a run exports: everything unsealed, or what a backfill names, by the store's listing and the records of
 * earlier runs.
 */
import { LOOKBACK_DAYS } from '../api-contract/published-limits.ts';
import { addDays, type DateRange, isInRange } from '../calendar/wall-clock.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { readSealed } from '../ledger/update-conditions.ts';
import type { JobState, Unavailable } from '../state/job-state.ts';
import type { RunHistory } from '../state/run-history.ts';

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
  /** Dates that have a manifest. */
  readonly sealed: ReadonlySet<string>;
  /** End of the last run. A clock before this instant was set back. */
  readonly notBeforeMs: number;
  /** Dates that the source answered with nothing and that need no new request; none where dates were named. */
  readonly unavailable: Unavailable;
}

export interface StoredDates {
  /** Dates that have a manifest. */
  readonly sealed: ReadonlySet<string>;
  /** Of those, the ones known not to be complete. */
  readonly degraded: ReadonlySet<string>;
  /** Of those, the ones whose later segments are added by a later run, with until when they have their rows. */
  readonly inPart: readonly { readonly date: string; readonly through: string }[];
  readonly failed: ReadonlySet<string>;
  /** Sealed dates that are exported again: their object is damaged, or their next revision could not be finished. */
  readonly again: ReadonlySet<string>;
  readonly unavailable: Unavailable;
  /** What is wrong with the files of sealed dates, in words. */
  readonly damaged: ReadonlyMap<string, string>;
}

export async function readStoredDates(
  ledger: Ledger,
  state: Pick<JobState, 'unavailable'>,
  history: RunHistory,
): Promise<StoredDates> {
  const { entries } = await ledger.conditions();
  const { results } = await history.recall();
  const newest = [...entries.values()].findLast(({ revision }) => revision !== null)?.date;
  // Manifests of dates that the source may still have are read, so that a damaged one is replaced in time.
  const sealed = await readSealed(ledger, entries, { changeable: newest && addDays(newest, -LOOKBACK_DAYS) });
  const damaged = new Map([...sealed].flatMap(([date, { damage }]) => (damage === undefined ? [] : [[date, damage]])));
  return {
    sealed: new Set(sealed.keys()),
    inPart: [...sealed.keys()].flatMap((date) => {
      const through = entries.get(date)?.through;
      return through === undefined ? [] : [{ date, through }];
    }),
    degraded: new Set([...sealed.keys()].filter((date) => entries.get(date)?.condition === 'degraded')),
    failed: new Set([...results.values()].flatMap(({ date, error }) => (error ? [date] : []))),
    again: new Set(damaged.keys()),
    damaged,
    unavailable: (await state.unavailable.read()) ?? {},
  };
}

/** @param notBeforeMs when the job's last run ended */
export function selectDates(
  mode: BackfillMode,
  { sealed, degraded, failed, again, unavailable }: Omit<StoredDates, 'damaged' | 'inPart'>,
  range?: DateRange,
  notBeforeMs = Number.NEGATIVE_INFINITY,
): DateSelection {
  const isOfMode: Readonly<Record<BackfillMode, (date: string) => boolean>> = {
    unsealed: (date) => !sealed.has(date) || again.has(date),
    missing: (date) => again.has(date) || (!sealed.has(date) && !failed.has(date)),
    failed: (date) => degraded.has(date) || again.has(date) || (failed.has(date) && !sealed.has(date)),
    all: () => true,
    none: () => false,
  };
  // Named dates and `all` are always asked again. So is a job that never got any row: its query may be wrong.
  const isRoutine = range === undefined && mode !== 'all' && sealed.size > 0;
  return {
    range,
    isWanted: (date) => isInRange(date, range) && isOfMode[mode](date),
    sealed,
    notBeforeMs,
    unavailable: isRoutine ? unavailable : {},
  };
}
