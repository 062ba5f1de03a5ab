/** Restating a sealed date: compares the new file with the sealed one before anything is published. */
import { rm } from 'node:fs/promises';
import type { Job } from '../job/job.ts';
import { fetchFile } from '../ledger/history.ts';
import type { Manifest, ManifestDraft } from '../ledger/manifest.ts';
import { compareFiles, isUnchanged } from '../seal/changes.ts';
import type { DropChanges } from '../state/row-changes.ts';
import type { Store } from '../store/store.ts';
import { type DraftFile, sealedCopy } from './draft-file.ts';

interface RestateDeps {
  readonly store: Store;
  readonly signal?: AbortSignal | undefined;
}

interface SealedComparison {
  /** Whether the new file equals the sealed one. */
  readonly unchanged: boolean;
  /** `null` when a sealed file is damaged or missing and cannot be compared. */
  readonly changes: DropChanges | null;
}

/** @param file the new file */
export async function compareWithSealed(
  deps: RestateDeps,
  job: Job,
  sealed: Manifest,
  draft: ManifestDraft,
  file: DraftFile,
): Promise<SealedComparison> {
  const scratch = sealedCopy(file.path);
  try {
    const before = await file.findSealed(sealed);
    if (before === undefined) return { unchanged: false, changes: null };
    const changes = await compareFiles(
      file.engine,
      { from: before, rows: sealed.rows, columns: namesOf(sealed.schema), times: timesOf(sealed.schema) },
      { from: file.from, rows: draft.rows, columns: namesOf(draft.schema), times: timesOf(draft.schema) },
      namesOf(draft.schema).includes('id') ? ['id'] : job.drop.sort,
    );
    // The same rows with other types, in another order, or now complete, make a new revision.
    const sameForm =
      draft.schema_hash === sealed.schema_hash &&
      draft.sort.join() === sealed.sort.join() &&
      describeLack(draft) === describeLack(sealed);
    if (!sameForm || !isUnchanged(changes)) return { unchanged: false, changes };
    // A missing or damaged file beside the drop comes back with a new revision.
    const isWhole = await areWhole(deps, sealed, scratch);
    return { unchanged: isWhole, changes: isWhole ? changes : null };
  } finally {
    await rm(scratch, { force: true });
  }
}

async function areWhole({ store, signal }: RestateDeps, sealed: Manifest, path: string): Promise<boolean> {
  const [, ...beside] = sealed.files;
  for (const file of beside) if (!(await fetchFile(store, sealed, file, path, signal))) return false;
  return true;
}

/** What the drop lacks: the quarantined rows may differ beside the same good rows. */
function describeLack(manifest: ManifestDraft): string {
  const { condition, quarantine, missing = [] } = manifest;
  const bad = quarantine && [quarantine.rows, quarantine.ids, quarantine.reasons];
  // In the order of the answers.
  const windows = missing.map(({ window, reason }) => `${window} ${reason}`).sort();
  return JSON.stringify([condition, bad ?? null, windows]);
}

function timesOf(schema: Manifest['schema']): readonly string[] {
  return namesOf(schema.filter(({ type }) => type.includes('TIMESTAMP')));
}

function namesOf(schema: Manifest['schema']): readonly string[] {
  return schema.map(({ name }) => name);
}
