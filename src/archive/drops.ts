/**
 * What is sealed of a dataset, as the archive needs it: one listing, and the manifests of the dates that a statement
 * touches. Invariant: a date counts when it has a manifest; an object that is missing or of another size than its
 * manifest says is refused by its date before anything is computed.
 */
import { Fault } from '../core/errors.ts';
import { dropKey, parseManifestDate } from '../ledger/layout.ts';
import type { Manifest } from '../ledger/manifest.ts';
import type { Store } from '../store/store.ts';

export interface DropList {
  /** Sealed dates, ascending. */
  readonly dates: readonly string[];
  /** Bytes of a date's object; `undefined` when there is none. */
  sizeOf(date: string): number | undefined;
}

/** How the manifest of a sealed date is read whose object has so many bytes; `seal/` knows. @throws Fault `MANIFEST_INVALID` */
export type ReadManifest = (date: string, sizeBytes: number | undefined) => Promise<Manifest | undefined>;

/** Manifests that are read at the same time. */
const MAX_READS = 16;

/** Costs one listing, whatever the number of dates. @throws StoreFault */
export async function listDrops(store: Store, dataset: string): Promise<DropList> {
  const sizes = new Map<string, number>();
  const dates: string[] = [];
  for await (const { key, sizeBytes } of store.list(`${dataset}/`)) {
    sizes.set(key, sizeBytes);
    const date = parseManifestDate(dataset, key);
    if (date !== undefined) dates.push(date);
  }
  return { dates: dates.sort(), sizeOf: (date) => sizes.get(dropKey(dataset, date)) };
}

/** The manifests of `dates`, in their order. @throws Fault `MANIFEST_INVALID`, `DROP_DAMAGED` */
export async function readManifests(
  dates: readonly string[],
  list: DropList,
  read: ReadManifest,
): Promise<readonly Manifest[]> {
  const manifests: Manifest[] = [];
  for (let first = 0; first < dates.length; first += MAX_READS) {
    const some = dates.slice(first, first + MAX_READS);
    manifests.push(...(await Promise.all(some.map((date) => readWhole(date, list, read)))));
  }
  return manifests;
}

async function readWhole(date: string, list: DropList, read: ReadManifest): Promise<Manifest> {
  const size = list.sizeOf(date);
  const manifest = await read(date, size);
  if (manifest === undefined) throw damaged(date, 'its manifest has gone since it was listed');
  const [file] = manifest.files;
  if (size === undefined) throw damaged(date, `${file.filename} is missing`);
  if (size !== file.size)
    throw damaged(date, `${file.filename} has ${size} bytes where the manifest says ${file.size}`);
  return manifest;
}

function damaged(date: string, what: string): Fault {
  return new Fault('DROP_DAMAGED', `${date}: ${what}`, {
    hint: `Ask again, if a run has just replaced it; else run \`flowdrop verify JOB --date ${date}\`, or leave the date out of the query.`,
  });
}
