/**
 * The field ids of a dataset's columns, which tables (Iceberg) know columns by. Invariant: a name keeps its id in every
 * drop of the dataset, whatever the job's columns and their order are later, and no id is used twice: each version of the
 * document adds columns to the one before.
 */
import { z } from 'zod';
import { tryParseJson } from '../core/json-file.ts';
import { Document } from '../store/document.ts';
import { fieldsPrefix } from './layout.ts';
import type { Ledger } from './ledger.ts';

const fieldsSchema = z.object({ fields: z.record(z.string(), z.int().positive()) });

type FieldIds = ReadonlyMap<string, number>;

/**
 * Reads the ids, and assigns new ones to names that have none, in the order of `names`. Costs a listing and a read.
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
