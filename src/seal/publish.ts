/**
 * Publishing verified files so that two workers cannot both seal a revision of a date. Invariant: which bytes are the
 * revision is decided once, by a conditional write; whoever then publishes, publishes those, so the object under the
 * drop's key and the manifest beside it belong together, and the manifest comes last. The steps:
 *
 *     1. put the files under names that are their contents' hashes    (nobody can overwrite them with other bytes)
 *     2. write the decision, a whole manifest, if there is none       (this decides)
 *     3. keep the replaced revision under `_history/`                 (from bytes that were checked, see history.ts)
 *     4. copy the decided files to the drop's keys, then put the decided manifest   (both idempotent)
 *     5. remove what lies under `_sealing/` of this revision
 *
 * A worker that dies in between leaves a decision that the next run finishes (`finishSealing`), or the next one to seal
 * the date. Between the two writes of step 4 a reader sees the new object beside the old manifest; two keys cannot be
 * replaced at once. Not fenced off: a worker that sleeps in step 4 for as long as others take to seal a further revision.
 */
import { stat } from 'node:fs/promises';
import { Fault, isFault } from '../core/errors.ts';
import { hashFile } from '../core/file-hash.ts';
import {
  dropFilename,
  MANIFEST_FILENAME,
  manifestKey,
  parseSealingKey,
  partitionPrefix,
  SUMMARY_FILENAME,
  sealingDecisionKey,
  sealingFileKey,
  sealingPrefix,
} from '../store/layout.ts';
import type { Store } from '../store/store.ts';
import { keepHistory } from './history.ts';
import { readManifest } from './ledger.ts';
import {
  formatManifest,
  type Manifest,
  type ManifestDraft,
  type ManifestFile,
  parseManifest,
  signManifest,
} from './manifest.ts';

export const PARQUET_CONTENT_TYPE = 'application/vnd.apache.parquet';
const JSON_CONTENT = { contentType: 'application/json' } as const;

/** Local files of a date. */
export interface DropFiles {
  readonly drop: string;
  readonly summary?: string | undefined;
}

export interface PublishOptions {
  /** The sealed revision that this one replaces; without it the date must not be sealed yet. */
  readonly supersedes?: Manifest | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface PublishResult {
  readonly manifest: Manifest;
  /** Whether the drop's bytes are those of this file; else another worker sealed other bytes, and `manifest` is theirs. */
  readonly won: boolean;
}

/** @param draft everything that the files and the store do not tell @throws StoreFault, Fault `MANIFEST_INVALID`, `SEALING_BROKEN` */
export async function publishDrop(
  store: Store,
  files: DropFiles,
  draft: ManifestDraft,
  options: PublishOptions = {},
): Promise<PublishResult> {
  const { dataset, date } = draft;
  const { supersedes, signal } = options;
  const revision = (supersedes?.revision ?? 0) + 1;
  const sealed = await readManifest(store, dataset, date);
  if (sealed && !isSame(sealed, supersedes)) return { manifest: sealed, won: false };
  if (sealed === undefined && supersedes) throw broken(store, draft, 'the manifest of the revision to replace is gone');
  const contents = await describeFiles(files, dataset);
  const ours = signManifest({
    ...draft,
    revision,
    files: contents.map(({ file }) => file) as [ManifestFile, ...ManifestFile[]],
    supersedes: supersedes?.revision ?? null,
  });
  for (const { file, path } of contents) {
    const key = sealingFileKey(dataset, date, revision, digestOf(file));
    await store.put(key, { path }, { contentType: PARQUET_CONTENT_TYPE, ...(signal ? { signal } : {}) });
  }
  const manifest = await decide(store, ours, files.drop);
  await cleanUp(store, dataset, date, revision);
  return { manifest, won: manifest.files[0].hash === ours.files[0].hash };
}

/**
 * Finishes what workers that died have decided, and removes what they left. Costs one listing when there is nothing.
 * @param scratch local path for files on their way into the history
 * @returns manifests that were published here
 */
export async function finishSealing(store: Store, dataset: string, scratch: string): Promise<readonly Manifest[]> {
  const revisions = new Map<string, { readonly date: string; readonly revision: number }>();
  for await (const { key } of store.list(sealingPrefix(dataset))) {
    const found = parseSealingKey(dataset, key);
    if (found) revisions.set(`${found.date} ${found.revision}`, found);
  }
  const finished: Manifest[] = [];
  for (const { date, revision } of revisions.values()) {
    const found = await readPair(store, dataset, date, revision);
    if (!found) continue;
    const { decided, current } = found;
    const done = (current?.revision ?? 0) >= revision;
    // Without a decision a worker may be about to make one: its files are left alone.
    if (!done && (!decided || decided.supersedes !== (current?.revision ?? null))) continue;
    if (!done && decided) finished.push(await publishDecided(store, decided, current, scratch));
    await cleanUp(store, dataset, date, revision);
  }
  return finished;
}

/** Decision and manifest of a date; `undefined` when one of them is damaged, which `verify` tells, not the run. */
async function readPair(store: Store, dataset: string, date: string, revision: number) {
  try {
    const decided = await readDecision(store, sealingDecisionKey(dataset, date, revision));
    return { decided, current: await readManifest(store, dataset, date) };
  } catch (error) {
    if (!isFault(error) || error.code !== 'MANIFEST_INVALID') throw error;
    return undefined;
  }
}

/** Steps 2 to 4. Returns the manifest of the revision, whoever's it is. */
async function decide(store: Store, ours: Manifest, scratch: string): Promise<Manifest> {
  const { dataset, date, revision } = ours;
  const key = sealingDecisionKey(dataset, date, revision);
  const won = await store.putIfAbsent(key, formatManifest(ours), JSON_CONTENT);
  const decided = won ? ours : await readDecision(store, key);
  // Decisions are removed only once there is a manifest of their revision. So a decision that was read before the ledger
  // was found without it is the one that counts, and one that was made after that is void.
  const current = await readManifest(store, dataset, date);
  if (current && current.revision >= revision) return current;
  if (decided) return await publishDecided(store, decided, current, scratch);
  throw broken(store, ours, 'the decision of another worker is gone, and so is its manifest');
}

/** Steps 3 and 4 for the decided files; any worker may do them, and several at once. */
async function publishDecided(
  store: Store,
  decided: Manifest,
  current: Manifest | undefined,
  scratch: string,
): Promise<Manifest> {
  const { dataset, date, revision } = decided;
  const folder = partitionPrefix(dataset, date);
  try {
    if (current) await keepHistory(store, current, `${scratch}.history`);
    for (const file of decided.files) {
      await store.copy(sealingFileKey(dataset, date, revision, digestOf(file)), folder + file.filename);
    }
  } catch (error) {
    // Another worker has finished and cleaned up: then the manifest is there.
    const published = await readManifest(store, dataset, date);
    if (published && published.revision >= revision) return published;
    throw error;
  }
  const names = new Set(decided.files.map(({ filename }) => filename));
  for (const { filename } of current?.files ?? []) if (!names.has(filename)) await store.remove(folder + filename);
  const published = await readManifest(store, dataset, date);
  if (published && published.revision >= revision) return published;
  await store.put(manifestKey(dataset, date), { bytes: formatManifest(decided) }, JSON_CONTENT);
  return decided;
}

function isSame(sealed: Manifest, expected: Manifest | undefined): boolean {
  return sealed.revision === expected?.revision && sealed.files[0].hash === expected.files[0].hash;
}

/** Once the manifest of the revision is published, nothing of this is needed by anybody. */
async function cleanUp(store: Store, dataset: string, date: string, revision: number): Promise<void> {
  const keys: string[] = [];
  for await (const { key } of store.list(sealingPrefix(dataset, date, revision))) keys.push(key);
  for (const key of keys) await store.remove(key);
}

async function describeFiles(files: DropFiles, dataset: string) {
  const named = [
    { path: files.drop, filename: dropFilename(dataset) },
    ...(files.summary === undefined ? [] : [{ path: files.summary, filename: SUMMARY_FILENAME }]),
  ];
  return await Promise.all(
    named.map(async ({ path, filename }) => {
      const file: ManifestFile = { filename, size: (await stat(path)).size, hash: `sha256:${await hashFile(path)}` };
      return { path, file };
    }),
  );
}

function digestOf(file: ManifestFile): string {
  return file.hash.replace('sha256:', '');
}

async function readDecision(store: Store, key: string): Promise<Manifest | undefined> {
  const bytes = await store.get(key);
  return bytes && parseManifest(bytes, `${store.url}/${key}`);
}

function broken(store: Store, { dataset, date }: Pick<Manifest, 'dataset' | 'date'>, what: string): Fault {
  return new Fault('SEALING_BROKEN', `${store.url}/${partitionPrefix(dataset, date)}${MANIFEST_FILENAME}: ${what}`, {
    hint: 'Something else removes objects there, a lifecycle rule perhaps. Nothing was lost; run again.',
  });
}
