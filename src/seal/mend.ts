/**
 * A sealed date whose summary is gone: the summary is written anew from the drop. Invariant: what is put beside a manifest
 * is what it describes, byte for byte. Another version of the engine writes other bytes: then the same drop is sealed as
 * the next revision, with the summary that it has now. A drop that is not what was sealed is left alone.
 */
import { rm, stat } from 'node:fs/promises';
import { hashFile } from '../core/file-hash.ts';
import type { Engine } from '../engine/engine.ts';
import { fetchFile } from '../ledger/history.ts';
import { partitionPrefix, SUMMARY_FILENAME } from '../ledger/layout.ts';
import type { Manifest, ManifestDraft } from '../ledger/manifest.ts';
import { PARQUET_CONTENT_TYPE, publishDrop } from '../ledger/publish.ts';
import { readManifest } from '../ledger/sealed-dates.ts';
import type { Store } from '../store/store.ts';
import { writeSummary } from './summary.ts';

export interface MendDeps {
  readonly store: Store;
  readonly engine: Engine;
  /** Local path; what is written under names that begin with it is removed afterwards. */
  readonly scratch: string;
  readonly nowMs: number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * `restored`: the summary of the sealed revision is there again. `resealed`: it is that of the next revision.
 * `not-mended`: the drop is not what was sealed, or somebody else replaced it meanwhile.
 */
export type Mended = 'restored' | 'resealed' | 'not-mended';

/** @throws StoreFault, EngineFault; Fault `MANIFEST_INVALID`, `SEALING_BROKEN` */
export async function mendSummary(deps: MendDeps, dataset: string, date: string): Promise<Mended> {
  const { store, engine, scratch, signal } = deps;
  const paths = { drop: scratch, summary: `${scratch}.summary`, quarantine: `${scratch}.quarantine` };
  try {
    const manifest = await readManifest(store, dataset, date);
    const file = manifest?.files.find(({ filename }) => filename === SUMMARY_FILENAME);
    if (manifest === undefined || file === undefined) return 'not-mended';
    if (!(await fetchFile(store, manifest, manifest.files[0], paths.drop, signal))) return 'not-mended';
    await writeSummary(engine, paths.drop, paths.summary);
    const isSame = (await stat(paths.summary)).size === file.size && (await hashOf(paths.summary)) === file.hash;
    const quarantine = manifest.files.find(({ filename }) => filename === manifest.quarantine?.filename);
    if (!isSame && quarantine && !(await fetchFile(store, manifest, quarantine, paths.quarantine, signal)))
      return 'not-mended';
    if (!isSame) {
      const files = { drop: paths.drop, summary: paths.summary, quarantine: quarantine && paths.quarantine };
      const { won } = await publishDrop(store, files, draftAgain(manifest, deps.nowMs), {
        supersedes: manifest,
        signal,
      });
      return won ? 'resealed' : 'not-mended';
    }
    // A later revision has a summary of its own.
    if ((await readManifest(store, dataset, date))?.revision !== manifest.revision) return 'not-mended';
    const key = partitionPrefix(dataset, date) + file.filename;
    await store.put(key, { path: paths.summary }, { contentType: PARQUET_CONTENT_TYPE, ...(signal ? { signal } : {}) });
    return 'restored';
  } finally {
    for (const path of Object.values(paths)) await rm(path, { force: true });
  }
}

/** The next revision of the same rows. That a file of the replaced one was gone is why its history has it not. */
function draftAgain(manifest: Manifest, nowMs: number): ManifestDraft {
  const { files: _files, revision: _revision, supersedes: _supersedes, manifest_hash: _hash, ...draft } = manifest;
  return { ...draft, sealed_at: new Date(nowMs).toISOString(), changes: null };
}

async function hashOf(path: string): Promise<string> {
  return `sha256:${await hashFile(path)}`;
}
