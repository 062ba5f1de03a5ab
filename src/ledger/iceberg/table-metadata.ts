/**
 * The metadata document of an Iceberg table (format version 2): its columns and snapshots. Invariants: a
 * document is never changed, only followed by one with more snapshots; a field keeps its id for ever, and a column that
 * one day lacks is optional, so every field is. What a snapshot did to which date is in its summary, so the dates of the
 * table are known from the document alone. Its versions in the store are a `Document`; `version-hint.text` follows the
 * newest. Source: the Iceberg table spec, "Table Metadata", "Schemas and Data Types", "Schema Evolution", "Column
 * Projection".
 */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { describeError, Fault, isFault } from '../../core/errors.ts';
import { Document } from '../../store/document.ts';
import type { Store } from '../../store/store.ts';
import { tableHintKey, tablePrefix, tableVersionsPrefix } from '../layout.ts';
import { listDatasets } from '../ledger.ts';
import type { Manifest } from '../manifest.ts';
import { damagedTable } from './table-avro.ts';

const fieldSchema = z.object({
  id: z.int().positive(),
  name: z.string(),
  required: z.literal(false),
  type: z.enum(['string', 'int', 'long', 'double', 'date', 'timestamp', 'timestamptz']),
});

const snapshotSchema = z.object({
  'snapshot-id': z.int().positive(),
  'parent-snapshot-id': z.int().positive().optional(),
  'sequence-number': z.int().positive(),
  'timestamp-ms': z.int(),
  'manifest-list': z.string(),
  'schema-id': z.int(),
  summary: z.record(z.string(), z.string()),
});
const metadataSchema = z.object({
  'format-version': z.literal(2),
  'table-uuid': z.string(),
  location: z.string(),
  'last-sequence-number': z.int().nonnegative(),
  'last-updated-ms': z.int(),
  'last-column-id': z.int(),
  'current-schema-id': z.int(),
  schemas: z.array(z.object({ type: z.literal('struct'), 'schema-id': z.int(), fields: z.array(fieldSchema) })),
  'default-spec-id': z.literal(0),
  'partition-specs': z.tuple([
    z.object({
      'spec-id': z.literal(0),
      fields: z.array(
        z.object({ name: z.string(), transform: z.literal('identity'), 'source-id': z.int(), 'field-id': z.int() }),
      ),
    }),
  ]),
  'last-partition-id': z.int(),
  'default-sort-order-id': z.literal(0),
  // Not sorted: readers find the order of a drop in its own footer.
  'sort-orders': z.tuple([z.object({ 'order-id': z.literal(0), fields: z.tuple([]) })]),
  properties: z.record(z.string(), z.string()),
  'current-snapshot-id': z.int(),
  refs: z.record(z.string(), z.object({ 'snapshot-id': z.int(), type: z.literal('branch') })),
  snapshots: z.array(snapshotSchema),
  'snapshot-log': z.array(z.object({ 'snapshot-id': z.int(), 'timestamp-ms': z.int() })),
  'metadata-log': z.array(z.object({ 'metadata-file': z.string(), 'timestamp-ms': z.int() })),
});

export type TableMetadata = z.infer<typeof metadataSchema>;
export type TableSnapshot = z.infer<typeof snapshotSchema>;
export type TableField = Readonly<z.infer<typeof fieldSchema>>;

/** Of a table without snapshots. */
const NO_SNAPSHOT = -1;
/** First id of a partition field, as the spec has it. */
const FIRST_PARTITION_ID = 1000;
const PARTITION_COLUMN = 'date';

/** @param location folder of the table, as readers address it @param fields of its first date */
export function createMetadata(location: string, fields: readonly TableField[]): TableMetadata {
  const date = fields.find(({ name, type }) => name === PARTITION_COLUMN && type === 'date');
  const partition =
    date === undefined
      ? []
      : [{ name: date.name, transform: 'identity' as const, 'source-id': date.id, 'field-id': FIRST_PARTITION_ID }];
  return {
    'format-version': 2,
    'table-uuid': deriveUuid(location),
    location,
    'last-sequence-number': 0,
    'last-updated-ms': 0,
    'last-column-id': 0,
    'current-schema-id': 0,
    schemas: [],
    'default-spec-id': 0,
    'partition-specs': [{ 'spec-id': 0, fields: partition }],
    'last-partition-id': FIRST_PARTITION_ID - 1 + partition.length,
    'default-sort-order-id': 0,
    'sort-orders': [{ 'order-id': 0, fields: [] }],
    properties: {
      // A reader that cleans up must not remove drops, or what our own readers know.
      'gc.enabled': 'false',
      'write.parquet.compression-codec': 'zstd',
    },
    'current-snapshot-id': NO_SNAPSHOT,
    refs: {},
    snapshots: [],
    'snapshot-log': [],
    'metadata-log': [],
  };
}

/** @param where URL of the document, for the error @throws Fault `TABLE_DAMAGED` */
function parseMetadata(bytes: Uint8Array, where: string): TableMetadata {
  try {
    return metadataSchema.parse(JSON.parse(Buffer.from(bytes).toString('utf8')));
  } catch (cause) {
    const why = cause instanceof z.ZodError ? z.prettifyError(cause).replaceAll('\n', ' ') : describeError(cause);
    throw damagedTable(`${where} is not the metadata of a flowdrop table: ${why}`, cause);
  }
}

/** On one line: readers parse it, and it has an entry for each commit. */
export function formatMetadata(metadata: TableMetadata): Buffer {
  return Buffer.from(`${JSON.stringify(metadata)}\n`);
}

export function currentSnapshot(metadata: TableMetadata): TableSnapshot | undefined {
  return metadata.snapshots.find((one) => one['snapshot-id'] === metadata['current-snapshot-id']);
}

export function currentFields(metadata: TableMetadata): readonly TableField[] {
  return metadata.schemas.find((one) => one['schema-id'] === metadata['current-schema-id'])?.fields ?? [];
}

export function isPartitioned(metadata: TableMetadata): boolean {
  return metadata['partition-specs'][0].fields.length > 0;
}

/** The dates of the table now, by the summaries of its snapshots. */
export function listTableDates({ snapshots }: Pick<TableMetadata, 'snapshots'>) {
  const dates = new Map<string, { revision: number; rows: number; sizeBytes: number; manifestHash: string }>();
  // Every snapshot follows the one before: the table has one branch.
  for (const { summary } of snapshots) {
    const date = summary['flowdrop.date'] ?? '';
    if (summary['operation'] === 'delete') dates.delete(date);
    else
      dates.set(date, {
        revision: Number(summary['flowdrop.revision']),
        rows: Number(summary['added-records']),
        sizeBytes: Number(summary['added-files-size']),
        manifestHash: summary['flowdrop.manifest-hash'] ?? '',
      });
  }
  return dates;
}

/** The document with the columns of one more date; a new schema only if they differ. @throws Fault `TABLE_UNFIT` */
export function withColumns(before: TableMetadata, manifest: Manifest): TableMetadata {
  const fields = mergeFields(currentFields(before), manifest);
  const { schemas } = before;
  const schema = schemas.find((one) => JSON.stringify(one.fields) === JSON.stringify(fields)) ?? {
    ...{ type: 'struct' as const, 'schema-id': schemas.length },
    fields: [...fields],
  };
  // Names of columns for files whose columns have no ids.
  const mapping = fields.map(({ id, name }) => ({ 'field-id': id, names: [name] }));
  return {
    ...before,
    schemas: schemas.includes(schema) ? schemas : [...schemas, schema],
    'current-schema-id': schema['schema-id'],
    'last-column-id': Math.max(before['last-column-id'], ...fields.map(({ id }) => id)),
    properties: { ...before.properties, 'schema.name-mapping.default': JSON.stringify(mapping) },
  };
}

export function withSnapshot(metadata: TableMetadata, snapshot: TableSnapshot): TableMetadata {
  const id = snapshot['snapshot-id'];
  const at = snapshot['timestamp-ms'];
  return {
    ...metadata,
    'last-sequence-number': snapshot['sequence-number'],
    'last-updated-ms': at,
    'current-snapshot-id': id,
    refs: { main: { 'snapshot-id': id, type: 'branch' } },
    snapshots: [...metadata.snapshots, snapshot],
    'snapshot-log': [...metadata['snapshot-log'], { 'snapshot-id': id, 'timestamp-ms': at }],
  };
}

/** By the manifest's name of a Parquet type. Iceberg has no times in milliseconds. */
const TABLE_TYPES: Readonly<Record<string, TableField['type']>> = {
  'BYTE_ARRAY/STRING': 'string',
  INT32: 'int',
  INT64: 'long',
  DOUBLE: 'double',
  'INT32/DATE': 'date',
  'INT64/TIMESTAMP(MICROS,utc=false)': 'timestamp',
  'INT64/TIMESTAMP(MICROS,utc=true)': 'timestamptz',
};

/**
 * The fields of a table with those of one more date.
 * @throws Fault `TABLE_UNFIT` if a table cannot take a column, or it has changed its type: only `int` to `long` is allowed
 */
export function mergeFields(known: readonly TableField[], manifest: Pick<Manifest, 'date' | 'schema'>) {
  const merged = new Map(known.map((field) => [field.id, field]));
  for (const { name, type, field_id: id } of manifest.schema) {
    const tableType = TABLE_TYPES[type];
    if (tableType === undefined) throw unfit(manifest, `its column "${name}" has the type ${type}`);
    const before = merged.get(id);
    const isNarrower = before?.type === 'long' && tableType === 'int';
    if (before && before.type !== tableType && !isNarrower && !(before.type === 'int' && tableType === 'long'))
      throw unfit(manifest, `its column "${name}" is ${tableType}, in the table ${before.type}`);
    merged.set(id, isNarrower ? before : { id, name, required: false, type: tableType });
  }
  return [...merged.values()];
}

export function unfit({ date }: Pick<Manifest, 'date'>, reason: string): Fault {
  return new Fault('TABLE_UNFIT', `${date} cannot be in the Iceberg table: ${reason}`, {
    hint: 'The drop is sealed. If the date is still in the lookback, `flowdrop backfill JOB --all --from DATE --to DATE` seals it again; else give the job a new dataset.',
  });
}

/**
 * Follows from what the snapshot does, so that a commit that is repeated is the same commit. A date that is removed and
 * added again, or sealed again under its number, needs another id: the first that the table does not have.
 */
export function deriveSnapshotId(metadata: TableMetadata, what: string): number {
  const taken = new Set(metadata.snapshots.map((one) => one['snapshot-id']));
  for (let repeat = 0; ; repeat += 1) {
    const text = `${what} repeat ${repeat}`;
    // 52 bits: readers in JavaScript lose digits of longer numbers.
    const id = Number.parseInt(createHash('sha256').update(text).digest('hex').slice(0, 13), 16);
    if (id > 0 && !taken.has(id)) return id;
  }
}

/** A UUID of version 8 (RFC 9562), so that a table that is made again is the same table to a catalog. */
function deriveUuid(location: string): string {
  const hex = createHash('sha256').update(`flowdrop table ${location}`).digest('hex');
  return hex.replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*$/, '$1-$2-8$3-8$4-$5');
}

/**
 * A slow reader may still be at one of these while a backfill seals date after date.
 * Iceberg's own default (`write.metadata.previous-versions-max`, https://iceberg.apache.org/docs/latest/configuration/).
 */
export const KEPT_VERSIONS = 100;

/** Of writing the hint. */
const MAX_HINTS = 3;

/** How readers address an object of the store: the store's URL, or `file://` and the path of a directory. */
export function locate(store: Pick<Store, 'url'>, key: string): string {
  return `${store.url.startsWith('/') ? 'file://' : ''}${store.url}/${key}`;
}

/** The key of an object that the table names. @throws Fault `TABLE_DAMAGED` if it is in another place */
export function keyOf(store: Pick<Store, 'url'>, location: string): string {
  const root = locate(store, '');
  if (location.startsWith(root)) return location.slice(root.length);
  throw damagedTable(`the table names ${location}, which is not in ${store.url}`);
}

export function locateTable(store: Pick<Store, 'url'>, dataset: string): string {
  return locate(store, tablePrefix(dataset)).replace(/\/$/, '');
}

/** Names of the datasets with a table, ascending. Costs a listing for each dataset. */
export async function listTables(store: Store): Promise<readonly string[]> {
  const tables: string[] = [];
  for (const dataset of await listDatasets(store))
    if ((await openTableLog(store, dataset).listVersions()).length > 0) tables.push(dataset);
  return tables.sort();
}

export function openTableLog(store: Store, dataset: string): Document<TableMetadata> {
  return new Document(store, {
    prefix: tableVersionsPrefix(dataset),
    suffix: '.metadata.json',
    kept: KEPT_VERSIONS,
    parse: parseMetadata,
    format: formatMetadata,
  });
}

/** The newest version, or `undefined` if there is no table. @throws Fault `TABLE_DAMAGED` */
export async function readTable(store: Store, dataset: string) {
  const { version, value } = await openTableLog(store, dataset).read();
  return value && { version, metadata: value };
}

/** Number in `version-hint.text`, by which some readers find the newest version. */
export async function readHint(store: Store, dataset: string): Promise<number | undefined> {
  const bytes = await store.get(tableHintKey(dataset));
  return bytes === undefined ? undefined : Number(Buffer.from(bytes).toString('utf8'));
}

/** Lets the hint name the newest version. Whoever writes it looks again afterwards, so the last one writes the newest. */
export async function settleHint(store: Store, dataset: string): Promise<void> {
  for (let tries = 1; tries <= MAX_HINTS; tries += 1) {
    const newest = (await openTableLog(store, dataset).listVersions()).at(-1);
    if (newest === undefined || (await readHint(store, dataset)) === newest) return;
    try {
      await store.put(tableHintKey(dataset), { bytes: Buffer.from(String(newest)) });
    } catch (error) {
      // The store's own check notices when another worker writes it at the same moment.
      if (!isFault(error) || error.code !== 'STORE_FAILED' || tries === MAX_HINTS) throw error;
    }
  }
}
