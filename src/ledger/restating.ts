/**
 * Distinguishes a restatement in progress from damage: between its last two writes, the new object lies beside the old
 * manifest (see `publish.ts`). Invariant: an object counts as whole only when it matches a manifest, either the
 * published one or the one decided to follow it. Read-only.
 */
import type { Store } from '../store/store.ts';
import { readDecision } from './decision.ts';
import type { Manifest } from './manifest.ts';
import { readManifest } from './sealed-dates.ts';

/** The manifest that is decided to replace this one but not published yet; else `undefined`. Costs a request. */
export async function readSuccessor(
  store: Store,
  { dataset, date, revision }: Manifest,
): Promise<Manifest | undefined> {
  const found = await readDecision(store, dataset, date, revision + 1);
  // A broken decision is never published.
  return found.kind === 'whole' ? found.decided : undefined;
}

/**
 * The manifest of a date whose files with rows have these sizes: the published one, or the next one if that matches
 * instead. If neither matches, the published one: then its file is damaged.
 * @throws Fault `MANIFEST_INVALID`
 */
export async function readManifestOf(
  store: Store,
  dataset: string,
  date: string,
  drops: ReadonlyMap<string, number>,
): Promise<Manifest | undefined> {
  const manifest = await readManifest(store, dataset, date);
  const isThere = ({ files: [file] }: Manifest) => drops.get(file.filename) === file.size;
  if (manifest === undefined || isThere(manifest)) return manifest;
  const next = await readSuccessor(store, manifest);
  return next !== undefined && isThere(next) ? next : manifest;
}
