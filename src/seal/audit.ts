/**
 * Auditing a sealed date: the object re-hashed, re-read by the independent reader and compared with its manifest. Finds
 * a flipped byte, a missing object, an edited manifest. Changes nothing.
 */
import { rm } from 'node:fs/promises';
import { Fault, isFault } from '../core/errors.ts';
import { hashFile } from '../core/file-hash.ts';
import { dropKey, manifestKey, partitionPrefix } from '../store/layout.ts';
import type { Store } from '../store/store.ts';
import { readManifest } from './ledger.ts';
import type { Manifest } from './manifest.ts';
import { readIndependently } from './verify.ts';

export interface AuditResult {
  readonly date: string;
  readonly rows: number;
  /** What is wrong, in words; empty when the drop is as it was sealed. */
  readonly findings: readonly string[];
}

/** @param path where the object is copied to for the time of the audit */
export async function auditDrop(
  store: Store,
  dataset: string,
  date: string,
  path: string,
  signal?: AbortSignal,
): Promise<AuditResult> {
  let manifest: Manifest | undefined;
  try {
    manifest = await readManifest(store, dataset, date);
  } catch (error) {
    if (!(error instanceof Fault) || error.code !== 'MANIFEST_INVALID') throw error;
    return { date, rows: 0, findings: [error.message] };
  }
  if (!manifest) return { date, rows: 0, findings: ['there is no manifest: the date is not sealed'] };
  try {
    const findings = [
      ...(await compareFile(store, manifest, path, signal)),
      ...(await findForeignObjects(store, manifest)),
      ...compareIdentity(manifest, dataset, date),
    ];
    return { date, rows: manifest.rows, findings };
  } finally {
    await rm(path, { force: true });
  }
}

async function compareFile(
  store: Store,
  manifest: Manifest,
  path: string,
  signal?: AbortSignal,
): Promise<readonly string[]> {
  const [file] = manifest.files;
  const key = dropKey(manifest.dataset, manifest.date);
  const info = await store.head(key);
  if (!info) return [`${key} is missing`];
  const findings: string[] = [];
  if (info.sizeBytes !== file.size) findings.push(`${key} has ${info.sizeBytes} bytes, the manifest says ${file.size}`);
  if (!(await store.download(key, path, signal))) return [`${key} is missing`];
  const hash = `sha256:${await hashFile(path)}`;
  if (hash !== file.hash) findings.push(`${key} has the hash ${hash}, the manifest says ${file.hash}`);
  try {
    const found = await readIndependently(path);
    if (found.rows !== manifest.rows)
      findings.push(`${key} has ${found.rows} rows, the manifest says ${manifest.rows}`);
    if (JSON.stringify(found.schema) !== JSON.stringify(manifest.schema))
      findings.push(`${key} has other columns than the manifest says`);
  } catch (error) {
    if (!isFault(error)) throw error;
    findings.push(`${key} cannot be read as Parquet`);
  }
  return findings;
}

async function findForeignObjects(store: Store, manifest: Manifest): Promise<readonly string[]> {
  const { dataset, date } = manifest;
  const known = new Set([dropKey(dataset, date), manifestKey(dataset, date)]);
  const findings: string[] = [];
  for await (const { key } of store.list(partitionPrefix(dataset, date))) {
    if (!known.has(key)) findings.push(`${key} does not belong to the drop`);
  }
  return findings;
}

function compareIdentity(manifest: Manifest, dataset: string, date: string): readonly string[] {
  if (manifest.dataset === dataset && manifest.date === date) return [];
  return [`the manifest is that of ${manifest.dataset} ${manifest.date}`];
}
