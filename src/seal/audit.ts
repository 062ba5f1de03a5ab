/**
 * Audits a sealed date: checks the manifest's hash, hashes its files, reads them with an independent reader, and
 * compares them with the manifest. Finds a flipped byte, a missing object, an edited manifest, a wrong summary, a
 * foreign file. Changes nothing. `audit-dataset.ts` audits the rest of the dataset.
 */

import { createReadStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { CalendarOverride } from '../calendar/session.ts';
import { hashFile, makeFolder } from '../core/atomic-file.ts';
import type { Engine } from '../engine/engine.ts';
import { EngineFault } from '../engine/engine-fault.ts';
import { dropFilename, dropsPrefix, fileKey, manifestKey, recordsPrefix, tableDropFilename } from '../ledger/layout.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { hashSchema, type Manifest, type ManifestFile } from '../ledger/manifest.ts';
import type { Store } from '../store/store.ts';
import { compareCounts } from './counts-file.ts';
import { type ReadFile, readParquet } from './parquet-reader.ts';
import { compareSummary } from './summary.ts';

export interface AuditDeps {
  readonly ledger: Ledger;
  /** Recomputes the summary. */
  readonly engine: Engine;
  readonly calendar?: CalendarOverride | undefined;
  /** Local folder for copies of the objects during the audit. */
  readonly folder: string;
  readonly signal?: AbortSignal | undefined;
}

const LINE_FEED = 0x0a;

/**
 * @returns `findings`: all that is wrong, in words; `isDamaged`: its files or its manifest (foreign objects are not damage);
 *   `manifest`: unless it is damaged; `restating`: the revision about to replace it, whose files may already exist
 */
export async function auditDrop(deps: AuditDeps, date: string) {
  const { ledger } = deps;
  const { store, dataset } = ledger;
  const published = await ledger.published(date);
  const none = { date, rows: 0, manifest: undefined, restating: null };
  if (!published) return { ...none, findings: ['there is no manifest: the date is not sealed'], isDamaged: false };
  const { manifest, findings: faults } = published;
  // A damaged manifest proves nothing about the files.
  if (!manifest) return { ...none, findings: faults, isDamaged: true };
  const wrong = await auditFiles(deps, manifest);
  let foreign = await findForeignObjects(store, [manifest]);
  const next = wrong.size + foreign.length > 0 ? await ledger.successor(manifest) : undefined;
  // During a replacement files of either revision may be there.
  const path = join(deps.folder, 'restated');
  for (const file of next?.files ?? []) {
    const at = fileKey(dataset, date, file.filename);
    const isShared = manifest.files.some(({ filename }) => filename === file.filename);
    if (isShared && !wrong.has(at)) continue;
    const found = await fetchAndHash(deps, at, file, path);
    await rm(path, { force: true });
    if (found.length === 0) wrong.delete(at);
    else if (!isShared && (await store.head(at))) wrong.set(at, found);
  }
  if (next) foreign = await findForeignObjects(store, [manifest, next]);
  return {
    date,
    rows: manifest.rows,
    findings: [...[...wrong.values()].flat(), ...foreign],
    isDamaged: next === undefined && wrong.size > 0,
    manifest,
    restating: next?.revision ?? null,
  };
}

/** @returns what is wrong, by the keys of the files */
async function auditFiles(deps: AuditDeps, manifest: Manifest): Promise<Map<string, readonly string[]>> {
  const { folder, engine } = deps;
  const misnamed = compareNames(manifest);
  // The names are wrong, so files read by these names would not belong to the drop.
  if (misnamed.length > 0) return new Map([['', misnamed]]);
  const pathOf = (index: number) => join(folder, `audited-${index}`);
  const drop = pathOf(0);
  const wrong = new Map<string, readonly string[]>();
  let isDropSound = false;
  const audit = async (file: ManifestFile, key: string, path: string): Promise<readonly string[]> => {
    const damage = await fetchAndHash(deps, key, file, path);
    if (damage.length > 0) return damage;
    isDropSound ||= path === drop;
    if (path === drop) return await auditRows(deps, manifest, key, path);
    const { date, counts, summary, quarantine } = manifest;
    if (file.filename === counts) return await compute(key, () => compareCounts(engine, path, manifest));
    if (file.filename === summary) {
      const sealed = { path: drop, date, calendar: deps.calendar };
      return isDropSound ? await compute(key, () => compareSummary(engine, sealed, path)) : [];
    }
    const { rows = 0 } = quarantine ?? {};
    const found = await countLines(path);
    return found === rows ? [] : [`${key} has ${found} rows, the manifest says ${rows}`];
  };
  await makeFolder(folder);
  try {
    for (const [index, file] of manifest.files.entries()) {
      const key = fileKey(manifest.dataset, manifest.date, file.filename);
      const found = await audit(file, key, pathOf(index));
      if (found.length > 0) wrong.set(key, found);
    }
    return wrong;
  } finally {
    for (const index of manifest.files.keys()) await rm(pathOf(index), { force: true });
  }
}

async function countLines(path: string): Promise<number> {
  let lines = 0;
  for await (const chunk of createReadStream(path))
    for (const byte of chunk as Buffer) if (byte === LINE_FEED) lines += 1;
  return lines;
}

/** Checks the names of the files, and that the declared summary, counts and quarantine are among them. */
function compareNames(manifest: Manifest): readonly string[] {
  const beside = [manifest.summary, manifest.counts, manifest.quarantine?.filename].filter(
    (name) => typeof name === 'string',
  );
  const { dataset, revision, table } = manifest;
  const expected = [table === undefined ? dropFilename(dataset) : tableDropFilename(dataset, revision), ...beside];
  const found = manifest.files.map(({ filename }) => filename);
  if (found.join('\n') === expected.join('\n')) return [];
  return [`the manifest lists the files ${found.join(', ')}; a drop of it has ${expected.join(', ')}`];
}

/** Copies an object to `path` and describes what is wrong with it. */
export async function fetchAndHash(
  { ledger: { store }, signal }: Pick<AuditDeps, 'ledger' | 'signal'>,
  key: string,
  file: ManifestFile,
  path: string,
): Promise<readonly string[]> {
  const info = await store.head(key);
  if (!info || !(await store.download(key, path, signal))) return [`${key} is missing`];
  const findings: string[] = [];
  if (info.sizeBytes !== file.size) findings.push(`${key} has ${info.sizeBytes} bytes, the manifest says ${file.size}`);
  const hash = `sha256:${await hashFile(path)}`;
  if (hash !== file.hash) findings.push(`${key} has the hash ${hash}, the manifest says ${file.hash}`);
  return findings;
}

async function auditRows(deps: AuditDeps, manifest: Manifest, key: string, path: string): Promise<readonly string[]> {
  let found: ReadFile;
  try {
    found = await readParquet(path, manifest.sort, deps.signal);
  } catch {
    deps.signal?.throwIfAborted();
    return [`${key} cannot be read as Parquet`];
  }
  const findings = compareFacts(key, manifest, found);
  for (const { column, rows } of found.bad) {
    findings.push(`${key}: "${column}" has ${rows} values that are not UTF-8 or not finite`);
  }
  if (found.disorder !== undefined) {
    findings.push(`${key} is not in the order of ${manifest.sort.join(', ')}: row ${found.disorder} is out of place`);
  }
  return findings;
}

/** Runs a check in the engine; an error about these files is a finding, a dead engine is not. */
async function compute(what: string, find: () => Promise<readonly string[]>): Promise<readonly string[]> {
  try {
    return await find();
  } catch (error) {
    if (!(error instanceof EngineFault) || error.clickhouseCode === 0) throw error;
    const [words = ''] = error.message.split('\n');
    return [`${what} cannot be computed: ${words}`];
  }
}

function compareFacts(key: string, manifest: Manifest, found: ReadFile): string[] {
  const isEmpty = found.row_groups === 0;
  const hash = hashSchema(found.schema);
  const [order, codecs] = [found.declaredSort.join(', '), found.codecs.join(', ')];
  const facts: readonly (readonly [string, unknown, unknown])[] = [
    [`${found.rows} rows`, found.rows, manifest.rows],
    [`${found.row_groups} row groups`, found.row_groups, manifest.row_groups],
    [`the first time ${found.min_time}`, found.min_time, manifest.min_time],
    [`the last time ${found.max_time}`, found.max_time, manifest.max_time],
    [`the schema hash ${hash}`, hash, manifest.schema_hash],
    [`the declared order ${order}`, order, isEmpty ? '' : manifest.sort.join(', ')],
    [`the compression ${codecs}`, codecs, isEmpty ? '' : manifest.compression],
  ];
  const lists = [
    ['schema', 'other columns'],
    ['statistics', 'other statistics'],
  ] as const;
  return [
    ...facts
      .filter(([, has, says]) => has !== says)
      .map(([what, , says]) => `${key} has ${what}, the manifest says ${String(says)}`),
    ...lists
      .filter(([name]) => JSON.stringify(found[name]) !== JSON.stringify(manifest[name]))
      .map(([, what]) => `${key} has ${what} than the manifest says`),
  ];
}

/** @param manifests of one date; their files belong there */
async function findForeignObjects(
  store: Store,
  manifests: readonly [Manifest, ...Manifest[]],
): Promise<readonly string[]> {
  const [{ dataset, date }] = manifests;
  const files = manifests.flatMap((manifest) => manifest.files.map(({ filename }) => fileKey(dataset, date, filename)));
  // In a table, readers of older snapshots still read the replaced revisions.
  const kept = manifests.flatMap(({ table, revision }) =>
    table === undefined
      ? []
      : Array.from({ length: revision }, (_, index) => fileKey(dataset, date, tableDropFilename(dataset, index + 1))),
  );
  const known = new Set([manifestKey(dataset, date), ...files, ...kept]);
  const findings: string[] = [];
  for (const prefix of [recordsPrefix(dataset, date), dropsPrefix(dataset, date)]) {
    for await (const { key } of store.list(prefix)) {
      if (!known.has(key)) findings.push(`${key} does not belong to the drop`);
    }
  }
  return findings;
}
