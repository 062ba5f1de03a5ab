/**
 * Rows, revision and condition of each sealed date, in few requests: listings show the sealed dates and their
 * replaced revisions, and `condition.json` has the numbers. Invariant: a number comes from the document only if the
 * store shows no newer revision; otherwise from the date's manifest. A date whose object is missing is never reported
 * as available.
 *
 * Also damage: missing or resized files of a sealed date, by a listing, and manifests that were altered or are of another
 * drop. A bucket's lifecycle rule, a person, or a store that acknowledged a write it did not keep may have caused it. A date
 * that another worker is just replacing is never reported. `audit.ts` compares the hashes of files.
 */
import { inParallel } from '../core/side-by-side.ts';
import {
  type ConditionEntry,
  describeSealed,
  describeUnreadable,
  isSealedEntry,
  type KnownSizes,
  type SealedEntry,
  sizesOf,
} from './condition-file.ts';
import {
  dropFilename,
  dropsPrefix,
  fileKey,
  historyPrefix,
  MANIFEST_FILENAME,
  manifestKey,
  parseDatasetKey,
  recordsPrefix,
  sealedPrefix,
} from './layout.ts';
import type { Ledger, SealedDate } from './ledger.ts';
import type { Manifest, ManifestFile } from './manifest.ts';

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

export interface Damage {
  /** What is wrong, in words. */
  readonly reason: string;
  /** Names of the files that are missing, or whose size differs from the manifest; or of the manifest itself. */
  readonly filenames: readonly string[];
}

/**
 * What is wrong with a date's files; `undefined` when nothing is.
 * @param expected sizes from an earlier reading of the manifest: as long as the listing shows them, nothing is asked.
 *   Absent: the manifest is read
 * @throws StoreFault
 */
export async function findDamage(
  ledger: Ledger,
  found: SealedDate,
  expected?: KnownSizes,
): Promise<Damage | undefined> {
  const { store, dataset } = ledger;
  if (expected !== undefined && isAsExpected(dataset, found, expected)) return undefined;
  // Both the listing and the expected sizes may be outdated by now, so ask for everything again.
  let invalid: Damage | undefined;
  const manifest = await ledger.validManifest(found.date, ({ message }) => {
    invalid = { reason: message, filenames: [MANIFEST_FILENAME] };
  });
  if (manifest === undefined || isAsExpected(dataset, found, sizesOf(manifest))) return invalid;
  const wrong = await findWrong(ledger, manifest);
  if (wrong.length === 0) return undefined;
  const next = await ledger.successor(manifest);
  if (next !== undefined && wrong.every((file) => isBeingReplaced(file, next))) return undefined;
  if ((await ledger.validManifest(found.date))?.revision !== manifest.revision) return undefined;
  const reasons = wrong.map(({ key, file, sizeBytes }) =>
    sizeBytes === undefined
      ? `${store.url}/${key} is missing`
      : `${store.url}/${key} has ${sizeBytes} bytes, its manifest says ${file.size}`,
  );
  return { reason: reasons.join('; '), filenames: wrong.map(({ file }) => file.filename) };
}

/** Whether the listing of a date matches the known sizes. */
export function isAsExpected(dataset: string, { drops, beside }: SealedDate, expected: KnownSizes): boolean {
  if (drops.get(expected.filename ?? dropFilename(dataset)) !== expected.size) return false;
  return Object.entries(expected.beside ?? {}).every(([name, size]) => beside.get(name) === size);
}

interface WrongFile {
  readonly key: string;
  readonly file: ManifestFile;
  /** Actual size; `undefined` when the file is missing. */
  readonly sizeBytes: number | undefined;
}

/** Files of a manifest that are missing or have another size. Costs one request a file. */
async function findWrong({ store, dataset }: Ledger, { date, files }: Manifest): Promise<readonly WrongFile[]> {
  const wrong: WrongFile[] = [];
  for (const file of files) {
    const key = fileKey(dataset, date, file.filename);
    const info = await store.head(key);
    if (info?.sizeBytes !== file.size) wrong.push({ key, file, sizeBytes: info?.sizeBytes });
  }
  return wrong;
}

/** The next revision's file replaced it, or it was removed because the next revision has no file of that name. */
function isBeingReplaced({ file: { filename }, sizeBytes }: WrongFile, next: Manifest): boolean {
  return next.files.find((one) => one.filename === filename)?.size === sizeBytes;
}
