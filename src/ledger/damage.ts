/**
 * Finds missing or resized files of a sealed date, using a listing. A bucket's lifecycle rule, a person, or a store
 * that acknowledged a write it did not keep may have caused the loss. Invariant: it costs no request unless the listing
 * differs from the expected sizes, and it never reports a date that another worker is just replacing. `audit.ts`
 * compares hashes, not this module.
 */
import { isFault } from '../core/errors.ts';
import type { Store } from '../store/store.ts';
import type { KnownSizes } from './condition-file.ts';
import { dropFilename, fileKey } from './layout.ts';
import type { Manifest, ManifestFile } from './manifest.ts';
import { readSuccessor } from './restating.ts';
import { readManifest, type SealedDate } from './sealed-dates.ts';

export interface Damage {
  /** What is wrong, in words. */
  readonly reason: string;
  /** Names of the files that are missing, or whose size differs from the manifest. */
  readonly filenames: readonly string[];
}

/**
 * What is wrong with a date's files; `undefined` when nothing is, or when there is no valid manifest.
 * @param expected sizes from the last reading of the manifest; unknown sizes are not checked
 * @throws StoreFault
 */
export async function findDamage(
  store: Store,
  dataset: string,
  found: SealedDate,
  expected: KnownSizes | undefined,
): Promise<Damage | undefined> {
  if (isAsExpected(dataset, found, expected)) return undefined;
  // Both the listing and the expected sizes may be outdated by now, so ask for everything again.
  const manifest = await readValid(store, dataset, found.date);
  if (manifest === undefined) return undefined;
  const wrong = await findWrong(store, manifest);
  if (wrong.length === 0) return undefined;
  const next = await readSuccessor(store, manifest);
  if (next !== undefined && wrong.every((file) => isBeingReplaced(file, next))) return undefined;
  if ((await readValid(store, dataset, found.date))?.revision !== manifest.revision) return undefined;
  const reasons = wrong.map(({ key, file, sizeBytes }) =>
    sizeBytes === undefined
      ? `${store.url}/${key} is missing`
      : `${store.url}/${key} has ${sizeBytes} bytes, its manifest says ${file.size}`,
  );
  return { reason: reasons.join('; '), filenames: wrong.map(({ file }) => file.filename) };
}

/** Whether the listing of a date matches the known sizes. */
export function isAsExpected(
  dataset: string,
  { drops, beside }: SealedDate,
  expected: KnownSizes | undefined,
): boolean {
  const sizeBytes = drops.get(expected?.filename ?? dropFilename(dataset));
  if (sizeBytes === undefined || sizeBytes !== (expected?.size ?? sizeBytes)) return false;
  return Object.entries(expected?.beside ?? {}).every(([name, size]) => beside.get(name) === size);
}

interface WrongFile {
  readonly key: string;
  readonly file: ManifestFile;
  /** Actual size; `undefined` when the file is missing. */
  readonly sizeBytes: number | undefined;
}

/** Files of a manifest that are missing or have another size. Costs one request a file. */
async function findWrong(
  store: Store,
  { dataset, date, files }: Pick<Manifest, 'dataset' | 'date' | 'files'>,
): Promise<readonly WrongFile[]> {
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

/** Ignores an invalid manifest: callers that need its content report it. */
async function readValid(store: Store, dataset: string, date: string): Promise<Manifest | undefined> {
  try {
    return await readManifest(store, dataset, date);
  } catch (error) {
    if (!isFault(error) || error.code !== 'MANIFEST_INVALID') throw error;
    return undefined;
  }
}
