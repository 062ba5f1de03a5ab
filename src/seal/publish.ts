/**
 * Publishing a verified file: object first, manifest last and only if there is none. Invariant: whoever wrote the
 * manifest has sealed the date; a run that finds one already there has lost the race and changes nothing.
 */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { dropFilename, dropKey, manifestKey } from '../store/layout.ts';
import type { Store } from '../store/store.ts';
import { formatManifest, type Manifest, parseManifest } from './manifest.ts';

export const PARQUET_CONTENT_TYPE = 'application/vnd.apache.parquet';

export interface PublishResult {
  readonly manifest: Manifest;
  /** False when the date had been sealed by another run; then `manifest` is the other's. */
  readonly won: boolean;
}

/** @param manifest everything but the files, which are filled in from the file at `path` @throws StoreFault */
export async function publishDrop(
  store: Store,
  path: string,
  manifest: Omit<Manifest, 'files'>,
  signal?: AbortSignal,
): Promise<PublishResult> {
  const { dataset, date } = manifest;
  const key = manifestKey(dataset, date);
  // Looked for before the upload, because the upload replaces the object under its key.
  const rival = await store.get(key);
  if (rival) return { manifest: parseManifest(rival, `${store.url}/${key}`), won: false };
  const file = {
    filename: dropFilename(dataset),
    size: (await stat(path)).size,
    hash: `sha256:${await hashFile(path)}`,
  };
  await store.put(
    dropKey(dataset, date),
    { path },
    { contentType: PARQUET_CONTENT_TYPE, ...(signal ? { signal } : {}) },
  );
  const complete: Manifest = { ...manifest, files: [file] };
  const won = await store.putIfAbsent(key, formatManifest(complete), { contentType: 'application/json' });
  if (won) return { manifest: complete, won };
  const winner = await store.get(key);
  return { manifest: winner ? parseManifest(winner, `${store.url}/${key}`) : complete, won };
}

/** SHA-256 of a file, hexadecimal. */
export async function hashFile(path: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path), hash);
  return hash.digest('hex');
}
