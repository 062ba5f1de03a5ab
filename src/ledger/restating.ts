/**
 * A restatement in the moment between its two last writes, when the new object lies beside the old manifest (see
 * `publish.ts`): how a reader tells it from damage. Invariant: an object counts as whole only when it is what a manifest
 * describes, the published one or the one that was decided to follow it. Reading only.
 */
import type { Store } from '../store/store.ts';
import { readDecision } from './decision.ts';
import type { Manifest } from './manifest.ts';
import { readManifest } from './sealed-dates.ts';

/** The manifest that was decided to replace this one and is not published yet; `undefined` without one. Costs a request. */
export async function readSuccessor(
  store: Store,
  { dataset, date, revision }: Manifest,
): Promise<Manifest | undefined> {
  const found = await readDecision(store, dataset, date, revision + 1);
  // Nobody will publish one that is broken.
  return found.kind === 'whole' ? found.decided : undefined;
}

/**
 * The manifest of a date whose object has so many bytes: the published one, or, when it describes another object, the
 * one that is about to be. Where neither does, the published one: then the object is damaged.
 * @throws Fault `MANIFEST_INVALID`
 */
export async function readManifestOf(
  store: Store,
  dataset: string,
  date: string,
  sizeBytes: number | undefined,
): Promise<Manifest | undefined> {
  const manifest = await readManifest(store, dataset, date);
  if (manifest === undefined || manifest.files[0].size === sizeBytes) return manifest;
  const next = await readSuccessor(store, manifest);
  return next !== undefined && next.files[0].size === sizeBytes ? next : manifest;
}
