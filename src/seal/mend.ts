/**
 * Rebuilds a sealed date's missing files beside the drop, summary and counts, from the drop. Invariant: a file beside a
 * manifest is byte for byte the file that the manifest describes. Another engine version writes other bytes, and the counts
 * of a source that sent rows twice cannot be rebuilt: then the same drop is sealed as the next revision, with the new files or
 * without counts. A damaged drop is not changed.
 */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { hashFile } from '../core/atomic-file.ts';
import type { Job } from '../job/job.ts';
import { COUNTS_FILENAME, fileKey, QUARANTINE_FILENAME, SUMMARY_FILENAME } from '../ledger/layout.ts';
import type { Manifest, ManifestDraft } from '../ledger/manifest.ts';
import { publishDrop } from '../ledger/publish.ts';
import { countSealed } from '../stage/sealed-rows.ts';
import type { AuditDeps } from './audit.ts';
import { compareCounts, writeCounts } from './counts-file.ts';
import { writeSummary } from './summary.ts';

/** What this module can rebuild. */
const MENDABLE: readonly string[] = [SUMMARY_FILENAME, COUNTS_FILENAME];

interface Mended {
  /** `restored`: the sealed revision has its files again. `resealed`: the next revision has what can be had. */
  readonly how: 'restored' | 'resealed';
  /** Names of the files that were missing or damaged; none if another worker has mended them meanwhile. */
  readonly files: readonly string[];
}

/**
 * @returns `undefined` for what cannot be mended, or if another worker replaces the date meanwhile
 * @throws StoreFault, EngineFault; Fault `SEALING_BROKEN`
 */
export async function mendFiles(deps: AuditDeps, job: Job, date: string, nowMs: number): Promise<Mended | undefined> {
  const { ledger, folder, signal } = deps;
  const manifest = await ledger.validManifest(date);
  if (manifest === undefined) return undefined;
  const [{ filename: dropName, size }, ...beside] = manifest.files;
  // A drop that is certainly damaged costs no download.
  if ((await ledger.store.head(fileKey(ledger.dataset, date, dropName)))?.sizeBytes !== size) return undefined;
  const pathOf = (name: string) => join(folder, `mend.${name}`);
  const drop = pathOf(dropName);
  try {
    const files: string[] = [];
    for (const file of beside) {
      if (!(await ledger.fetchFile(date, file, pathOf(file.filename), signal))) files.push(file.filename);
    }
    if (!files.every((name) => MENDABLE.includes(name))) return undefined;
    if (!(await ledger.fetchFile(date, manifest.files[0], drop, signal))) return undefined;
    let { counts } = manifest;
    let isSame = true;
    for (const { filename: name, hash } of beside.filter(({ filename }) => files.includes(filename))) {
      const isRebuilt = await rebuild(deps, job, manifest, { drop, name, path: pathOf(name) });
      if (!isRebuilt) counts = undefined;
      isSame &&= isRebuilt && `sha256:${await hashFile(pathOf(name))}` === hash;
    }
    if (!isSame) {
      const paths = {
        drop,
        summary: pathOf(SUMMARY_FILENAME),
        counts: pathOf(COUNTS_FILENAME),
        quarantine: pathOf(QUARANTINE_FILENAME),
      };
      const draft = { ...draftAgain(manifest, nowMs), counts };
      const { won } = await publishDrop(ledger, paths, draft, { supersedes: manifest, signal });
      return won ? { how: 'resealed', files } : undefined;
    }
    // A later revision has its own files.
    if ((await ledger.validManifest(date))?.revision !== manifest.revision) return undefined;
    for (const name of files) {
      await ledger.store.put(fileKey(ledger.dataset, date, name), { path: pathOf(name) }, { signal });
    }
    return { how: 'restored', files };
  } finally {
    for (const { filename } of manifest.files) await rm(pathOf(filename), { force: true });
  }
}

/** @returns whether the file can be had: the drop's own counts must be those that the source had */
async function rebuild(
  { engine, calendar }: AuditDeps,
  job: Job,
  manifest: Manifest,
  { drop, name, path }: Readonly<Record<'drop' | 'name' | 'path', string>>,
): Promise<boolean> {
  const { date, recount, extra_columns: extraFields } = manifest;
  if (name === manifest.summary) {
    await writeSummary(engine, { path: drop, date, calendar }, path);
    return true;
  }
  if (name !== manifest.counts || job.source.kind !== 'rows' || recount === undefined) return false;
  const columns = job.source.columns.filter(({ name }) => recount.columns.includes(name));
  const hashed = recount.id_hash === undefined ? undefined : columns;
  const counts = await countSealed(engine, job, date, { path: drop, extraFields, symbols: [] }, 'time', { hashed });
  await writeCounts(engine, path, counts);
  return (await compareCounts(engine, path, manifest)).length === 0;
}

/** Drafts the next revision with the same rows. The history of the replaced one lacks the missing file. */
export function draftAgain(manifest: Manifest, nowMs: number): ManifestDraft {
  const { files: _files, revision: _revision, supersedes: _supersedes, manifest_hash: _hash, ...draft } = manifest;
  return { ...draft, sealed_at: new Date(nowMs).toISOString(), changes: null };
}
