/**
 * Whether the object of a sealed date is there, as far as a listing shows it: a bucket's lifecycle rule, a person, or a
 * store that acknowledged what it did not keep may have taken it. Invariant: costs no request unless the listing says
 * otherwise than expected, and never takes a date for damaged that another worker is just replacing. Hashes are compared by
 * `audit.ts`, not here.
 */
import { isFault } from '../core/errors.ts';
import type { Store } from '../store/store.ts';
import { partitionPrefix } from './layout.ts';
import type { Manifest } from './manifest.ts';
import { readSuccessor } from './restating.ts';
import { readManifest, type SealedDate } from './sealed-dates.ts';

/**
 * What is wrong with the drop's object, in words; `undefined` when nothing is, or when the manifest itself is damaged.
 * @param expectedBytes as the last reader of the manifest knew it; `undefined` when nobody did
 * @throws StoreFault
 */
export async function findDamage(
  store: Store,
  dataset: string,
  { date, sizeBytes }: SealedDate,
  expectedBytes: number | undefined,
): Promise<string | undefined> {
  if (sizeBytes !== undefined && (expectedBytes === undefined || sizeBytes === expectedBytes)) return undefined;
  // What was listed may be old by now, and what was expected too: so all is asked again.
  const manifest = await readValid(store, dataset, date);
  if (manifest === undefined) return undefined;
  const [file] = manifest.files;
  const key = partitionPrefix(dataset, date) + file.filename;
  const info = await store.head(key);
  if (info?.sizeBytes === file.size) return undefined;
  const next = await readSuccessor(store, manifest);
  if (next !== undefined && info?.sizeBytes === next.files[0].size) return undefined;
  if ((await readValid(store, dataset, date))?.revision !== manifest.revision) return undefined;
  if (info === undefined) return `${store.url}/${key} is missing`;
  return `${store.url}/${key} has ${info.sizeBytes} bytes, its manifest says ${file.size}`;
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
