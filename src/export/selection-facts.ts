/** Inputs of the date selection: the store's listing, and failures of earlier runs. */
import type { Job } from '../job/job.ts';
import { readConditionDocument } from '../ledger/condition-file.ts';
import { type Damage, findDamage } from '../ledger/damage.ts';
import { listSealed } from '../ledger/sealed-dates.ts';
import type { JobState } from '../state/job-state.ts';
import type { Store } from '../store/store.ts';
import type { SelectionFacts } from './date-selection.ts';

export interface StoreFacts extends SelectionFacts {
  /** Sealed dates with damaged or missing files. */
  readonly damaged: ReadonlyMap<string, Damage>;
}

/** Inputs of the date selection. @param setAside dates with a revision that was decided but cannot be published */
export async function readSelectionFacts(
  store: Store,
  job: Job,
  state: Pick<JobState, 'failures' | 'unavailable'>,
  setAside: readonly string[] = [],
): Promise<StoreFacts> {
  const { dataset } = job.drop;
  const { entries } = await readConditionDocument(store, dataset);
  const found = await listSealed(store, dataset);
  const sealed = new Set(found.map(({ date }) => date));
  const damaged = new Map<string, Damage>();
  for (const one of found) {
    const damage = await findDamage(store, dataset, one, entries.get(one.date));
    if (damage !== undefined) damaged.set(one.date, damage);
  }
  return {
    sealed,
    degraded: new Set([...sealed].filter((date) => entries.get(date)?.condition === 'degraded')),
    failed: new Set(Object.keys((await state.failures.read()) ?? {})),
    again: new Set([...damaged.keys(), ...setAside.filter((date) => sealed.has(date))]),
    damaged,
    unavailable: (await state.unavailable.read()) ?? {},
  };
}
