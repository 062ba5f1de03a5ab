/**
 * Publishes verified files so that two workers cannot both seal a revision of a date. Invariant: a conditional write
 * decides once which bytes are the revision. Every worker that publishes then publishes those bytes, so the drop and
 * the manifest beside it belong together. The manifest comes last. The steps:
 *
 *     1. put the files under the hashes of their contents             (so they cannot be overwritten with other bytes)
 *     2. write the decision, a complete manifest, if there is none    (this decides)
 *     3. keep the replaced revision in the history                   (from checked bytes, see below)
 *     4. copy the decided files to the drop's keys, then put the decided manifest   (both idempotent)
 *     5. remove the objects of this revision under `sealing/`
 *
 * The store confirms each write before the next step, so a source is removed only after its copy exists. If a worker
 * dies halfway, its decision stays; the next run finishes it (`finish.ts`), or the next worker that seals the date
 * does. Before a worker carries out another worker's decision, it proves that every named byte exists. Between the two
 * writes of step 4 readers see the new object beside the old manifest, because two keys cannot be replaced at once. Not
 * prevented: a worker pauses in step 4, and others seal a further revision meanwhile.
 *
 * The history of a date: the files of a replaced revision, saved before its object is overwritten. Invariant: a file in the
 * history matches its manifest, what could not be saved is on record as lost, and the manifest is written last. The bytes
 * are downloaded and checked on the way, because another worker may overwrite the object at any moment: a copy inside the
 * store could save the new revision under the old one's name.
 */
import { rm, stat } from 'node:fs/promises';
import { hashFile } from '../core/atomic-file.ts';
import { Fault, isFault } from '../core/errors.ts';
import type { Store } from '../store/store.ts';
import {
  dropFilename,
  dropsPrefix,
  fileKey,
  filenameOf,
  historyKey,
  historyPrefix,
  isDropFilename,
  MANIFEST_FILENAME,
  manifestKey,
  parseDatasetKey,
  recordsPrefix,
  sealingDecisionKey,
  sealingFileKey,
  sealingPrefix,
  tableDropFilename,
  tableVersionsPrefix,
} from './layout.ts';
import type { Ledger } from './ledger.ts';
import { formatManifest, type Manifest, type ManifestDraft, type ManifestFile, signManifest } from './manifest.ts';

/**
 * @param files of the date: paths on this disk, also of such that the draft does not name
 * @param draft all facts except those from the files and the store
 * @param options `supersedes`: the sealed revision to replace; if absent, the date must not be sealed yet
 * @returns the published manifest, and whether the drop has the bytes of our file; otherwise another worker sealed other
 *   bytes, and the manifest is theirs
 * @throws StoreFault, Fault `SEALING_BROKEN`
 */
export async function publishDrop(
  ledger: Ledger,
  files: Parameters<typeof describeFiles>[0],
  draft: ManifestDraft,
  options: { readonly supersedes?: Manifest | undefined; readonly signal?: AbortSignal | undefined } = {},
): Promise<{ readonly manifest: Manifest; readonly won: boolean }> {
  const { store, dataset } = ledger;
  const { date } = draft;
  const { supersedes, signal } = options;
  // A lost manifest had a revision too: the revisions that it replaced are still in the history. List the history
  // before reading the manifest: if another worker adds to it during a restatement, the manifest exists.
  const kept = supersedes?.revision ?? (await findNewestKept(ledger, date));
  let isDamaged = false;
  const sealed = await ledger.validManifest(date, () => {
    isDamaged = true;
  });
  const isAsExpected = sealed?.revision === supersedes?.revision && sealed?.files[0].hash === supersedes?.files[0].hash;
  if (sealed && !isAsExpected) return { manifest: assertOwn(store, draft, sealed), won: false };
  if (sealed === undefined && supersedes) throw broken(store, draft, 'the manifest of the revision to replace is gone');
  const replaced = isDamaged ? await keepDamaged(ledger, date, kept) : kept;
  const revision = replaced + 1;
  if (draft.table === undefined && replaced > 0) await assertNoTable(store, dataset);
  const filename = draft.table === undefined ? dropFilename(dataset) : tableDropFilename(dataset, revision);
  const contents = await describeFiles(files, draft, filename);
  const ours = signManifest({
    ...draft,
    revision,
    files: contents.map(({ file }) => file) as [ManifestFile, ...ManifestFile[]],
    supersedes: supersedes?.revision ?? null,
  });
  for (const { file, path } of contents) {
    const key = sealingFileKey(dataset, date, revision, digestOf(file));
    await store.put(key, { path }, { signal });
  }
  const manifest = assertOwn(store, draft, await decide(ledger, ours, files.drop));
  await cleanUp(ledger, date, revision);
  return { manifest, won: manifest.files[0].hash === ours.files[0].hash };
}

/**
 * If two jobs sealed one dataset, each would take the other's dates for its own. @throws Fault `DATASET_TAKEN` (usage)
 */
function assertOwn(store: Store, { job_id: job, dataset, date }: ManifestDraft, found: Manifest): Manifest {
  if (found.job_id === job) return found;
  throw new Fault(
    'DATASET_TAKEN',
    `${date} of ${store.url}/${dataset} was sealed by the job "${found.job_id}", not by "${job}"`,
    { kind: 'usage', hint: 'Give one of the two jobs its own dataset (drop.dataset).' },
  );
}

/**
 * A file that an Iceberg table names must never change: readers of its older snapshots would read wrong rows without an
 * error. @throws Fault `DATASET_IS_TABLE` (usage)
 */
async function assertNoTable(store: Store, dataset: string): Promise<void> {
  for await (const { key } of store.list(tableVersionsPrefix(dataset))) {
    throw new Fault(
      'DATASET_IS_TABLE',
      `${store.url}/${key}: the dataset is an Iceberg table; its files are not replaced`,
      {
        kind: 'usage',
        hint: 'Set `drop.table: iceberg` in the job again, or give the job another dataset (drop.dataset).',
      },
    );
  }
}

/** Steps 2 to 4. Returns the manifest of the revision, ours or another worker's. */
async function decide(ledger: Ledger, ours: Manifest, scratch: string): Promise<Manifest> {
  const { store, dataset } = ledger;
  const { date, revision } = ours;
  const won = await store.putIfAbsent(sealingDecisionKey(dataset, date, revision), formatManifest(ours));
  const found = won ? undefined : await ledger.decision(date, revision);
  // A decision is removed only after the manifest of its revision is published, or when it cannot be carried out. So if
  // the decision is read before the ledger, and the ledger has no manifest of the revision, that decision counts. A
  // decision that was made after the manifest was published is void.
  const current = await ledger.validManifest(date);
  if (current && current.revision >= revision) return current;
  if (won) return await publishDecided(ledger, ours, ours.files, current, scratch);
  if (found === undefined) throw broken(store, ours, 'the decision of another worker is gone, and so is its manifest');
  if (found.decided === undefined) throw broken(store, ours, found.reason);
  const published = await carryOut(ledger, found.decided, current, scratch);
  if (typeof published === 'string') throw broken(store, ours, published);
  return published;
}

/**
 * Steps 3 and 4 for another worker's decision, if all its files exist with the right bytes: a worker that died halfway may
 * have copied some. Idempotent, also while that worker does the same.
 * @param current the sealed manifest, read after the decision
 * @returns the published manifest, or, in words, which file is lost
 */
export async function carryOut(ledger: Ledger, decided: Manifest, current: Manifest | undefined, scratch: string) {
  const { store, dataset } = ledger;
  const { date, revision } = decided;
  const fetched = `${scratch}.decided`;
  const toCopy: ManifestFile[] = [];
  try {
    for (const file of decided.files) {
      const key = sealingFileKey(dataset, date, revision, digestOf(file));
      if (await ledger.fetchObject(key, file, fetched)) toCopy.push(file);
      else if (!(await ledger.fetchFile(date, file, fetched))) {
        const what = (await store.head(key)) ? 'differs from its hash in the decision' : 'is missing';
        const lost = `${store.url}/${key}, which is to become ${file.filename}, ${what}`;
        // Files are also removed once the manifest is published: then nothing is lost.
        return (await readPublished(ledger, decided)) ?? lost;
      }
    }
  } finally {
    await rm(fetched, { force: true });
  }
  return await publishDecided(ledger, decided, toCopy, current, scratch);
}

function digestOf(file: ManifestFile): string {
  return file.hash.replace('sha256:', '');
}

/** Steps 3 and 4 for the decided files; several workers may do this at once. */
async function publishDecided(
  ledger: Ledger,
  decided: Manifest,
  toCopy: readonly ManifestFile[],
  current: Manifest | undefined,
  scratch: string,
): Promise<Manifest> {
  const { store, dataset } = ledger;
  const { date, revision } = decided;
  try {
    if (current) await keepHistory(ledger, current, `${scratch}.history`);
    for (const file of toCopy) {
      const from = sealingFileKey(dataset, date, revision, digestOf(file));
      const { sizeBytes } = await store.copy(from, fileKey(dataset, date, file.filename));
      // The store confirms that the target is a copy of the source; the size check shows that the source was the
      // decided file.
      if (sizeBytes !== file.size) {
        throw broken(store, decided, `${from} has ${sizeBytes} bytes, the decision says ${file.size}`);
      }
    }
  } catch (error) {
    // If another worker has finished and cleaned up, the manifest exists.
    const published = await readPublished(ledger, decided);
    if (published) return published;
    throw error;
  }
  const names = new Set(decided.files.map(({ filename }) => filename));
  const isKept = (filename: string) =>
    names.has(filename) || (decided.table !== undefined && isDropFilename(dataset, filename));
  for (const { filename } of current?.files ?? []) {
    if (!isKept(filename)) await store.remove(fileKey(dataset, date, filename));
  }
  const published = await readPublished(ledger, decided);
  if (published) return published;
  await store.put(manifestKey(dataset, date), { bytes: formatManifest(decided) });
  return decided;
}

/** The published manifest, if it is of the decided revision or a later one. */
async function readPublished(ledger: Ledger, { date, revision }: Manifest): Promise<Manifest | undefined> {
  const published = await ledger.validManifest(date);
  return published && published.revision >= revision ? published : undefined;
}

/** After the manifest of the revision is published, no worker needs these objects. */
export async function cleanUp({ store, dataset }: Ledger, date: string, revision: number): Promise<void> {
  const keys: string[] = [];
  for await (const { key } of store.list(sealingPrefix(dataset, date, revision))) keys.push(key);
  for (const key of keys) await store.remove(key);
}

/** The drop first, then what the draft names. */
async function describeFiles(
  paths: { readonly drop: string } & { readonly [N in 'summary' | 'counts' | 'quarantine']?: string | undefined },
  draft: ManifestDraft,
  dropName: string,
) {
  const named = [
    [dropName, paths.drop],
    [draft.summary, paths.summary],
    [draft.counts, paths.counts],
    [draft.quarantine?.filename, paths.quarantine],
  ] as const;
  const files: { readonly file: ManifestFile; readonly path: string }[] = [];
  for (const [filename, path] of named) {
    if (!filename || path === undefined) continue;
    const { size } = await stat(path);
    files.push({ file: { filename, size, hash: `sha256:${await hashFile(path)}` }, path });
  }
  return files;
}

function broken(store: Store, { dataset, date }: Pick<Manifest, 'dataset' | 'date'>, what: string): Fault {
  return new Fault('SEALING_BROKEN', `${store.url}/${manifestKey(dataset, date)}: ${what}`, {
    hint: 'Another program removes or writes objects there, perhaps a lifecycle rule. Staged pages are kept: run again, and a decision that cannot be carried out is set aside.',
  });
}

/** Idempotent, and safe while other workers do the same. @param scratch local path, removed afterwards */
async function keepHistory(ledger: Ledger, manifest: Manifest, scratch: string): Promise<void> {
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
async function keepDamaged(ledger: Ledger, date: string, newest: number): Promise<number> {
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
async function findNewestKept({ store, dataset }: Ledger, date: string): Promise<number> {
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
