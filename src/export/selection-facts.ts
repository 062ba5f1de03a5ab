/** Inputs of the date selection: the store's listing, and failures of earlier runs. */

import { LOOKBACK_DAYS } from '../api-contract/published-limits.ts';
import { addDays } from '../calendar/wall-clock.ts';
import { inParallel } from '../core/side-by-side.ts';
import { type Damage, findDamage } from '../ledger/damage.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { JobState } from '../state/job-state.ts';
import type { SelectionFacts } from './date-selection.ts';

/** Manifests read at the same time. */
const READ_AT_ONCE = 8;

export interface StoreFacts extends SelectionFacts {
  /** Sealed dates with damaged or missing files. */
  readonly damaged: ReadonlyMap<string, Damage>;
}

/** Inputs of the date selection. @param setAside dates with a revision that was decided but cannot be published */
export async function readSelectionFacts(
  ledger: Ledger,
  state: Pick<JobState, 'failures' | 'unavailable'>,
  setAside: readonly string[] = [],
): Promise<StoreFacts> {
  const { entries } = await ledger.conditions();
  const found = await ledger.list();
  const sealed = new Set(found.map(({ date }) => date));
  const newest = found.at(-1)?.date;
  // Manifests of dates that the source may still have are read, so that a damaged one is replaced in time.
  const recent = newest && addDays(newest, -LOOKBACK_DAYS);
  const damages = await inParallel(found, READ_AT_ONCE, async (one) => {
    const entry = entries.get(one.date);
    const isKnown = entry !== undefined && entry.revision !== null && entry.damage === undefined;
    const expected = isKnown && recent !== undefined && one.date < recent ? entry : undefined;
    return await findDamage(ledger, one, expected);
  });
  const damaged = new Map<string, Damage>();
  for (const [index, damage] of damages.entries())
    if (damage !== undefined) damaged.set(found[index]?.date ?? '', damage);
  return {
    sealed,
    degraded: new Set([...sealed].filter((date) => entries.get(date)?.condition === 'degraded')),
    failed: new Set(Object.keys((await state.failures.read()) ?? {})),
    again: new Set([...damaged.keys(), ...setAside.filter((date) => sealed.has(date))]),
    damaged,
    unavailable: (await state.unavailable.read()) ?? {},
  };
}
