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

interface KeyedValue<Value> {
  readonly key: number;
  readonly value: Value;
}

/** One data file: one sealed revision of one date. */
export interface DataFile {
  readonly content: 0;
  readonly file_path: string;
  readonly file_format: 'PARQUET';
  /** Days since 1970-01-01; no member in a table without partitions. */
  readonly partition: { readonly date?: number };
  readonly record_count: number;
  readonly file_size_in_bytes: number;
  /** By field id. */
  readonly column_sizes: readonly KeyedValue<number>[];
  readonly value_counts: readonly KeyedValue<number>[];
  readonly null_value_counts: readonly KeyedValue<number>[];
  readonly lower_bounds: readonly KeyedValue<Buffer>[];
  readonly upper_bounds: readonly KeyedValue<Buffer>[];
  readonly split_offsets: readonly number[];
  readonly sort_order_id: number;
}

export interface ManifestEntry {
  readonly status: (typeof ENTRY_STATUS)[keyof typeof ENTRY_STATUS];
  /** The snapshot that added the file, or deleted it. */
  readonly snapshot_id: number;
  readonly sequence_number: number;
  readonly file_sequence_number: number;
  readonly data_file: DataFile;
}

/** A manifest as its list describes it. */
export interface ListedManifest {
  readonly manifest_path: string;
  readonly manifest_length: number;
  readonly partition_spec_id: number;
  readonly content: 0;
  readonly sequence_number: number;
  readonly min_sequence_number: number;
  readonly added_snapshot_id: number;
  readonly added_files_count: number;
  readonly existing_files_count: number;
  readonly deleted_files_count: number;
  readonly added_rows_count: number;
  readonly existing_rows_count: number;
  readonly deleted_rows_count: number;
  /** One for each partition field. */
  readonly partitions: readonly {
    readonly contains_null: boolean;
    readonly contains_nan: boolean;
    readonly lower_bound: Buffer;
    readonly upper_bound: Buffer;
  }[];
}

const field = (id: number, name: string, type: unknown) => ({ name, type, 'field-id': id });
const optional = (id: number, name: string, type: unknown) => ({
  ...field(id, name, ['null', type]),
  default: null,
});
/** A map whose keys are no text: Avro has none, so it is a list of pairs. */
const mapOf = (keyId: number, valueId: number, value: string) => ({
  type: 'array',
  logicalType: 'map',
  items: {
    type: 'record',
    name: `k${keyId}_v${valueId}`,
    fields: [field(keyId, 'key', 'int'), field(valueId, 'value', value)],
  },
});

export function entrySchema(isPartitioned: boolean): avro.Schema {
  const partition = isPartitioned ? [optional(1000, 'date', { type: 'int', logicalType: 'date' })] : [];
  const dataFile = [
    field(134, 'content', 'int'),
    field(100, 'file_path', 'string'),
    field(101, 'file_format', 'string'),
    field(102, 'partition', { type: 'record', name: 'r102', fields: partition }),
    field(103, 'record_count', 'long'),
    field(104, 'file_size_in_bytes', 'long'),
    optional(108, 'column_sizes', mapOf(117, 118, 'long')),
    optional(109, 'value_counts', mapOf(119, 120, 'long')),
    optional(110, 'null_value_counts', mapOf(121, 122, 'long')),
    optional(125, 'lower_bounds', mapOf(126, 127, 'bytes')),
    optional(128, 'upper_bounds', mapOf(129, 130, 'bytes')),
    optional(132, 'split_offsets', { type: 'array', items: 'long', 'element-id': 133 }),
    optional(140, 'sort_order_id', 'int'),
  ];
  return {
    type: 'record',
    name: 'manifest_entry',
    fields: [
      field(0, 'status', 'int'),
      optional(1, 'snapshot_id', 'long'),
      optional(3, 'sequence_number', 'long'),
      optional(4, 'file_sequence_number', 'long'),
      field(2, 'data_file', { type: 'record', name: 'r2', fields: dataFile }),
    ],
  } as avro.Schema; // Its type knows no attributes of others, which Avro allows.
}

export const LIST_SCHEMA = {
  type: 'record',
  name: 'manifest_file',
  fields: [
    field(500, 'manifest_path', 'string'),
    field(501, 'manifest_length', 'long'),
    field(502, 'partition_spec_id', 'int'),
    field(517, 'content', 'int'),
    field(515, 'sequence_number', 'long'),
    field(516, 'min_sequence_number', 'long'),
    field(503, 'added_snapshot_id', 'long'),
    field(504, 'added_files_count', 'int'),
    field(505, 'existing_files_count', 'int'),
    field(506, 'deleted_files_count', 'int'),
    field(512, 'added_rows_count', 'long'),
    field(513, 'existing_rows_count', 'long'),
    field(514, 'deleted_rows_count', 'long'),
    optional(507, 'partitions', {
      type: 'array',
      'element-id': 508,
      items: {
        type: 'record',
        name: 'r508',
        fields: [
          field(509, 'contains_null', 'boolean'),
          optional(518, 'contains_nan', 'boolean'),
          optional(510, 'lower_bound', 'bytes'),
          optional(511, 'upper_bound', 'bytes'),
        ],
      },
    }),
  ],
} as avro.Schema;

export interface AvroFile {
  readonly bytes: Buffer;
  /** Names the content: equal files have equal names, different ones never. */
  readonly digest: string;
}

/** @param metadata of the file, as the spec wants it: `schema`, `partition-spec` and others */
export async function encodeAvro(
  schema: avro.Schema,
  records: readonly object[],
  metadata: Readonly<Record<string, string>>,
): Promise<AvroFile> {
  const encoder = new avro.streams.BlockEncoder(schema, {
    codec: 'deflate',
    // A random one would give equal contents other bytes, and so other names.
    syncMarker: Buffer.alloc(16, 'flowdrop'),
    metadata: Object.fromEntries(Object.entries(metadata).map(([name, value]) => [name, Buffer.from(value)])),
  } as object); // Its type lacks `metadata`.
  const chunks: Buffer[] = [];
  const done = (async () => {
    for await (const chunk of encoder) chunks.push(chunk as Buffer);
  })();
  for (const record of records) encoder.write(record);
  encoder.end();
  await done;
  const bytes = Buffer.concat(chunks);
  return { bytes, digest: createHash('sha256').update(bytes).digest('hex').slice(0, 32) };
}

/** Its records, as the schema in the file has them. @throws Fault `TABLE_DAMAGED` */
export async function decodeAvro<T>(bytes: Uint8Array, where: string): Promise<readonly T[]> {
  const records: T[] = [];
  try {
    for await (const record of Readable.from([Buffer.from(bytes)], { objectMode: false }).compose(
      new avro.streams.BlockDecoder(),
    ))
      records.push(record as T);
    return records;
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
