/**
 * Publishing a verified file so that two workers cannot both seal a date. Invariant: which bytes are the drop is decided
 * once, by a conditional write; whoever then publishes, publishes those, so the object under the drop's key and the
 * manifest beside it always belong together, and the manifest comes last. The steps:
 *
 *     1. put the file under a name that is its content's hash         (nobody can overwrite it with other bytes)
 *     2. write the decision, a whole manifest, if there is none       (this decides)
 *     3. copy the decided file to the drop's key, then put the decided manifest   (both idempotent)
 *     4. remove the decision and the file of step 1
 *
 * A worker that dies in between leaves a decision that the next one to seal the date finishes.
 */
import { stat } from 'node:fs/promises';
import { hashFile } from '../core/file-hash.ts';
import { StoreFault } from '../store/fault.ts';
import { dropFilename, dropKey, manifestKey, sealingDecisionKey, sealingFileKey } from '../store/layout.ts';
import type { Store } from '../store/store.ts';
import { readManifest } from './ledger.ts';
import { formatManifest, type Manifest, parseManifest } from './manifest.ts';

export const PARQUET_CONTENT_TYPE = 'application/vnd.apache.parquet';
const JSON_CONTENT = { contentType: 'application/json' } as const;

export interface PublishResult {
  readonly manifest: Manifest;
  /** Whether the drop's bytes are those of this file; else another worker sealed other bytes, and `manifest` is theirs. */
  readonly won: boolean;
}

/** @param manifest everything but the files, which are filled in from the file at `path` @throws StoreFault */
export async function publishDrop(
  store: Store,
  path: string,
  manifest: Omit<Manifest, 'files'>,
  signal?: AbortSignal,
): Promise<PublishResult> {
  const { dataset, date, revision } = manifest;
  const sealed = await readManifest(store, dataset, date);
  if (sealed) return { manifest: sealed, won: false };
  const sha256 = await hashFile(path);
  const file = { filename: dropFilename(dataset), size: (await stat(path)).size, hash: `sha256:${sha256}` };
  const ours: Manifest = { ...manifest, files: [file] };
  const content = sealingFileKey(dataset, date, revision, sha256);
  const decision = sealingDecisionKey(dataset, date, revision);
  await store.put(content, { path }, { contentType: PARQUET_CONTENT_TYPE, ...(signal ? { signal } : {}) });
  const won = await store.putIfAbsent(decision, formatManifest(ours), JSON_CONTENT);
  // Decisions are removed only once there is a manifest: one that was made after that is void.
  const published = await readManifest(store, dataset, date);
  const decided = published ?? (won ? ours : await readDecision(store, decision));
  if (!published && decided) await publishDecided(store, decided);
  await store.remove(decision);
  await store.remove(content);
  const result = decided ?? (await readManifest(store, dataset, date));
  if (result) return { manifest: result, won: result.files[0].hash === file.hash };
  throw new StoreFault(
    'seal',
    `${store.url}/${dropKey(dataset, date)}`,
    'the decision of another worker is gone, and so is its manifest',
  );
}

/** Steps 3 and 4 for the decided file; any worker may do them, and several at once. */
async function publishDecided(store: Store, decided: Manifest): Promise<void> {
  const { dataset, date, revision } = decided;
  const content = sealingFileKey(dataset, date, revision, decided.files[0].hash.replace('sha256:', ''));
  try {
    await store.copy(content, dropKey(dataset, date));
  } catch (error) {
    // Another worker has finished and cleaned up: then the manifest is there.
    if (await store.get(manifestKey(dataset, date))) return;
    throw error;
  }
  await store.put(manifestKey(dataset, date), { bytes: formatManifest(decided) }, JSON_CONTENT);
  await store.remove(content);
}

async function readDecision(store: Store, key: string): Promise<Manifest | undefined> {
  const bytes = await store.get(key);
  return bytes && parseManifest(bytes, `${store.url}/${key}`);
}
