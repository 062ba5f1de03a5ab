/** The ledger of a dataset: the manifests in the store are the record of what is sealed. Reading only. */
import { manifestKey, parseManifestDate, partitionsPrefix } from '../store/layout.ts';
import type { Store } from '../store/store.ts';
import { type Manifest, parseManifest } from './manifest.ts';

/** Sealed dates of a dataset, ascending. Costs a listing, no object is read. */
export async function listSealedDates(store: Store, dataset: string): Promise<readonly string[]> {
  const dates: string[] = [];
  for await (const { key } of store.list(partitionsPrefix(dataset))) {
    const date = parseManifestDate(dataset, key);
    if (date !== undefined) dates.push(date);
  }
  return dates.sort();
}

/** The manifest of a date, or `undefined` when it is not sealed. @throws Fault `MANIFEST_INVALID` */
export async function readManifest(store: Store, dataset: string, date: string): Promise<Manifest | undefined> {
  const key = manifestKey(dataset, date);
  const bytes = await store.get(key);
  return bytes && parseManifest(bytes, `${store.url}/${key}`);
}
