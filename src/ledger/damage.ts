/**
 * Whether the files of a sealed date are there, as far as a listing shows it: a bucket's lifecycle rule, a person, or a
 * store that acknowledged what it did not keep may have taken one. Invariant: costs no request unless the listing says
 * otherwise than expected, and never takes a date for damaged that another worker is just replacing. Hashes are compared by
 * `audit.ts`, not here.
 */
import { isFault } from '../core/errors.ts';
import type { Store } from '../store/store.ts';
import type { KnownSizes } from './condition-file.ts';
import { partitionPrefix } from './layout.ts';
import type { Manifest, ManifestFile } from './manifest.ts';
import { readSuccessor } from './restating.ts';
import { readManifest, type SealedDate } from './sealed-dates.ts';

export interface Damage {
  /** What is wrong, in words. */
  readonly reason: string;
  /** Names of the files that are gone, or have another size than their manifest says. */
  readonly filenames: readonly string[];
}

/**
 * What is wrong with a date's files; `undefined` when nothing is, or when the manifest itself is damaged.
 * @param expected as the last reader of the manifest knew them; what nobody knew is not looked at
 * @throws StoreFault
 */
export async function findDamage(
  store: Store,
  dataset: string,
  found: SealedDate,
  expected: KnownSizes | undefined,
): Promise<Damage | undefined> {
  if (isAsExpected(found, expected)) return undefined;
  // What was listed may be old by now, and what was expected too: so all is asked again.
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

/** Whether what is listed of a date is what is known of it. */
export function isAsExpected({ sizeBytes, beside }: SealedDate, expected: KnownSizes | undefined): boolean {
  if (sizeBytes === undefined || sizeBytes !== (expected?.size ?? sizeBytes)) return false;
  return Object.entries(expected?.beside ?? {}).every(([name, size]) => beside.get(name) === size);
}

interface WrongFile {
  readonly key: string;
  readonly file: ManifestFile;
  /** What lies there; `undefined` when nothing does. */
  readonly sizeBytes: number | undefined;
}

/** Files of a manifest that are gone or have another size. Costs a request each. */
export async function findWrong(
  store: Store,
  { dataset, date, files }: Pick<Manifest, 'dataset' | 'date' | 'files'>,
): Promise<readonly WrongFile[]> {
  const wrong: WrongFile[] = [];
  for (const file of files) {
    const key = partitionPrefix(dataset, date) + file.filename;
    const info = await store.head(key);
    if (info?.sizeBytes !== file.size) wrong.push({ key, file, sizeBytes: info?.sizeBytes });
  }
  return wrong;
}

/** Overwritten by the next revision's file, or removed because that one has none of the name. */
function isBeingReplaced({ file: { filename }, sizeBytes }: WrongFile, next: Manifest): boolean {
  return next.files.find((one) => one.filename === filename)?.size === sizeBytes;
}

/** A damaged manifest is told by those who read it for what it says. */
async function readValid(store: Store, dataset: string, date: string): Promise<Manifest | undefined> {
  try {
    return await readManifest(store, dataset, date);
  } catch (error) {
    if (!isFault(error) || error.code !== 'MANIFEST_INVALID') throw error;
    return undefined;
  }
}
