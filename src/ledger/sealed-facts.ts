/**
 * Rows, revision and condition of each sealed date, in few requests: listings show the sealed dates and their
 * replaced revisions, and `condition.json` has the numbers. Invariant: a number comes from the document only if the
 * store shows no newer revision; otherwise from the date's manifest. A date whose object is missing is never reported
 * as available.
 */
import { inParallel } from '../core/side-by-side.ts';
import { isSealed, type SealedCondition } from '../plan/conditions.ts';
import type { AuditRecord } from '../state/date-records.ts';
import type { ConditionEntry } from './condition-file.ts';
import { listDoubts, sumNulls } from './doubts.ts';
import {
  dropKey,
  dropsPrefix,
  historyPrefix,
  manifestKey,
  parseDatasetKey,
  recordsPrefix,
  sealedPrefix,
} from './layout.ts';
import type { Ledger } from './ledger.ts';

export interface SealedFacts {
  readonly condition: SealedCondition;
  readonly rows: number | null;
  readonly revision: number | null;
  /** What is wrong with the object in the store, in words; absent when no damage is known. */
  readonly damage?: string | undefined;
  readonly degraded_reason?: string | undefined;
  /** Failed checks, in words. */
  readonly doubts?: readonly string[] | undefined;
  /** Nulls by column that should not be there. */
  readonly nulls?: Readonly<Record<string, number>> | undefined;
  /** The last comparison with the source, as far as `condition.json` has it. */
  readonly audit?: AuditRecord | undefined;
  /** Name of the drop's file; absent: `<dataset>.parquet`. */
  readonly filename?: string | undefined;
}

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
): Promise<ReadonlyMap<string, SealedFacts>> {
  const { store, dataset } = ledger;
  const { sealed, replaced, objects } = await listRevisions(ledger, since);
  const facts = new Map<string, SealedFacts>();
  for (const entry of entries.values()) {
    const known = since !== undefined && entry.date < since ? recall(entry) : undefined;
    if (known) facts.set(entry.date, known);
  }
  const unknown: string[] = [];
  for (const date of sealed) {
    const known = factsOf(entries.get(date), replaced.get(date) ?? 0);
    if (known) facts.set(date, known);
    else unknown.push(date);
  }
  await inParallel(unknown, READ_AT_ONCE, async (date) => {
    facts.set(date, await readManifestFacts(ledger, date));
  });
  for (const [date, { rows, revision, filename }] of facts) {
    if (since !== undefined && date < since) continue;
    const key = dropKey(dataset, date, filename);
    if (objects.has(key)) continue;
    facts.set(date, { condition: 'degraded', rows, revision, damage: `${store.url}/${key} is missing` });
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

/** `undefined` when the document has the date as unsealed, or has a revision that was replaced since. */
function factsOf(entry: ConditionEntry | undefined, replaced: number): SealedFacts | undefined {
  return entry !== undefined && entry.revision !== null && entry.revision > replaced ? recall(entry) : undefined;
}

/** `undefined` for a date that the document has as unsealed. */
function recall(entry: ConditionEntry): SealedFacts | undefined {
  const { condition, rows, revision, damage, degraded_reason, doubts, nulls, filename, audit } = entry;
  if (!isSealed(condition)) return undefined;
  return { condition, rows, revision, damage, degraded_reason, doubts, nulls, filename, audit };
}

/** A damaged manifest makes its date degraded. */
async function readManifestFacts(ledger: Ledger, date: string): Promise<SealedFacts> {
  let damage: string | undefined;
  const manifest = await ledger.validManifest(date, ({ message }) => {
    damage = message;
  });
  return manifest === undefined
    ? { condition: 'degraded', rows: null, revision: null, damage }
    : { ...manifest, doubts: listDoubts(manifest), nulls: sumNulls(manifest), filename: manifest.files[0].filename };
}
