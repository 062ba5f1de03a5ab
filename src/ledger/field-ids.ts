/**
 * The field ids of a dataset's columns, which tables (Iceberg) know columns by. Invariant: a name keeps its id in every
 * drop of the dataset, whatever the job's columns and their order are later, and no id is used twice. Each version of
 * the document adds columns to the one before and is written once, so two workers cannot give one id to two columns.
 */
import { z } from 'zod';
import { Fault } from '../core/errors.ts';
import { tryParseJson } from '../core/json-file.ts';
import type { Store } from '../store/store.ts';
import { fieldsKey, fieldsPrefix, parseFieldsVersion } from './layout.ts';
import { listSealedDates, readValidManifest } from './sealed-dates.ts';

const fieldsSchema = z.object({ fields: z.record(z.string(), z.int().positive()) });

export type FieldIds = ReadonlyMap<string, number>;

/** Each is lost to another worker that adds a column at the same moment. */
const MAX_TRIES = 20;

/**
 * Reads the ids, and assigns new ones to names that have none, in the order of `names`. Costs a listing and a read.
 * @throws StoreFault; Fault `FIELDS_BUSY` if other workers keep adding columns
 */
export async function assignFieldIds(store: Store, dataset: string, names: readonly string[]): Promise<FieldIds> {
  for (let tries = 0; tries < MAX_TRIES; tries += 1) {
    const { version, ids } = await readFieldIds(store, dataset);
    const missing = names.filter((name) => !ids.has(name));
    if (missing.length === 0 && ids.size > 0) return ids;
    const first = Math.max(0, ...ids.values()) + 1;
    const all = new Map([...ids, ...missing.map((name, index) => [name, first + index] as const)]);
    const bytes = Buffer.from(`${JSON.stringify({ fields: Object.fromEntries(all) }, undefined, 2)}\n`);
    const key = fieldsKey(dataset, version + 1);
    if (await store.putIfAbsent(key, bytes, { contentType: 'application/json' })) return all;
  }
  throw new Fault('FIELDS_BUSY', `${store.url}/${fieldsPrefix(dataset)}*: other workers keep adding columns`, {
    hint: 'Staged pages are kept: run again.',
  });
}

interface KnownIds {
  /** The newest version; 0 if there is none. */
  readonly version: number;
  readonly ids: FieldIds;
}

async function readFieldIds(store: Store, dataset: string): Promise<KnownIds> {
  const versions: number[] = [];
  for await (const { key } of store.list(fieldsPrefix(dataset))) {
    const version = parseFieldsVersion(dataset, key);
    if (version !== undefined) versions.push(version);
  }
  const [newest = 0, ...older] = versions.sort((a, b) => b - a);
  const found = newest === 0 ? undefined : await readVersion(store, dataset, newest);
  if (found !== undefined) return { version: newest, ids: found };
  // The document is lost or damaged: the drops have the ids too.
  const ids = new Map(await readSealedIds(store, dataset));
  for (const version of older) {
    for (const [name, id] of (await readVersion(store, dataset, version)) ?? []) ids.set(name, id);
  }
  return { version: newest, ids };
}

async function readVersion(store: Store, dataset: string, version: number): Promise<FieldIds | undefined> {
  const bytes = await store.get(fieldsKey(dataset, version));
  const { data } = fieldsSchema.safeParse(tryParseJson(Buffer.from(bytes ?? []).toString('utf8')));
  return data && new Map(Object.entries(data.fields));
}

/** The ids of all sealed drops, by their manifests. */
async function readSealedIds(store: Store, dataset: string): Promise<FieldIds> {
  const ids = new Map<string, number>();
  for (const date of await listSealedDates(store, dataset)) {
    const manifest = await readValidManifest(store, dataset, date);
    for (const { name, field_id: id } of manifest?.schema ?? []) if (id !== undefined) ids.set(name, id);
  }
  return ids;
}
