/**
 * Manifests and manifest lists of an Iceberg table: Avro files of format version 2. Field names, ids and types are those
 * of the Iceberg table spec, "Manifests" and "Manifest Lists". Pure, but for decoding in the background.
 */
import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import avro from 'avsc';
import { Fault } from '../../core/errors.ts';

/** What became of a file in the snapshot that wrote the manifest. */
export const ENTRY_STATUS = { existing: 0, added: 1, deleted: 2 } as const;

/** A field of a record: its id and its Avro type, and for the compiler the values that it has here. */
interface Field<Value> {
  readonly id: number;
  readonly type: unknown;
  readonly value?: Value;
}
type Fields = Readonly<Record<string, Field<unknown>>>;
type RecordOf<F extends Fields> = { readonly [Name in keyof F]: F[Name] extends Field<infer Value> ? Value : never };

const field = <Value>(id: number, type: unknown): Field<Value> => ({ id, type });
const optional = <Value>(id: number, type: unknown): Field<Value> => ({ id, type: ['null', type] });

function record(name: string, fields: Fields) {
  const list = Object.entries(fields).map(([field, { id, type }]) => {
    return { name: field, type, 'field-id': id, ...(Array.isArray(type) ? { default: null } : {}) };
  });
  return { type: 'record', name, fields: list };
}

/** By field id of the table. Avro has no map whose keys are no text, so it is a list of pairs. */
type ByField<Value> = readonly { readonly key: number; readonly value: Value }[];
function byField<Value>(id: number, [keyId, valueId]: readonly [number, number], value: string) {
  const items = record(`k${keyId}_v${valueId}`, { key: field(keyId, 'int'), value: field(valueId, value) });
  return optional<ByField<Value>>(id, { type: 'array', logicalType: 'map', items });
}

const DATA_FILE = {
  content: field<0>(134, 'int'),
  file_path: field<string>(100, 'string'),
  file_format: field<'PARQUET'>(101, 'string'),
  /** Days since 1970-01-01; no member in a table without partitions. */
  partition: field<{ readonly date?: number }>(102, record('r102', {})),
  record_count: field<number>(103, 'long'),
  file_size_in_bytes: field<number>(104, 'long'),
  column_sizes: byField<number>(108, [117, 118], 'long'),
  value_counts: byField<number>(109, [119, 120], 'long'),
  null_value_counts: byField<number>(110, [121, 122], 'long'),
  lower_bounds: byField<Buffer>(125, [126, 127], 'bytes'),
  upper_bounds: byField<Buffer>(128, [129, 130], 'bytes'),
};
/** One data file: one sealed revision of one date. */
export type DataFile = RecordOf<typeof DATA_FILE>;

const ENTRY = {
  status: field<(typeof ENTRY_STATUS)[keyof typeof ENTRY_STATUS]>(0, 'int'),
  /** The snapshot that added the file, or deleted it. */
  snapshot_id: optional<number>(1, 'long'),
  sequence_number: optional<number>(3, 'long'),
  file_sequence_number: optional<number>(4, 'long'),
  data_file: field<DataFile>(2, record('r2', DATA_FILE)),
};
export type ManifestEntry = RecordOf<typeof ENTRY>;

const PARTITION = {
  contains_null: field<boolean>(509, 'boolean'),
  contains_nan: optional<boolean>(518, 'boolean'),
  lower_bound: optional<Buffer>(510, 'bytes'),
  upper_bound: optional<Buffer>(511, 'bytes'),
};
const LISTED = {
  manifest_path: field<string>(500, 'string'),
  manifest_length: field<number>(501, 'long'),
  partition_spec_id: field<number>(502, 'int'),
  content: field<0>(517, 'int'),
  sequence_number: field<number>(515, 'long'),
  min_sequence_number: field<number>(516, 'long'),
  added_snapshot_id: field<number>(503, 'long'),
  added_files_count: field<number>(504, 'int'),
  existing_files_count: field<number>(505, 'int'),
  deleted_files_count: field<number>(506, 'int'),
  added_rows_count: field<number>(512, 'long'),
  existing_rows_count: field<number>(513, 'long'),
  deleted_rows_count: field<number>(514, 'long'),
  /** One for each partition field. */
  partitions: optional<readonly RecordOf<typeof PARTITION>[]>(507, {
    ...{ type: 'array', 'element-id': 508 },
    items: record('r508', PARTITION),
  }),
};
/** A manifest as its list describes it. */
export type ListedManifest = RecordOf<typeof LISTED>;

// Avro's own type knows no attributes of others, which Avro allows.
export const LIST_SCHEMA = record('manifest_file', LISTED) as avro.Schema;

export function entrySchema(isPartitioned: boolean): avro.Schema {
  const date = { date: optional(1000, { type: 'int', logicalType: 'date' }) };
  const file = isPartitioned ? { ...DATA_FILE, partition: field(102, record('r102', date)) } : DATA_FILE;
  return record('manifest_entry', { ...ENTRY, data_file: field(2, record('r2', file)) }) as avro.Schema;
}

export type AvroFile = Awaited<ReturnType<typeof encodeAvro>>;

/**
 * @param metadata of the file, as the spec wants it: `schema`, `partition-spec` and others
 * @returns its bytes; `digest` names the content: equal files have equal names, different ones never
 */
export async function encodeAvro(schema: avro.Schema, records: readonly object[], metadata: Record<string, string>) {
  const encoder = new avro.streams.BlockEncoder(schema, {
    codec: 'deflate',
    // A random one would give equal contents other bytes, and so other names.
    syncMarker: Buffer.alloc(16, 'flowdrop'),
    metadata: Object.fromEntries(Object.entries(metadata).map(([name, value]) => [name, Buffer.from(value)])),
  } as object); // Its type lacks `metadata`.
  for (const record of records) encoder.write(record);
  encoder.end();
  const bytes = Buffer.concat(await encoder.toArray());
  return { bytes, digest: createHash('sha256').update(bytes).digest('hex').slice(0, 32) };
}

/** Its records, as the schema in the file has them. @throws Fault `TABLE_DAMAGED` */
export async function decodeAvro<T>(bytes: Uint8Array, where: string): Promise<readonly T[]> {
  try {
    const file = Readable.from([Buffer.from(bytes)], { objectMode: false });
    return await file.compose(new avro.streams.BlockDecoder()).toArray();
  } catch (cause) {
    throw damagedTable(`${where} cannot be read as Avro`, cause);
  }
}

export function damagedTable(message: string, cause?: unknown): Fault {
  return new Fault('TABLE_DAMAGED', message, {
    cause,
    hint: 'Drops and manifests are not affected. `flowdrop iceberg rebuild JOB` rebuilds the table from them.',
  });
}
