/**
 * Finds missing or resized files of a sealed date, using a listing, and manifests that were altered or are of another
 * drop. A bucket's lifecycle rule, a person, or a store that acknowledged a write it did not keep may have caused it.
 * Invariant: it never reports a date that another worker is just replacing. `audit.ts` compares the hashes of files, not
 * this module.
 */
import { type KnownSizes, sizesOf } from './condition-file.ts';
import { dropFilename, fileKey, MANIFEST_FILENAME } from './layout.ts';
import type { Ledger, SealedDate } from './ledger.ts';
import type { Manifest, ManifestFile } from './manifest.ts';

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
