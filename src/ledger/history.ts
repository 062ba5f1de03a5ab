/**
 * The history of a date: the files of a replaced revision, saved before its object is overwritten. Invariant: a file in
 * the history matches its manifest, what could not be saved is on record as lost, and the manifest is written last. The
 * bytes are downloaded and checked on the way, because another worker may overwrite the object at any moment: a copy inside the store could save the new revision
 * under the old one's name.
 */
import { rm } from 'node:fs/promises';
import { isFault } from '../core/errors.ts';
import type { Store } from '../store/store.ts';
import {
  dropsPrefix,
  fileKey,
  filenameOf,
  historyKey,
  historyPrefix,
  MANIFEST_FILENAME,
  manifestKey,
  parseDatasetKey,
  recordsPrefix,
} from './layout.ts';
import type { Ledger } from './ledger.ts';
import { formatManifest, type Manifest } from './manifest.ts';

/** Idempotent, and safe while other workers do the same. @param scratch local path, removed afterwards */
export async function keepHistory(ledger: Ledger, manifest: Manifest, scratch: string): Promise<void> {
  const { store, dataset } = ledger;
  const { date, revision } = manifest;
  // A damaged manifest proves nothing, so the history is written again.
  if ((await ledger.kept(date, revision))?.manifest) return;
  try {
    const lost: string[] = [];
    for (const file of manifest.files) {
      const key = historyKey(dataset, date, revision, file.filename);
      if (await ledger.fetchFile(date, file, scratch)) await store.put(key, { path: scratch });
      // If a file does not match the manifest, it is either damaged, and wrong as history, or the new revision's. In
      // the second case another worker saved the old file before it overwrote it.
      else if (!(await ledger.fetchObject(key, file, scratch))) lost.push(file.filename);
    }
    if (lost.length > 0) {
      const reason = `missing or damaged when revision ${revision + 1} replaced it`;
      await ledger.noteLost(date, revision, { files: lost, reason });
    }
  } finally {
    await rm(scratch, { force: true });
  }
  const manifestAt = historyKey(dataset, date, revision, MANIFEST_FILENAME);
  await store.put(manifestAt, { bytes: formatManifest(manifest) });
}

/**
 * Keeps what lies in the place of a date whose manifest is damaged, before the date is sealed again: the rows may be good.
 * @param newest the newest revision in the history
 * @returns the revision that is replaced: `newest` when a killed worker has kept it already
 */
export async function keepDamaged(ledger: Ledger, date: string, newest: number): Promise<number> {
  const { store, dataset } = ledger;
  const keptAt = historyKey(dataset, date, newest, MANIFEST_FILENAME);
  const manifestAt = manifestKey(dataset, date);
  const [damaged, kept] = [await readSmall(store, manifestAt), await readSmall(store, keptAt)];
  if (damaged !== undefined && kept !== undefined && Buffer.compare(kept, damaged) === 0) return newest;
  const revision = newest + 1;
  const keys: string[] = [];
  for (const prefix of [dropsPrefix(dataset, date), recordsPrefix(dataset, date)])
    for await (const { key } of store.list(prefix)) if (damaged !== undefined || key !== manifestAt) keys.push(key);
  for (const key of keys) await store.copy(key, historyKey(dataset, date, revision, filenameOf(key)));
  const reason = `its manifest was edited or damaged when revision ${revision + 1} replaced it`;
  await ledger.noteLost(date, revision, { files: null, reason });
  return revision;
}

/** `undefined` also for an object that is too large to be a manifest. */
async function readSmall(store: Store, key: string): Promise<Uint8Array | undefined> {
  try {
    return await store.get(key);
  } catch (error) {
    if (!isFault(error) || error.code !== 'OBJECT_TOO_LARGE') throw error;
    return undefined;
  }
}

/** The newest revision in the history of a date; 0 when there is none. */
export async function findNewestKept({ store, dataset }: Ledger, date: string): Promise<number> {
  let newest = 0;
  for await (const { key } of store.list(historyPrefix(dataset, date))) {
    const place = parseDatasetKey(dataset, key);
    if (place?.kind === 'history') newest = Math.max(newest, place.revision);
  }
  return newest;
}

/**
 * Undoes `keepHistory` for the sealed revision, when the revision that was to replace it will not come. Restores files
 * that were already overwritten. If that is impossible, the history stays, because it may be the only copy. Costs a
 * listing when there is no history. @param scratch local path, removed afterwards
 */
export async function takeBack(ledger: Ledger, manifest: Manifest, scratch: string): Promise<void> {
  const { store, dataset } = ledger;
  const { date, revision } = manifest;
  const folder = historyKey(dataset, date, revision, '');
  const keys: string[] = [];
  for await (const { key } of store.list(folder)) keys.push(key);
  if (keys.length === 0) return;
  try {
    for (const file of manifest.files) {
      if (await ledger.fetchFile(date, file, scratch)) continue;
      const key = folder + file.filename;
      if (!(await ledger.fetchObject(key, file, scratch))) return;
      await store.copy(key, fileKey(dataset, date, file.filename));
    }
  } finally {
    await rm(scratch, { force: true });
  }
  // Remove the manifest first: without it, the revision does not count as saved.
  const manifestAt = folder + MANIFEST_FILENAME;
  for (const key of [manifestAt, ...keys.filter((one) => one !== manifestAt)]) await store.remove(key);
}
