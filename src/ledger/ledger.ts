/**
 * All that the store has on record of one dataset's dates: which are sealed, by what manifest and with which files; what
 * is decided to be sealed next (the decision: the whole next manifest, written before it is published); the condition of
 * each date (available, degraded, missing, ...); gaps that a person accepted; revisions that are lost. It writes only
 * conditions, accepted gaps, losses and field ids. Invariant: a manifest or a decision that it returns is unaltered and
 * of its place. Nothing is remembered between two calls, because other workers write too. `publish.ts` seals a revision,
 * `finish.ts` finishes what a dead worker began, and `update-conditions.ts` decides what the conditions are.
 */
import { rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { z } from 'zod';
import { hashFile, makeFolder, tryParseJson } from '../core/atomic-file.ts';
import { type Fault, isFault } from '../core/errors.ts';
import type { Condition } from '../plan/conditions.ts';
import { type AcceptedGap, acceptedGapSchema, isAcceptable } from '../state/documents.ts';
import { Document } from '../store/document.ts';
import { RECORDS_PREFIX, RESERVED_DATASETS } from '../store/object-key.ts';
import type { Store } from '../store/store.ts';
import { type ConditionDocument, type ConditionEntry, formatConditions, parseConditions } from './condition-file.ts';
import {
  acceptedKey,
  acceptedPrefix,
  conditionKey,
  dropsPrefix,
  fieldsPrefix,
  fileKey,
  filenameOf,
  historyKey,
  LOST_FILENAME,
  MANIFEST_FILENAME,
  manifestKey,
  parseDatasetKey,
  recordsPrefix,
  sealedPrefix,
  sealingDecisionKey,
} from './layout.ts';
import { invalidManifest, type Manifest, type ManifestFile, readSigned } from './manifest.ts';

/** A date with a manifest, as found in a listing. */
export interface SealedDate {
  readonly date: string;
  /** Sizes in bytes of the files with rows, by name: one, and in a table those of replaced revisions too. */
  readonly drops: ReadonlyMap<string, number>;
  /** Sizes in bytes of the files beside it, by name: the summary, the quarantine. */
  readonly beside: ReadonlyMap<string, number>;
  /** Opaque text that changes whenever the manifest or a file with rows is replaced. */
  readonly version: string;
}

const lostRevisionSchema = z.looseObject({
  /** Names of the lost files; `null`: all of it, its manifest included. */
  files: z.array(z.string()).nullable(),
  /** Why, in words. */
  reason: z.string(),
});

/** That a replaced revision can no longer be read, or not all of it: a loss that is on record is no new damage. */
export type LostRevision = Pick<z.infer<typeof lostRevisionSchema>, 'files' | 'reason'>;

/** `revision 1 is lost (trades.parquet): it was damaged when revision 2 replaced it`. */
export function describeLost(revision: number, { files, reason }: LostRevision): string {
  return `revision ${revision} is lost${files === null ? '' : ` (${files.join(', ')})`}: ${reason}`;
}

/** Names of the datasets of a store. Some may have no sealed date yet. */
export async function listDatasets(store: Store): Promise<readonly string[]> {
  const folders = await store.listFolders(RECORDS_PREFIX);
  return folders.filter((name) => !RESERVED_DATASETS.includes(name));
}

/** Each call asks the store, and throws StoreFault. */
export class Ledger {
  readonly store: Store;
  readonly dataset: string;

  constructor(store: Store, dataset: string) {
    this.store = store;
    this.dataset = dataset;
  }

  /**
   * Sealed dates, ascending. Costs two listings; reads no object.
   * @param only the only date to look for, or the first (`since`), which makes the listings short
   */
  async list({
    only,
    since = '',
  }: {
    readonly only?: string;
    readonly since?: string;
  } = {}): Promise<readonly SealedDate[]> {
    const { store, dataset } = this;
    const found = new Map<string, { drops: Map<string, number>; beside: Map<string, number>; version: string }>();
    const at = (date: string) => {
      const one = found.get(date) ?? { drops: new Map(), beside: new Map(), version: '' };
      found.set(date, one);
      return one;
    };
    const records = only === undefined ? sealedPrefix(dataset) : recordsPrefix(dataset, only);
    const from = (prefix: string) => (since === '' ? undefined : `${prefix}session=${since}/`);
    for await (const { key, sizeBytes, version } of store.list(records, from(recordsPrefix(dataset)))) {
      const place = parseDatasetKey(dataset, key);
      if (place?.kind !== 'record') continue;
      // A date with a version has a manifest.
      if (key === manifestKey(dataset, place.date)) at(place.date).version = `${version}\n`;
      else at(place.date).beside.set(filenameOf(key), sizeBytes);
    }
    const sealed = [...found].filter(([, { version }]) => version !== '');
    // Listed after the manifests: a date that is sealed in between is not listed without its object.
    if (sealed.length > 0) {
      const drops = dropsPrefix(dataset);
      for await (const { key, sizeBytes, version } of store.list(dropsPrefix(dataset, only), from(drops))) {
        const place = parseDatasetKey(dataset, key);
        if (place?.kind !== 'drop') continue;
        at(place.date).version += `${version}\n`;
        at(place.date).drops.set(filenameOf(key), sizeBytes);
      }
    }
    return sealed.sort(([a], [b]) => (a < b ? -1 : 1)).map(([date, one]) => ({ date, ...one }));
  }

  /** Sealed dates, ascending. */
  async dates(): Promise<readonly string[]> {
    return (await this.list()).map(({ date }) => date);
  }

  /** `undefined` when the date is not sealed. @throws Fault `MANIFEST_INVALID` */
  async manifest(date: string): Promise<Manifest | undefined> {
    const found = await this.published(date);
    if (found === undefined || found.manifest) return found?.manifest;
    throw invalidManifest(found.findings.join('; '));
  }

  /** The manifest of a sealed date, if it is unaltered, and what is wrong with it; `undefined` if there is none. */
  async published(date: string): Promise<ReturnType<typeof readSigned> | undefined> {
    return await this.#signed(manifestKey(this.dataset, date), date);
  }

  /** The same of a replaced revision in the history. */
  async kept(date: string, revision: number): Promise<ReturnType<typeof readSigned> | undefined> {
    return await this.#signed(historyKey(this.dataset, date, revision, MANIFEST_FILENAME), date, revision);
  }

  async #signed(key: string, date: string, revision?: number): Promise<ReturnType<typeof readSigned> | undefined> {
    const { store, dataset } = this;
    try {
      const bytes = await store.get(key);
      return bytes && readSigned(bytes, `${store.url}/${key}`, { dataset, date, revision });
    } catch (error) {
      if (!isFault(error) || error.code !== 'OBJECT_TOO_LARGE') throw error;
      return { findings: [error.message] };
    }
  }

  /** Like `manifest`, but a damaged one counts as none. @param note is called with what is wrong */
  async validManifest(date: string, note: (fault: Fault) => void = () => {}): Promise<Manifest | undefined> {
    try {
      return await this.manifest(date);
    } catch (error) {
      if (!isFault(error) || error.code !== 'MANIFEST_INVALID') throw error;
      note(error);
      return undefined;
    }
  }

  /**
   * The manifest of a date whose files with rows have these sizes: the published one, or the next one if that matches
   * instead, because between the last two writes of a restatement the new object lies beside the old manifest. If neither
   * matches, the published one: then its file is damaged.
   * @throws Fault `MANIFEST_INVALID`
   */
  async manifestOf(date: string, drops: ReadonlyMap<string, number>): Promise<Manifest | undefined> {
    const manifest = await this.manifest(date);
    const isThere = ({ files: [file] }: Manifest) => drops.get(file.filename) === file.size;
    if (manifest === undefined || isThere(manifest)) return manifest;
    const next = await this.successor(manifest);
    return next !== undefined && isThere(next) ? next : manifest;
  }

  /** The manifest that is decided to replace this one but not published yet; else `undefined`. */
  async successor({ date, revision }: Manifest): Promise<Manifest | undefined> {
    // A broken decision is never published.
    return (await this.decision(date, revision + 1))?.decided;
  }

  /**
   * The complete manifest that is to be published next, written once. One that is damaged, edited, or of another place has a
   * reason, in words. `undefined`: nothing is decided.
   */
  async decision(date: string, revision: number) {
    const { store, dataset } = this;
    const key = sealingDecisionKey(dataset, date, revision);
    const bytes = await store.get(key);
    if (bytes === undefined) return undefined;
    const { manifest: decided, findings } = readSigned(bytes, `${store.url}/${key}`, { dataset, date, revision });
    if (decided === undefined) return { bytes, reason: findings.join('; ') };
    if (decided.supersedes === (revision === 1 ? null : revision - 1)) return { bytes, decided };
    return { bytes, reason: `${store.url}/${key} is a decision in place of revision ${decided.supersedes ?? 'none'}` };
  }

  /** Downloads a file of a sealed date; `false` when it is missing or differs from its manifest. */
  async fetchFile(date: string, file: ManifestFile, path: string, signal?: AbortSignal): Promise<boolean> {
    return await this.fetchObject(fileKey(this.dataset, date, file.filename), file, path, signal);
  }

  /**
   * Lets `act` read a copy of a file of a sealed date, which is removed afterwards.
   * @returns `undefined` when the file is missing or differs from the manifest
   */
  async withFile<T>(
    { date, files }: Pick<Manifest, 'date' | 'files'>,
    name: string | null | undefined,
    path: string,
    act: (path: string) => Promise<T>,
    signal?: AbortSignal,
  ): Promise<T | undefined> {
    const file = files.find(({ filename }) => filename === name);
    if (file === undefined) return undefined;
    await makeFolder(dirname(path));
    try {
      return (await this.fetchFile(date, file, path, signal)) ? await act(path) : undefined;
    } finally {
      await rm(path, { force: true });
    }
  }

  /** Downloads an object; `false` when it is missing or is not this file. */
  async fetchObject(key: string, file: ManifestFile, path: string, signal?: AbortSignal): Promise<boolean> {
    return (await this.store.download(key, path, signal)) && file.hash === `sha256:${await hashFile(path)}`;
  }

  async conditions(): Promise<ConditionDocument> {
    const bytes = await this.store.get(conditionKey(this.dataset));
    return parseConditions(bytes && Buffer.from(bytes).toString('utf8'));
  }

  /** Writes the document if it differs from the one that was read. */
  async writeConditions(entries: readonly ConditionEntry[], before: ConditionDocument): Promise<void> {
    const text = formatConditions(entries);
    if (text === before.text || (before.text === '' && entries.length === 0)) return;
    await this.#putJson(conditionKey(this.dataset), text);
  }

  /**
   * The accepted gaps among these dates; their own objects are the record, which `condition.json` repeats for readers. Costs
   * no request if no date has a condition that can be accepted. An invalid record counts as none: the gap is then reported
   * again.
   */
  async acceptedGaps(conditions: ReadonlyMap<string, Condition>): Promise<ReadonlyMap<string, AcceptedGap>> {
    const accepted = new Map<string, AcceptedGap>();
    if (![...conditions.values()].some(isAcceptable)) return accepted;
    for await (const { key } of this.store.list(acceptedPrefix(this.dataset))) {
      const place = parseDatasetKey(this.dataset, key);
      if (place?.kind !== 'accepted' || !isAcceptable(conditions.get(place.date))) continue;
      const gap = acceptedGapSchema.safeParse(await this.#getJson(key)).data;
      if (gap && gap.condition === conditions.get(place.date)) accepted.set(place.date, gap);
    }
    return accepted;
  }

  async acceptGap(date: string, gap: AcceptedGap): Promise<void> {
    await this.#putJson(acceptedKey(this.dataset, date), `${JSON.stringify(gap, undefined, 2)}\n`);
  }

  /** `undefined` without a record, and for one that cannot be read: then the damage is reported again. */
  async lost(date: string, revision: number): Promise<LostRevision | undefined> {
    const key = historyKey(this.dataset, date, revision, LOST_FILENAME);
    return lostRevisionSchema.safeParse(await this.#getJson(key)).data;
  }

  async noteLost(date: string, revision: number, lost: LostRevision): Promise<void> {
    const key = historyKey(this.dataset, date, revision, LOST_FILENAME);
    await this.#putJson(key, `${JSON.stringify(lost, undefined, 2)}\n`);
  }

  async #getJson(key: string): Promise<unknown> {
    const bytes = await this.store.get(key);
    return bytes && tryParseJson(Buffer.from(bytes).toString('utf8'));
  }

  async #putJson(key: string, text: string): Promise<void> {
    await this.store.put(key, { bytes: Buffer.from(text) });
  }
}

const fieldsSchema = z.object({ fields: z.record(z.string(), z.int().positive()) });

type FieldIds = ReadonlyMap<string, number>;

/**
 * The field ids of a dataset's columns, which tables (Iceberg) know columns by. Reads the ids, and assigns new ones to names
 * that have none, in the order of `names`. A name keeps its id in every drop of the dataset, whatever the job's columns and
 * their order are later, and no id is used twice: each version of the document adds columns to the one before. Costs a
 * listing and a read.
 * @throws StoreFault; Fault `DOCUMENT_BUSY` if other workers keep adding columns
 */
export async function assignFieldIds(ledger: Ledger, names: readonly string[]): Promise<FieldIds> {
  const document = new Document<FieldIds>(ledger.store, {
    prefix: fieldsPrefix(ledger.dataset),
    suffix: '.json',
    kept: 100,
    parse: (bytes) => {
      const { data } = fieldsSchema.safeParse(tryParseJson(Buffer.from(bytes).toString('utf8')));
      return data && new Map(Object.entries(data.fields));
    },
    format: (ids) => Buffer.from(`${JSON.stringify({ fields: Object.fromEntries(ids) }, undefined, 2)}\n`),
  });
  const { value } = await document.update(async (before) => {
    const ids = before ?? (await recallIds(ledger, document));
    const missing = names.filter((name) => !ids.has(name));
    const first = Math.max(0, ...ids.values()) + 1;
    return new Map([...ids, ...missing.map((name, index) => [name, first + index] as const)]);
  });
  return value ?? new Map();
}

/** The document is lost or damaged: sealed drops and its older versions have the ids too. */
async function recallIds(ledger: Ledger, document: Document<FieldIds>): Promise<FieldIds> {
  const ids = new Map<string, number>();
  for (const date of await ledger.dates()) {
    const manifest = await ledger.validManifest(date);
    for (const { name, field_id: id } of manifest?.schema ?? []) ids.set(name, id);
  }
  for (const version of await document.listVersions()) {
    for (const [name, id] of (await document.readVersion(version)) ?? []) ids.set(name, id);
  }
  return ids;
}
