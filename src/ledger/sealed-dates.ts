/** The ledger of a dataset: the manifests in the store are the record of what is sealed. Read-only. */
import { isFault } from '../core/errors.ts';
import type { Store } from '../store/store.ts';
import { dropFilename, manifestKey, parseManifestDate, partitionPrefix, partitionsPrefix } from './layout.ts';
import { invalidManifest, type Manifest, parseManifest } from './manifest.ts';

/** A date with a manifest, as found in a listing. */
export interface SealedDate {
  readonly date: string;
  /** Size of the drop in bytes; `undefined` when the listing does not have it. */
  readonly sizeBytes: number | undefined;
  /** Sizes in bytes of the files beside it, by name: the summary, the quarantine. */
  readonly beside: ReadonlyMap<string, number>;
}

/** Sealed dates of a dataset, ascending. Costs a listing; reads no object. */
export async function listSealed(store: Store, dataset: string): Promise<readonly SealedDate[]> {
  const dates: string[] = [];
  const sizes = new Map<string, Map<string, number>>();
  for await (const { key, sizeBytes } of store.list(partitionsPrefix(dataset))) {
    const date = parseManifestDate(dataset, key);
    const folder = key.slice(0, key.lastIndexOf('/') + 1);
    if (date !== undefined) dates.push(date);
    else sizes.set(folder, (sizes.get(folder) ?? new Map<string, number>()).set(key.slice(folder.length), sizeBytes));
  }
  return dates.sort().map((date) => {
    const beside = sizes.get(partitionPrefix(dataset, date)) ?? new Map<string, number>();
    const sizeBytes = beside.get(dropFilename(dataset));
    beside.delete(dropFilename(dataset));
    return { date, sizeBytes, beside };
  });
}

/** Like `listSealed`, without the sizes. */
export async function listSealedDates(store: Store, dataset: string): Promise<readonly string[]> {
  return (await listSealed(store, dataset)).map(({ date }) => date);
}

/** The manifest of a date, or `undefined` when it is not sealed. @throws Fault `MANIFEST_INVALID` */
export async function readManifest(store: Store, dataset: string, date: string): Promise<Manifest | undefined> {
  const key = manifestKey(dataset, date);
  try {
    const bytes = await store.get(key);
    return bytes && parseManifest(bytes, `${store.url}/${key}`);
  } catch (error) {
    throw isFault(error) && error.code === 'OBJECT_TOO_LARGE' ? invalidManifest(error.message, error) : error;
  }
}
