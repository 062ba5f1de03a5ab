/**
 * Auditing what is around the sealed dates of a dataset: objects that nobody's manifest names, the replaced revisions in
 * the history, and `condition.json` against the manifests. Changes nothing.
 */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { makeFolder } from '../core/folder.ts';
import {
  conditionKey,
  datasetPrefix,
  historyKey,
  historyPrefix,
  MANIFEST_FILENAME,
  parseDatasetKey,
} from '../store/layout.ts';
import type { Store } from '../store/store.ts';
import { type AuditDeps, fetchAndHash, readSigned } from './audit.ts';
import { describeSealed, readConditionDocument } from './condition.ts';
import type { Manifest } from './manifest.ts';
import { readSuccessor } from './restating.ts';

/** Objects below the dataset that belong to no sealed date, to no kept revision, and are not its conditions. */
export async function findForeignKeys(
  store: Store,
  dataset: string,
  sealed: readonly string[],
): Promise<readonly string[]> {
  const dates = new Set(sealed);
  const findings: string[] = [];
  for await (const { key } of store.list(datasetPrefix(dataset))) {
    const part = parseDatasetKey(dataset, key);
    if (!part) findings.push(`${key} does not belong to the dataset`);
    else if (part.kind !== 'condition' && !dates.has(part.date))
      findings.push(`${key} is of a date that is not sealed`);
  }
  return findings;
}

/** The replaced revisions of a date: whole, their own, and each older than the sealed one. */
export async function auditHistory(deps: AuditDeps, manifest: Manifest): Promise<readonly string[]> {
  const { store, folder } = deps;
  const { dataset, date } = manifest;
  const keys = new Map<number, string[]>();
  for await (const { key } of store.list(historyPrefix(dataset, date))) {
    const part = parseDatasetKey(dataset, key);
    if (part?.kind !== 'history') continue; // `findForeignKeys` names it.
    keys.set(part.revision, [...(keys.get(part.revision) ?? []), key]);
  }
  const findings: string[] = [];
  await makeFolder(folder);
  for (let revision = 1; revision < manifest.revision; revision += 1) {
    findings.push(...(await auditRevision(deps, manifest, revision, keys.get(revision) ?? [])));
    keys.delete(revision);
  }
  // The first step of a restatement that is under way.
  if (keys.has(manifest.revision) && (await readSuccessor(store, manifest))) keys.delete(manifest.revision);
  for (const found of keys.values()) {
    findings.push(
      ...found.map((key) => `${key} is of no revision that was replaced: the sealed one is ${manifest.revision}`),
    );
  }
  return findings;
}

async function auditRevision(
  deps: AuditDeps,
  current: Manifest,
  revision: number,
  keys: readonly string[],
): Promise<readonly string[]> {
  const { store, folder } = deps;
  const { dataset, date } = current;
  const manifestAt = historyKey(dataset, date, revision, MANIFEST_FILENAME);
  const bytes = await store.get(manifestAt);
  if (!bytes) return [`${manifestAt} is missing: revision ${revision} was replaced, and its history is gone`];
  const { manifest, findings } = readSigned(bytes, manifestAt);
  if (!manifest) return findings;
  const wrong = [...findings];
  if (manifest.date !== date || manifest.dataset !== dataset || manifest.revision !== revision) {
    wrong.push(`${manifestAt} is the manifest of ${manifest.dataset} ${manifest.date} revision ${manifest.revision}`);
  }
  const prefix = historyKey(dataset, date, revision, '');
  const known = new Set([manifestAt, ...manifest.files.map(({ filename }) => prefix + filename)]);
  wrong.push(...keys.filter((key) => !known.has(key)).map((key) => `${key} does not belong to revision ${revision}`));
  const path = join(folder, 'history.parquet');
  try {
    for (const file of manifest.files) wrong.push(...(await fetchAndHash(deps, prefix, file, path)));
  } finally {
    await rm(path, { force: true });
  }
  return wrong;
}

/** `condition.json` against the manifests of all sealed dates. */
export async function auditConditions(
  store: Store,
  dataset: string,
  manifests: ReadonlyMap<string, Manifest | undefined>,
): Promise<readonly string[]> {
  const key = conditionKey(dataset);
  const { entries, text, fault } = await readConditionDocument(store, dataset);
  if (fault !== undefined) return [`${key} is not in shape: ${fault}`];
  if (text === '') return manifests.size === 0 ? [] : [`${key} is missing; the next run writes it`];
  const findings: string[] = [];
  for (const [date, manifest] of manifests) {
    if (!manifest) continue; // Its own finding says that it is damaged.
    const expected = describeSealed(manifest);
    const entry = entries.get(date);
    if (!entry) findings.push(`${key} has no entry of ${date}, which is sealed`);
    for (const name of ['condition', 'last_modified_date', 'revision', 'rows'] as const) {
      if (entry && entry[name] !== expected[name]) {
        findings.push(`${key} says of ${date} ${name} ${String(entry[name])}, its manifest ${String(expected[name])}`);
      }
    }
  }
  for (const { date, condition, revision } of entries.values()) {
    if (revision !== null && !manifests.has(date))
      findings.push(`${key} says ${condition} of ${date}, which is not sealed`);
  }
  return findings;
}
