/**
 * The decision of a revision: the complete manifest to be published next, written once (see `publish.ts`). Invariant: a
 * decision is carried out only when it is unaltered, belongs to its place, and every file that it names exists with the
 * named bytes. Read-only.
 */
import { createHash } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { hashFile } from '../core/file-hash.ts';
import type { Store } from '../store/store.ts';
import { fileKey, sealingDecisionKey, sealingFileKey } from './layout.ts';
import { type Manifest, type ManifestFile, readSigned } from './manifest.ts';

type FoundDecision =
  | { readonly kind: 'none' }
  | { readonly kind: 'whole'; readonly decided: Manifest; readonly bytes: Uint8Array }
  /** Damaged, edited, or belonging to another place; `reason` in words. */
  | { readonly kind: 'broken'; readonly reason: string; readonly bytes: Uint8Array };

/** Costs a request. */
export async function readDecision(
  store: Store,
  dataset: string,
  date: string,
  revision: number,
): Promise<FoundDecision> {
  const key = sealingDecisionKey(dataset, date, revision);
  const bytes = await store.get(key);
  if (bytes === undefined) return { kind: 'none' };
  const { manifest: decided, findings } = readSigned(bytes, `${store.url}/${key}`, { dataset, date, revision });
  if (decided === undefined || findings.length > 0) return { kind: 'broken', reason: findings.join('; '), bytes };
  if (decided.supersedes === (revision === 1 ? null : revision - 1)) return { kind: 'whole', decided, bytes };
  const reason = `${store.url}/${key} is a decision in place of revision ${decided.supersedes ?? 'none'}`;
  return { kind: 'broken', reason, bytes };
}

type LocatedFiles =
  /** Files that must still be copied to the partition; the others are already there. */
  | { readonly kind: 'whole'; readonly toCopy: readonly ManifestFile[] }
  | { readonly kind: 'lost'; readonly reason: string };

/**
 * Finds the decided files and compares the size and hash of each. A worker that died halfway may have copied some.
 * @param scratch local path, removed afterwards
 */
export async function locateFiles(store: Store, decided: Manifest, scratch: string): Promise<LocatedFiles> {
  const { dataset, date, revision } = decided;
  const toCopy: ManifestFile[] = [];
  try {
    for (const file of decided.files) {
      const key = sealingFileKey(dataset, date, revision, digestOf(file));
      const found = await holds(store, key, file, scratch);
      if (found === 'same') toCopy.push(file);
      else if ((await holds(store, fileKey(dataset, date, file.filename), file, scratch)) !== 'same') {
        const reason = `${store.url}/${key}, which is to become ${file.filename}, ${found === 'none' ? 'is missing' : 'differs from its hash in the decision'}`;
        return { kind: 'lost', reason };
      }
    }
    return { kind: 'whole', toCopy };
  } finally {
    await rm(scratch, { force: true });
  }
}

async function holds(
  store: Store,
  key: string,
  { size, hash }: ManifestFile,
  scratch: string,
): Promise<'same' | 'other' | 'none'> {
  const info = await store.head(key);
  if (info === undefined) return 'none';
  if (info.sizeBytes !== size) return 'other';
  if (!(await store.download(key, scratch))) return 'none';
  return hash === `sha256:${await hashFile(scratch)}` ? 'same' : 'other';
}

export function digestOf(file: ManifestFile): string {
  return file.hash.replace('sha256:', '');
}

/** Distinguishes a decision from others for the same revision. */
export function digestDecision(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex').slice(0, 16);
}
