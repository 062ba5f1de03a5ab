/**
 * Rebuilds a sealed date's missing files beside the drop, summary and counts, from the drop. Invariant: a file beside a
 * manifest is byte for byte the file that the manifest describes. Another engine version writes other bytes, and the counts
 * of a source that sent rows twice cannot be rebuilt: then the same drop is sealed as the next revision, with the new files or
 * without counts. A damaged drop is not changed.
 */
import { rm, stat } from 'node:fs/promises';
import { hashFile } from '../core/atomic-file.ts';
import type { Engine } from '../engine/engine.ts';
import type { Job } from '../job/job.ts';
import { COUNTS_FILENAME, fileKey, SUMMARY_FILENAME } from '../ledger/layout.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Manifest, ManifestDraft } from '../ledger/manifest.ts';
import { publishDrop } from '../ledger/publish.ts';
import { countSealed } from '../stage/sealed-rows.ts';
import { compareCounts, writeCounts } from './counts-file.ts';
import { writeSummary } from './summary.ts';

/** What this module can rebuild. */
const MENDABLE: readonly string[] = [SUMMARY_FILENAME, COUNTS_FILENAME];

interface MendDeps {
  readonly ledger: Ledger;
  readonly engine: Engine;
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
  const { ledger, engine, scratch, signal } = deps;
  const { store, dataset } = ledger;
  const paths = {
    drop: scratch,
    summary: `${scratch}.summary`,
    counts: `${scratch}.counts`,
    quarantine: `${scratch}.quarantine`,
    stored: `${scratch}.stored`,
  };
  try {
    const manifest = await ledger.manifest(date);
    if (manifest === undefined) return 'not-mended';
    const find = (name: string | undefined | null) => manifest.files.find(({ filename }) => filename === name);
    const [summary, counts, quarantine] = [manifest.summary, manifest.counts, manifest.quarantine?.filename].map(find);
    if (!(await ledger.fetchFile(date, manifest.files[0], paths.drop, signal))) return 'not-mended';
    if (summary) await writeSummary(engine, paths.drop, paths.summary);
    const hasCounts = counts !== undefined && (await rebuildCounts(engine, job, manifest, paths));
    const rebuilt = [
      ...(summary ? [{ file: summary, path: paths.summary }] : []),
      ...(counts ? [{ file: counts, path: paths.counts }] : []),
    ];
    const differs = async ({ file, path }: (typeof rebuilt)[number]) =>
      (path === paths.counts && !hasCounts) ||
      (await hashOf(path)) !== file.hash ||
      (await stat(path)).size !== file.size;
    const missing: typeof rebuilt = [];
    // What the store has may be damaged, too.
    for (const one of rebuilt) if (!(await ledger.fetchFile(date, one.file, paths.stored, signal))) missing.push(one);
    if ((await Promise.all(missing.map(differs))).includes(true)) {
      if (quarantine && !(await ledger.fetchFile(date, quarantine, paths.quarantine, signal))) return 'not-mended';
      const files = {
        drop: paths.drop,
        summary: summary && paths.summary,
        counts: hasCounts ? paths.counts : undefined,
        quarantine: quarantine && paths.quarantine,
      };
      const draft = { ...draftAgain(manifest, deps.nowMs), counts: hasCounts ? COUNTS_FILENAME : undefined };
      const { won } = await publishDrop(ledger, files, draft, {
        supersedes: manifest,
        signal,
      });
      return won ? 'resealed' : 'not-mended';
    }
    // A later revision has its own files.
    if ((await ledger.manifest(date))?.revision !== manifest.revision) return 'not-mended';
    for (const { file, path } of missing) {
      const key = fileKey(dataset, date, file.filename);
      await store.put(key, { path }, { signal });
    }
    return 'restored';
  } finally {
    for (const path of Object.values(paths)) await rm(path, { force: true });
  }
}

/** @returns whether the drop's own counts are those that the source had */
async function rebuildCounts(
  engine: Engine,
  job: Job,
  manifest: Manifest,
  paths: { readonly drop: string; readonly counts: string },
): Promise<boolean> {
  const { date, recount, extra_columns: extraFields } = manifest;
  if (job.source.kind !== 'rows' || recount === undefined) return false;
  const hashed = job.source.columns.filter(({ name }) => recount.columns.includes(name));
  const drop = { path: paths.drop, extraFields, symbols: [] };
  const options = { hashed: recount.id_hash === undefined ? undefined : hashed };
  const counts = await countSealed(engine, job, date, drop, 'time', options);
  await writeCounts(engine, paths.counts, counts);
  return (await compareCounts(engine, paths.counts, manifest)).length === 0;
}

/** Drafts the next revision with the same rows. The history of the replaced one lacks the missing file. */
export function draftAgain(manifest: Manifest, nowMs: number): ManifestDraft {
  const { files: _files, revision: _revision, supersedes: _supersedes, manifest_hash: _hash, ...draft } = manifest;
  return { ...draft, sealed_at: new Date(nowMs).toISOString(), changes: null };
}

async function hashOf(path: string): Promise<string> {
  return `sha256:${await hashFile(path)}`;
}
