/**
 * Rebuilds a sealed date's missing files beside the drop, summary and counts, from the drop. Invariant: a file beside a
 * manifest is byte for byte the file that the manifest describes. Another engine version writes other bytes, and the counts
 * of a source that sent rows twice cannot be rebuilt: then the same drop is sealed as the next revision, with the new files or
 * without counts. A damaged drop is not changed.
 */
import { rm } from 'node:fs/promises';
import type { CalendarOverride } from '../calendar/session.ts';
import { hashFile } from '../core/atomic-file.ts';
import type { Engine } from '../engine/engine.ts';
import type { Job } from '../job/job.ts';
import { COUNTS_FILENAME, fileKey, SUMMARY_FILENAME } from '../ledger/layout.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Manifest, ManifestDraft, ManifestFile } from '../ledger/manifest.ts';
import { publishDrop } from '../ledger/publish.ts';
import { countSealed } from '../stage/sealed-rows.ts';
import { compareCounts, writeCounts } from './counts-file.ts';
import { writeSummary } from './summary.ts';

/** What this module can rebuild. */
const MENDABLE: readonly string[] = [SUMMARY_FILENAME, COUNTS_FILENAME];

interface MendDeps {
  readonly ledger: Ledger;
  readonly engine: Engine;
  readonly calendar: CalendarOverride | undefined;
  /** Local path; files whose names begin with it are removed afterwards. */
  readonly scratch: string;
  readonly nowMs: number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * `restored`: the sealed revision has its files again. `resealed`: the next revision has what can be had. `not-mended`: the
 * drop is damaged, or another worker replaced it meanwhile.
 */
type Mended = 'restored' | 'resealed' | 'not-mended';

/** Whether all of these files can be rebuilt from the drop. */
export function isMendable(filenames: readonly string[]): boolean {
  return filenames.every((name) => MENDABLE.includes(name));
}

/** @throws StoreFault, EngineFault; Fault `MANIFEST_INVALID`, `SEALING_BROKEN` */
export async function mendFiles(deps: MendDeps, job: Job, date: string): Promise<Mended> {
  const { ledger, scratch, signal } = deps;
  const manifest = await ledger.manifest(date);
  if (manifest === undefined) return 'not-mended';
  const [drop, ...beside] = manifest.files;
  const pathOf = ({ filename }: ManifestFile) => `${scratch}.${filename}`;
  const rebuilt: ManifestFile[] = [];
  const lost: ManifestFile[] = [];
  try {
    if (!(await ledger.fetchFile(date, drop, scratch, signal))) return 'not-mended';
    for (const file of beside) {
      if (await ledger.fetchFile(date, file, pathOf(file), signal)) continue;
      const isRebuilt = await rebuild(deps, job, manifest, { drop: scratch, file, path: pathOf(file) });
      (isRebuilt ? rebuilt : lost).push(file);
    }
    if (!isMendable(lost.map(({ filename }) => filename))) return 'not-mended';
    const isSame = async (file: ManifestFile) => `sha256:${await hashFile(pathOf(file))}` === file.hash;
    if (lost.length > 0 || (await Promise.all(rebuilt.map(isSame))).includes(false)) {
      const find = (name: string | null | undefined) => {
        const file = beside.find(({ filename }) => filename === name);
        return file && !lost.includes(file) ? file : undefined;
      };
      const [summary, counts, quarantine] = [manifest.summary, manifest.counts, manifest.quarantine?.filename].map(
        find,
      );
      const files = {
        drop: scratch,
        summary: summary && pathOf(summary),
        counts: counts && pathOf(counts),
        quarantine: quarantine && pathOf(quarantine),
      };
      const draft = { ...draftAgain(manifest, deps.nowMs), counts: counts?.filename };
      const { won } = await publishDrop(ledger, files, draft, { supersedes: manifest, signal });
      return won ? 'resealed' : 'not-mended';
    }
    // A later revision has its own files.
    if ((await ledger.manifest(date))?.revision !== manifest.revision) return 'not-mended';
    for (const file of rebuilt) {
      await ledger.store.put(fileKey(ledger.dataset, date, file.filename), { path: pathOf(file) }, { signal });
    }
    return 'restored';
  } finally {
    for (const path of [scratch, ...beside.map(pathOf)]) await rm(path, { force: true });
  }
}

/** @returns whether the file can be had: the drop's own counts must be those that the source had */
async function rebuild(
  { engine, calendar }: MendDeps,
  job: Job,
  manifest: Manifest,
  { drop, file, path }: { readonly drop: string; readonly file: ManifestFile; readonly path: string },
): Promise<boolean> {
  const { date, recount, extra_columns: extraFields } = manifest;
  if (file.filename === manifest.summary) {
    await writeSummary(engine, { path: drop, date, calendar }, path);
    return true;
  }
  if (file.filename !== manifest.counts || job.source.kind !== 'rows' || recount === undefined) return false;
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
