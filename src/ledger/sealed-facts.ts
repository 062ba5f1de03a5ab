/**
 * The sealed dates of a dataset, in few requests: a listing shows which there are, and `condition.json` has what their
 * manifests say. Invariant: what the document says of a date counts only while the listing shows the same files;
 * otherwise its manifest is read. A date whose file is missing is never reported as available.
 *
 * Also damage: missing or resized files of a sealed date, and manifests that were altered or are of another
 * drop. A bucket's lifecycle rule, a person, or a store that acknowledged a write it did not keep may have caused it. A date
 * that another worker is just replacing is never reported. `audit.ts` compares the hashes of files.
 */
import type { Fault } from '../core/errors.ts';
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
import { dropFilename, fileKey, MANIFEST_FILENAME } from './layout.ts';
import type { Ledger, SealedDate } from './ledger.ts';
import type { Manifest, ManifestFile } from './manifest.ts';

/** Manifests read in parallel, so that a store without `condition.json` does not take minutes. */
const READ_AT_ONCE = 8;

/**
 * By date, ascending; a damaged manifest makes its date degraded.
 * @param entries of `condition.json`
 * @param since earlier dates are as `condition.json` has them: nothing of theirs is listed
 * @param changeable the manifests from this date on are read; absent: only those that the listing or the document lacks
 * @param note is called for a damaged manifest
 * @throws StoreFault
 */
export async function readSealed(
  ledger: Ledger,
  entries: ReadonlyMap<string, ConditionEntry>,
  { since = '', changeable }: { readonly since?: string | undefined; readonly changeable?: string | undefined } = {},
  note: (date: string, fault: Fault) => void = () => {},
): Promise<ReadonlyMap<string, SealedEntry>> {
  const sealed = new Map<string, SealedEntry>();
  for (const entry of entries.values()) if (entry.date < since && isSealedEntry(entry)) sealed.set(entry.date, entry);
  await inParallel(await ledger.list({ since }), READ_AT_ONCE, async (found) => {
    const { date } = found;
    const known = changeable !== undefined && date >= changeable ? undefined : entries.get(date);
    // Damage that is on record may have been repaired, which a run finds out.
    const isTrusted = known?.damage === undefined || changeable === undefined;
    if (known && isSealedEntry(known) && isTrusted && isAsExpected(ledger.dataset, found, known)) {
      sealed.set(date, known);
      return;
    }
    let damage: string | undefined;
    const manifest = await ledger.validManifest(date, (fault) => {
      damage = fault.message;
      note(date, fault);
    });
    if (manifest !== undefined) damage = (await findDamage(ledger, found, sizesOf(manifest)))?.reason;
    sealed.set(date, manifest ? describeSealed(manifest, damage) : describeUnreadable(date, damage));
  });
  return new Map([...sealed].sort(([a], [b]) => (a < b ? -1 : 1)));
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
function isAsExpected(dataset: string, { drops, beside }: SealedDate, expected: KnownSizes): boolean {
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
