/**
 * Keeps accepted gaps in the store, one object a date. These objects are the record; `condition.json` repeats them for
 * readers. Invariant: a night without gaps costs no request.
 */
import { tryParseJson } from '../core/json-file.ts';
import type { Condition } from '../plan/conditions.ts';
import { type AcceptedGap, acceptedGapSchema, isAcceptable } from '../state/accepted-gap.ts';
import type { Store } from '../store/store.ts';
import { acceptedKey, acceptedPrefix, parseDatasetKey } from './layout.ts';

export async function writeAcceptedGap(store: Store, dataset: string, date: string, gap: AcceptedGap): Promise<void> {
  const bytes = Buffer.from(`${JSON.stringify(gap, undefined, 2)}\n`);
  await store.put(acceptedKey(dataset, date), { bytes }, { contentType: 'application/json' });
}

/**
 * The accepted gaps among these dates. Costs no request if no date has a condition that can be accepted. An invalid
 * record counts as none: the gap is then reported again.
 */
export async function readAcceptedGaps(
  store: Store,
  dataset: string,
  conditions: ReadonlyMap<string, Condition>,
): Promise<ReadonlyMap<string, AcceptedGap>> {
  const accepted = new Map<string, AcceptedGap>();
  if (![...conditions.values()].some(isAcceptable)) return accepted;
  for await (const { key } of store.list(acceptedPrefix(dataset))) {
    const place = parseDatasetKey(dataset, key);
    if (place?.kind !== 'accepted' || !isAcceptable(conditions.get(place.date))) continue;
    const bytes = await store.get(key);
    const gap = bytes && acceptedGapSchema.safeParse(tryParseJson(Buffer.from(bytes).toString('utf8'))).data;
    if (gap && gap.condition === conditions.get(place.date)) accepted.set(place.date, gap);
  }
  return accepted;
}
