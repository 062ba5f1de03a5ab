/**
 * Audits a dataset beyond its sealed dates: objects that no manifest names, replaced revisions in the history,
 * `condition.json` against the manifests, and unfinished publishing. Changes nothing.
 */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { makeFolder } from '../core/atomic-file.ts';
import { countOf } from '../core/units.ts';
import { describeSealed } from '../ledger/condition-file.ts';
import {
  conditionKey,
  dropsPrefix,
  historyKey,
  historyPrefix,
  LOST_FILENAME,
  MANIFEST_FILENAME,
  parseDatasetKey,
  parseSealingKey,
  recordsPrefix,
  sealingPrefix,
} from '../ledger/layout.ts';
import { describeLost, type Ledger, type LostRevision } from '../ledger/ledger.ts';
import type { Manifest } from '../ledger/manifest.ts';
import { type AuditDeps, fetchAndHash } from './audit.ts';

/** Objects of the dataset that belong to no sealed date or kept revision, except `condition.json`. */
export async function findForeignKeys(
  { store, dataset }: Ledger,
  sealed: readonly string[],
): Promise<readonly string[]> {
  const dates = new Set(sealed);
  const findings: string[] = [];
  for (const prefix of [recordsPrefix(dataset), dropsPrefix(dataset)]) {
    for await (const { key } of store.list(prefix)) {
      const part = parseDatasetKey(dataset, key);
      if (!part) findings.push(`${key} does not belong to the dataset`);
      else if ('date' in part && part.kind !== 'accepted' && !dates.has(part.date))
        findings.push(`${key} belongs to a date that is not sealed`);
    }
  }
  return findings;
}

/**
 * Audits the replaced revisions of a date: each must be complete, of this date, and older than the sealed one, except
 * for what is on record as lost.
 * @returns `lost`: in words, what is on record and so no finding; `unrecorded`: revisions with other damage, whose bytes are
 *   gone for good
 */
export async function auditHistory(deps: AuditDeps, manifest: Manifest) {
  const { ledger, folder } = deps;
  const { store, dataset } = ledger;
  const { date } = manifest;
  const keys = new Map<number, string[]>();
  for await (const { key } of store.list(historyPrefix(dataset, date))) {
    const part = parseDatasetKey(dataset, key);
    if (part?.kind !== 'history') continue; // `findForeignKeys` reports it.
    keys.set(part.revision, [...(keys.get(part.revision) ?? []), key]);
  }
  const findings: string[] = [];
  const lost: string[] = [];
  const unrecorded = new Map<number, LostRevision>();
  await makeFolder(folder);
  for (let revision = 1; revision < manifest.revision; revision += 1) {
    const known = await ledger.lost(date, revision);
    if (known) lost.push(describeLost(revision, known));
    if (known?.files !== null) {
      const audited = await auditRevision(deps, date, revision, keys.get(revision) ?? [], known?.files ?? []);
      findings.push(...audited.findings);
      if (audited.damage) unrecorded.set(revision, audited.damage);
    }
    keys.delete(revision);
  }
  // The first step of a restatement that is in progress, or whose decision the store lost: the next one continues it.
  if (keys.has(manifest.revision) && (await isFirstStep(ledger, manifest))) keys.delete(manifest.revision);
  for (const key of [...keys.values()].flat()) {
    findings.push(`${key} belongs to no replaced revision; the sealed one is ${manifest.revision}`);
  }
  return { findings, lost, unrecorded };
}

/** Whether what the history has of the sealed revision is a copy of it, kept by a worker that was about to replace it. */
async function isFirstStep(ledger: Ledger, manifest: Manifest): Promise<boolean> {
  if (await ledger.successor(manifest)) return true;
  const kept = await ledger.kept(manifest.date, manifest.revision);
  // Without a manifest nothing counts as kept.
  return kept === undefined || kept.manifest?.manifest_hash === manifest.manifest_hash;
}

/** @param lost files that are on record as lost @returns what is wrong, and what of it cannot be read */
async function auditRevision(
  deps: AuditDeps,
  date: string,
  revision: number,
  keys: readonly string[],
  lost: readonly string[],
): Promise<{ readonly findings: readonly string[]; readonly damage?: LostRevision }> {
  const { folder, ledger } = deps;
  const prefix = historyKey(ledger.dataset, date, revision, '');
  const kept = await ledger.kept(date, revision);
  if (kept === undefined) {
    const missing = `${prefix}${MANIFEST_FILENAME} is missing: revision ${revision} was replaced, and its history is gone`;
    return { findings: [missing], damage: { files: null, reason: 'its manifest is missing in the history' } };
  }
  const { manifest, findings } = kept;
  if (!manifest) {
    return { findings, damage: { files: null, reason: 'its manifest was edited or damaged in the history' } };
  }
  const names = manifest.files.map(({ filename }) => filename);
  const known = new Set([...names, MANIFEST_FILENAME, LOST_FILENAME].map((name) => prefix + name));
  const wrong = keys.filter((key) => !known.has(key)).map((key) => `${key} does not belong to revision ${revision}`);
  const spoilt: string[] = [];
  const path = join(folder, 'history.parquet');
  for (const file of manifest.files) {
    if (lost.includes(file.filename)) continue;
    const found = await fetchAndHash(deps, prefix + file.filename, file, path);
    wrong.push(...found);
    if (found.length > 0) spoilt.push(file.filename);
  }
  await rm(path, { force: true });
  if (spoilt.length === 0) return { findings: wrong };
  return { findings: wrong, damage: { files: [...lost, ...spoilt], reason: 'missing or damaged in the history' } };
}

/**
 * Describes the objects under `sealing/` of the dataset: decisions set aside, and the unfinished work of a worker.
 * None of them damages sealed dates.
 */
export async function listLeftovers({ store, dataset }: Ledger): Promise<readonly string[]> {
  const found = new Map<string, string[]>();
  for await (const { key } of store.list(sealingPrefix(dataset))) {
    const folder = key.slice(0, key.lastIndexOf('/') + 1);
    found.set(folder, [...(found.get(folder) ?? []), key]);
  }
  return [...found].map(([folder, keys]) => {
    const place = parseSealingKey(dataset, folder);
    if (place === undefined) return `${folder} does not belong to flowdrop`;
    if (place.isSetAside) return `${folder} was set aside: reason.txt says why; remove it when it is no longer needed`;
    const isDecided = keys.some((key) => key.endsWith('/decision.json'));
    if (isDecided) return `${folder} is a seal in progress, or one that the next run finishes`;
    return `${folder} has ${countOf(keys.length, 'file')} of a seal in progress, or one that was killed: a run removes them after a day`;
  });
}

/** Compares `condition.json` with the manifests of all sealed dates. */
export async function auditConditions(
  ledger: Ledger,
  manifests: ReadonlyMap<string, Manifest | undefined>,
): Promise<readonly string[]> {
  const key = conditionKey(ledger.dataset);
  const { entries, text, fault } = await ledger.conditions();
  if (fault !== undefined) return [`${key} is invalid: ${fault}`];
  if (text === '') return manifests.size === 0 ? [] : [`${key} is missing; the next run writes it`];
  const findings: string[] = [];
  for (const [date, manifest] of manifests) {
    if (!manifest) continue; // Its damage is reported elsewhere.
    const entry = entries.get(date);
    const expected = describeSealed(manifest, entry?.damage);
    if (!entry) findings.push(`${key} has no entry for ${date}, which is sealed`);
    for (const name of ['condition', 'last_modified_date', 'revision', 'rows', 'degraded_reason'] as const) {
      if (entry && entry[name] !== expected[name]) {
        findings.push(
          `${key} gives ${name} ${String(entry[name])} for ${date}, its manifest ${String(expected[name])}`,
        );
      }
    }
  }
  for (const { date, condition, revision } of entries.values()) {
    if (revision !== null && !manifests.has(date))
      findings.push(`${key} lists ${date} as ${condition}, but it is not sealed`);
  }
  return findings;
}
