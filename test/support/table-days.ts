/**
 * Sealed days of a table: small real Parquet files with the footer and the statistics of real drops, published as a run
 * publishes them, with their conditions. Each revision of a day has other rows, so that a mix of two is seen.
 */
import { rm } from 'node:fs/promises';
import { asyncBufferFromFile, parquetMetadataAsync, type SchemaElement } from 'hyparquet';
import { parquetWriteFile } from 'hyparquet-writer';
import { describeSealed } from '../../src/ledger/condition-file.ts';
import { commitTable } from '../../src/ledger/iceberg/table.ts';
import { assignFieldIds, Ledger } from '../../src/ledger/ledger.ts';
import { hashSchema, MANIFEST_VERSION, type Manifest } from '../../src/ledger/manifest.ts';
import { publishDrop } from '../../src/ledger/publish.ts';
import { writeFooter } from '../../src/seal/footer.ts';
import { describeFile } from '../../src/seal/parquet-reader.ts';
import type { DropColumn } from '../../src/seal/write-parquet.ts';
import type { Store } from '../../src/store/store.ts';
import { createDraft } from './manifest.ts';

export const DATASET = 'trades';

export interface TableDay {
  readonly date: string;
  readonly rows: number;
  /** A column of its own, from the day on which the job has it. */
  readonly hasVenue?: boolean;
  /** Date in the rows; default: that of the day. */
  readonly rowDate?: string;
  /** Default: `iceberg`. */
  readonly table?: 'iceberg' | null;
}

/** Seals the next revision of a day. @param scratch local path of the file */
export async function sealDay(store: Store, day: TableDay, scratch: string): Promise<Manifest> {
  const { date, rows, hasVenue = false, rowDate = date, table = 'iceberg' } = day;
  const sealed = await new Ledger(store, DATASET).manifest(date);
  const revision = (sealed?.revision ?? 0) + 1;
  const numbers = Array.from({ length: rows }, (_, index) => index);
  const noon = Date.parse(`${rowDate}T12:00:00Z`);
  const midnight = new Date(`${rowDate}T00:00:00Z`);
  const data = {
    id: numbers.map((n) => `${date}-${String(n).padStart(5, '0')}`),
    date: numbers.map(() => midnight),
    time: numbers.map((n) => new Date(noon + n)),
    premium: numbers.map((n) => n + revision / 1000),
    ...(hasVenue ? { venue: numbers.map((n) => `V${n % 7}`) } : {}),
  };
  const columnData = Object.entries(data).map(([name, values]) => ({ name, data: values }));
  const schema: SchemaElement[] = columnData.map(({ name }) => ({
    name,
    repetition_type: 'REQUIRED',
    ...typeOf(name),
  }));
  parquetWriteFile({
    filename: scratch,
    rowGroupSize: 40,
    columnData,
    schema: [{ name: 'root', num_children: schema.length }, ...schema],
  });
  const names = Object.keys(data);
  const columns: DropColumn[] = names.map((name) => ({
    ...{ name, nullable: false, hasNulls: false, emptyIsNull: false, description: name },
    type: name === 'time' ? 'wall' : name === 'date' ? 'date' : name === 'premium' ? 'double' : 'string',
  }));
  const fieldIds = await assignFieldIds(new Ledger(store, DATASET), names);
  await writeFooter(scratch, { columns, fieldIds, sort: ['id'], keyValues: {} });
  const metadata = await parquetMetadataAsync(await asyncBufferFromFile(scratch));
  const { row_groups, schema: described, statistics } = describeFile(metadata);
  const draft = createDraft({
    manifest_version: MANIFEST_VERSION,
    table: table ?? undefined,
    date,
    rows,
    source_rows: rows,
    schema: described,
    schema_hash: hashSchema(described),
    sort: ['id'],
    row_groups,
    statistics,
    sealed_at: new Date(Date.parse(`${date}T22:00:00Z`) + revision * 60_000).toISOString(),
  });
  const { manifest } = await publishDrop(new Ledger(store, draft.dataset), { drop: scratch }, draft, {
    supersedes: sealed,
  });
  await rm(scratch, { force: true });
  return manifest;
}

function typeOf(name: string): Pick<SchemaElement, 'type' | 'converted_type' | 'logical_type'> {
  if (name === 'date') return { type: 'INT32', converted_type: 'DATE', logical_type: { type: 'DATE' } };
  if (name === 'premium') return { type: 'DOUBLE' };
  if (name === 'time') return { type: 'INT64', converted_type: 'TIMESTAMP_MICROS' };
  return { type: 'BYTE_ARRAY', converted_type: 'UTF8', logical_type: { type: 'STRING' } };
}

/** Writes the conditions of what is sealed, as the end of a run does. */
export async function recordDays(store: Store): Promise<readonly Manifest[]> {
  const before = await new Ledger(store, DATASET).conditions();
  const manifests: Manifest[] = [];
  for (const date of await new Ledger(store, DATASET).dates()) {
    const manifest = await new Ledger(store, DATASET).manifest(date);
    if (manifest) manifests.push(manifest);
  }
  await new Ledger(store, DATASET).writeConditions(
    manifests.map((manifest) => describeSealed(manifest)),
    before,
  );
  return manifests;
}

/** Seals days and commits them to the table, as a run does. */
export async function commitDays(
  store: Store,
  { scratch, nowMs }: { readonly scratch: string; readonly nowMs: number },
  ...days: readonly TableDay[]
): Promise<void> {
  for (const day of days) await sealDay(store, day, scratch);
  await recordDays(store);
  await commitTable(new Ledger(store, DATASET), nowMs);
}
