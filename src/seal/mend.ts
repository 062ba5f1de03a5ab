/**
 * Rebuilds the missing summary of a sealed date from its drop. Invariant: a file beside a manifest is byte for byte the
 * file that the manifest describes. Another engine version writes other bytes: then the same drop is sealed as the next
 * revision with the new summary. A damaged drop is not changed.
 */
import { rm, stat } from 'node:fs/promises';
import { hashFile } from '../core/file-hash.ts';
import type { Engine } from '../engine/engine.ts';
import { fetchFile } from '../ledger/history.ts';
import { fileKey, SUMMARY_FILENAME } from '../ledger/layout.ts';
import type { Manifest, ManifestDraft } from '../ledger/manifest.ts';
import { PARQUET_CONTENT_TYPE, publishDrop } from '../ledger/publish.ts';
import { readManifest } from '../ledger/sealed-dates.ts';
import type { Store } from '../store/store.ts';
import { writeSummary } from './summary.ts';

interface MendDeps {
  readonly store: Store;
  readonly engine: Engine;
  /** Local path; files whose names begin with it are removed afterwards. */
  readonly scratch: string;
  readonly nowMs: number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * `restored`: the sealed revision has its summary again. `resealed`: the next revision has one. `not-mended`: the drop
 * is damaged, or another worker replaced it meanwhile.
 */
type Mended = 'restored' | 'resealed' | 'not-mended';

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
    // A later revision has its own summary.
    if ((await readManifest(store, dataset, date))?.revision !== manifest.revision) return 'not-mended';
    const key = fileKey(dataset, date, file.filename);
    await store.put(key, { path: paths.summary }, { contentType: PARQUET_CONTENT_TYPE, signal });
    return 'restored';
  } finally {
    for (const path of Object.values(paths)) await rm(path, { force: true });
  }
}

/** Drafts the next revision with the same rows. The history of the replaced one lacks the missing file. */
function draftAgain(manifest: Manifest, nowMs: number): ManifestDraft {
  const { files: _files, revision: _revision, supersedes: _supersedes, manifest_hash: _hash, ...draft } = manifest;
  return { ...draft, sealed_at: new Date(nowMs).toISOString(), changes: null };
}

async function hashOf(path: string): Promise<string> {
  return `sha256:${await hashFile(path)}`;
}
