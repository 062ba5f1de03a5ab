/**
 * The sealed dates of a dataset: two listings, and the manifests of the dates that a statement touches. Invariant: a
 * date counts as sealed if it has a manifest. If its object is missing or differs in size from the manifest, the
 * statement is refused with that date before anything is computed.
 */
import { Fault } from '../core/errors.ts';

import type { Manifest } from '../ledger/manifest.ts';
import { listSealed } from '../ledger/sealed-dates.ts';
import type { Store } from '../store/store.ts';

export interface DropList {
  /** Sealed dates, ascending. */
  readonly dates: readonly string[];
  /** Sizes in bytes of a date's files with rows, by name. */
  filesOf(date: string): ReadonlyMap<string, number>;
}

/** Reads the manifest of a sealed date, given the sizes of its files with rows; see `seal/`. @throws Fault `MANIFEST_INVALID` */
export type ReadManifest = (date: string, drops: ReadonlyMap<string, number>) => Promise<Manifest | undefined>;

/** Manifests read concurrently. */
const MAX_READS = 16;

/** Costs two listings, however many dates there are. @throws StoreFault */
export async function listDrops(store: Store, dataset: string): Promise<DropList> {
  const sealed = new Map((await listSealed(store, dataset)).map((found) => [found.date, found.drops]));
  return { dates: [...sealed.keys()], filesOf: (date) => sealed.get(date) ?? new Map() };
}

/** Reads the manifests of `dates`, in the same order. @throws Fault `MANIFEST_INVALID`, `DROP_DAMAGED` */
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
  const drops = list.filesOf(date);
  const manifest = await read(date, drops);
  if (manifest === undefined) throw damaged(date, 'its manifest was removed after it was listed');
  const [file] = manifest.files;
  const size = drops.get(file.filename);
  if (size === undefined) throw damaged(date, `${file.filename} is missing`);
  if (size !== file.size)
    throw damaged(date, `${file.filename} has ${size} bytes where the manifest says ${file.size}`);
  return manifest;
}

function damaged(date: string, what: string): Fault {
  return new Fault('DROP_DAMAGED', `${date}: ${what}`, {
    hint: `If a run has just replaced it, query again; otherwise run \`flowdrop verify JOB --date ${date}\`, or leave the date out of the query.`,
  });
}
