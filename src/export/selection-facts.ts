/** What the dates of a run are selected from: the store's listing, and what earlier runs could not get. */
import type { Job } from '../job/job.ts';
import { readConditionDocument } from '../ledger/condition-file.ts';
import { type Damage, findDamage } from '../ledger/damage.ts';
import { listSealed } from '../ledger/sealed-dates.ts';
import type { JobState } from '../state/job-state.ts';
import type { Store } from '../store/store.ts';
import type { SelectionFacts } from './date-selection.ts';

export interface StoreFacts extends SelectionFacts {
  /** Sealed dates whose files are not what was sealed. */
  readonly damaged: ReadonlyMap<string, Damage>;
}

/** What the dates of a run are selected from. @param setAside dates of which a revision was decided and cannot be published */
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
