/** The ledger of a dataset: the manifests in the store are the record of what is sealed. Read-only. */
import { type Fault, isFault } from '../core/errors.ts';
import { RECORDS_PREFIX, RESERVED_DATASETS } from '../store/key-kind.ts';
import type { Store } from '../store/store.ts';
import { dropKey, dropsPrefix, manifestKey, parseDatasetKey, recordsPrefix, sealedPrefix } from './layout.ts';
import { invalidManifest, type Manifest, readSigned } from './manifest.ts';

/** A date with a manifest, as found in a listing. */
export interface SealedDate {
  readonly date: string;
  /** Sizes in bytes of the files with rows, by name: one, and in a table those of replaced revisions too. */
  readonly drops: ReadonlyMap<string, number>;
  /** Sizes in bytes of the files beside it, by name: the summary, the quarantine. */
  readonly beside: ReadonlyMap<string, number>;
  /** Opaque text that changes whenever the manifest or a file with rows is replaced. */
  readonly version: string;
}

/** Names of the datasets of a store. Some may have no sealed date yet. */
export async function listDatasets(store: Store): Promise<readonly string[]> {
  const folders = await store.listFolders(RECORDS_PREFIX);
  return folders.filter((name) => !RESERVED_DATASETS.includes(name));
}

/**
 * Sealed dates of a dataset, ascending. Costs two listings; reads no object.
 * @param only the only date to look for, which makes the listings short
 */
export async function listSealed(store: Store, dataset: string, only?: string): Promise<readonly SealedDate[]> {
  const dates: string[] = [];
  const versions = new Map<string, string>();
  const addVersion = (date: string, version: string) => versions.set(date, `${versions.get(date) ?? ''}${version}\n`);
  const beside = new Map<string, Map<string, number>>();
  const records = only === undefined ? sealedPrefix(dataset) : recordsPrefix(dataset, only);
  for await (const { key, sizeBytes, version } of store.list(records)) {
    const place = parseDatasetKey(dataset, key);
    if (place?.kind !== 'record') continue;
    const { date } = place;
    if (key === manifestKey(dataset, date)) {
      dates.push(date);
      addVersion(date, version);
    } else beside.set(date, (beside.get(date) ?? new Map()).set(key.slice(key.lastIndexOf('/') + 1), sizeBytes));
  }
  // Listed after the manifests: a date that is sealed in between is not listed without its object.
  const drops = new Map<string, Map<string, number>>();
  if (dates.length > 0) {
    for await (const { key, sizeBytes, version } of store.list(dropsPrefix(dataset, only))) {
      const place = parseDatasetKey(dataset, key);
      if (place?.kind !== 'drop') continue;
      const { date } = place;
      addVersion(date, version);
      drops.set(date, (drops.get(date) ?? new Map()).set(key.slice(key.lastIndexOf('/') + 1), sizeBytes));
    }
  }
  return dates.sort().map((date) => {
    return {
      date,
      drops: drops.get(date) ?? new Map(),
      beside: beside.get(date) ?? new Map(),
      version: versions.get(date) ?? '',
    };
  });
}

/** Like `listSealed`, without the sizes. */
export async function listSealedDates(store: Store, dataset: string): Promise<readonly string[]> {
  return (await listSealed(store, dataset)).map(({ date }) => date);
}

/** The object with the rows of a manifest. */
export function dropKeyOf({ dataset, date, files }: Pick<Manifest, 'dataset' | 'date' | 'files'>): string {
  return dropKey(dataset, date, files[0].filename);
}

/**
 * The manifest of a date, or `undefined` when it is not sealed. Invariant: it is unaltered and of this date.
 * @throws Fault `MANIFEST_INVALID`
 */
export async function readManifest(store: Store, dataset: string, date: string): Promise<Manifest | undefined> {
  const key = manifestKey(dataset, date);
  try {
    const bytes = await store.get(key);
    if (bytes === undefined) return undefined;
    const { manifest, findings } = readSigned(bytes, `${store.url}/${key}`, { dataset, date });
    if (findings.length > 0) throw invalidManifest(findings.join('; '));
    return manifest;
  } catch (error) {
    throw isFault(error) && error.code === 'OBJECT_TOO_LARGE' ? invalidManifest(error.message, error) : error;
  }
}

/** Like `readManifest`, but a damaged manifest counts as none. @param note is called with what is wrong */
export async function readValidManifest(
  store: Store,
  dataset: string,
  date: string,
  note: (fault: Fault) => void = () => {},
): Promise<Manifest | undefined> {
  try {
    return await readManifest(store, dataset, date);
  } catch (error) {
    if (!isFault(error) || error.code !== 'MANIFEST_INVALID') throw error;
    note(error);
    return undefined;
  }
}
