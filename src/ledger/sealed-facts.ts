/**
 * Rows, revision and condition of each sealed date, in few requests: listings show the sealed dates and their
 * replaced revisions, and `condition.json` has the numbers. Invariant: a number comes from the document only if the
 * store shows no newer revision; otherwise from the date's manifest. A date whose object is missing is never reported
 * as available.
 */
import { inParallel } from '../core/side-by-side.ts';
import {
  type ConditionEntry,
  describeSealed,
  describeUnreadable,
  isSealedEntry,
  type SealedEntry,
} from './condition-file.ts';
import {
  dropFilename,
  dropsPrefix,
  fileKey,
  historyPrefix,
  manifestKey,
  parseDatasetKey,
  recordsPrefix,
  sealedPrefix,
} from './layout.ts';
import type { Ledger } from './ledger.ts';

/** Manifests read in parallel, so that a store without `condition.json` does not take minutes. */
const READ_AT_ONCE = 8;

/**
 * By date, ascending.
 * @param entries of `condition.json`
 * @param since earlier dates are as `condition.json` has them: nothing of theirs is listed
 * @throws StoreFault
 */
export async function readSealedFacts(
  ledger: Ledger,
  entries: ReadonlyMap<string, ConditionEntry>,
  since?: string,
): Promise<ReadonlyMap<string, SealedEntry>> {
  const { store, dataset } = ledger;
  const { sealed, replaced, objects } = await listRevisions(ledger, since);
  const facts = new Map<string, SealedEntry>();
  for (const entry of entries.values()) {
    if (since !== undefined && entry.date < since && isSealedEntry(entry)) facts.set(entry.date, entry);
  }
  const unknown: string[] = [];
  for (const date of sealed) {
    const entry = entries.get(date);
    // The document may have the date as unsealed, or a revision that was replaced since.
    if (entry && isSealedEntry(entry) && (entry.revision ?? 0) > (replaced.get(date) ?? 0)) facts.set(date, entry);
    else unknown.push(date);
  }
  await inParallel(unknown, READ_AT_ONCE, async (date) => {
    let damage: string | undefined;
    const manifest = await ledger.validManifest(date, ({ message }) => {
      damage = message;
    });
    facts.set(date, manifest ? describeSealed(manifest) : describeUnreadable(date, damage));
  });
  for (const [date, { rows, revision, filename }] of facts) {
    if (since !== undefined && date < since) continue;
    const key = fileKey(dataset, date, filename ?? dropFilename(dataset));
    if (objects.has(key)) continue;
    facts.set(date, { ...describeUnreadable(date, `${store.url}/${key} is missing`), rows, revision });
  }
  return new Map([...facts].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Dates with a manifest, the newest replaced revision of each, and the keys of all objects with rows. */
async function listRevisions({ store, dataset }: Ledger, since?: string) {
  const sealed: string[] = [];
  const replaced = new Map<string, number>();
  const objects = new Set<string>();
  const note = (key: string) => {
    const place = parseDatasetKey(dataset, key);
    if (place?.kind === 'history') {
      replaced.set(place.date, Math.max(place.revision, replaced.get(place.date) ?? 0));
    } else if (place?.kind === 'record' && key === manifestKey(dataset, place.date)) sealed.push(place.date);
  };
  if (since === undefined) for await (const { key } of store.list(recordsPrefix(dataset))) note(key);
  else {
    for await (const { key } of store.list(historyPrefix(dataset), historyPrefix(dataset, since))) note(key);
    for await (const { key } of store.list(sealedPrefix(dataset), recordsPrefix(dataset, since))) note(key);
  }
  // Listed after the manifests: a date that is sealed in between is not listed without its object.
  const after = since === undefined ? undefined : dropsPrefix(dataset, since);
  if (sealed.length > 0) for await (const { key } of store.list(dropsPrefix(dataset), after)) objects.add(key);
  return { sealed, replaced, objects };
}
