/**
 * Adds snapshots to a table: each adds, replaces or removes the file of one date. The files of a month share a manifest,
 * which is written anew when one of its dates changes, so a snapshot costs two small files however long the table is.
 * Invariant: nothing that an earlier snapshot names is changed; new files are named by their content. Source of the
 * bounds: the Iceberg table spec, "Appendix D: Single-value serialization", and "Manifests" (`-0.0` and `+0.0`).
 */
import type { Store } from '../../store/store.ts';
import { filenameOf, tableMetadataPrefix } from '../layout.ts';
import type { Manifest } from '../manifest.ts';
import {
  type AvroFile,
  type DataFile,
  damagedTable,
  decodeAvro,
  ENTRY_STATUS,
  encodeAvro,
  entrySchema,
  LIST_SCHEMA,
  type ListedManifest,
  type ManifestEntry,
} from './table-avro.ts';
import {
  createMetadata,
  currentFields,
  currentSnapshot,
  deriveSnapshotId,
  isPartitioned,
  keyOf,
  locate,
  locateTable,
  mergeFields,
  type TableField,
  type TableMetadata,
  type TableSnapshot,
  unfit,
  withColumns,
  withSnapshot,
} from './table-metadata.ts';

export interface TableChange {
  readonly date: string;
  readonly revision: number;
  readonly atMs: number;
  /** What was sealed, and the key of the object with its rows; absent: the date is removed. */
  readonly sealed?: { readonly manifest: Manifest; readonly key: string };
}

export function sealedChange(manifest: Manifest, key: string): TableChange {
  const { date, revision, sealed_at: at } = manifest;
  return { date, revision, atMs: Date.parse(at), sealed: { manifest, key } };
}

/** A table to which snapshots are added. Its document counts only when it is written as the next version. */
export class GrowingTable {
  /** `undefined` without any snapshot. */
  metadata: TableMetadata | undefined;
  readonly #store: Store;
  readonly #dataset: string;
  /** The manifests of the current snapshot; `undefined` until they are needed. */
  #manifests: readonly ListedManifest[] | undefined;
  readonly #entries = new Map<string, readonly ManifestEntry[]>();

  /** @param metadata `undefined`: there is no table before its first snapshot */
  constructor(store: Store, dataset: string, metadata: TableMetadata | undefined) {
    this.#store = store;
    this.#dataset = dataset;
    this.metadata = metadata;
  }

  /** Adds one snapshot. @throws StoreFault; Fault `TABLE_UNFIT`, `TABLE_DAMAGED` */
  async add({ date, revision, atMs, sealed }: TableChange): Promise<void> {
    const [store, dataset] = [this.#store, this.#dataset];
    const before =
      this.metadata ?? (sealed && createMetadata(locateTable(store, dataset), mergeFields([], sealed.manifest)));
    if (before === undefined) return;
    const metadata = sealed ? withColumns(before, sealed.manifest) : before;
    const file = sealed && describeFile(metadata, sealed.manifest, locate(store, sealed.key));
    const id = deriveSnapshotId(metadata, `${sealed ? 'add' : 'delete'} ${dataset} ${date} revision ${revision}`);
    const sequence = metadata['last-sequence-number'] + 1;
    const parent = currentSnapshot(metadata);
    this.#manifests ??= parent === undefined ? [] : await readManifestList(store, parent);
    const listed = this.#manifests;
    const month = date.slice(0, 'YYYY-MM'.length);
    // Manifests are named by month and content.
    const own = listed.find(({ manifest_path: path }) => filenameOf(path).startsWith(month));
    const known = own && (this.#entries.get(own.manifest_path) ?? (await readTableManifest(store, own.manifest_path)));
    const live = (known ?? []).filter(isLive);
    const folder = `/session=${date}/`;
    const ofDate = live.filter((entry) => entry.data_file.file_path.includes(folder));
    const added = { status: ENTRY_STATUS.added, snapshot_id: id, sequence_number: sequence };
    const entries: ManifestEntry[] = [
      ...live.filter((entry) => !ofDate.includes(entry)).map((entry) => ({ ...entry, status: ENTRY_STATUS.existing })),
      ...ofDate.map((entry) => ({ ...entry, status: ENTRY_STATUS.deleted, snapshot_id: id })),
      ...(file ? [{ ...added, file_sequence_number: sequence, data_file: file }] : []),
    ];
    const written = await this.#writeManifest(metadata, month, entries, id);
    // A manifest without live files says only what this snapshot deleted.
    const manifests = [
      ...listed.filter((one) => one !== own && one.added_files_count + one.existing_files_count > 0),
      written,
    ];
    const list = await encodeAvro(LIST_SCHEMA, manifests, {
      'snapshot-id': String(id),
      'parent-snapshot-id': String(parent?.['snapshot-id'] ?? 'null'),
      'sequence-number': String(sequence),
      'format-version': '2',
    });
    this.metadata = withSnapshot(metadata, {
      'snapshot-id': id,
      ...(parent ? { 'parent-snapshot-id': parent['snapshot-id'] } : {}),
      'sequence-number': sequence,
      // When the date was sealed; but snapshots are in the order of their times.
      'timestamp-ms': Math.max(atMs, (parent?.['timestamp-ms'] ?? 0) + 1),
      'manifest-list': await this.#write('snap', list),
      'schema-id': metadata['current-schema-id'],
      summary: {
        ...summarize(parent, file, ofDate),
        'flowdrop.date': date,
        'flowdrop.revision': String(revision),
        'flowdrop.manifest-hash': sealed?.manifest.manifest_hash ?? '',
      },
    });
    this.#manifests = manifests;
  }

  async #writeManifest(
    metadata: TableMetadata,
    month: string,
    entries: readonly ManifestEntry[],
    id: number,
  ): Promise<ListedManifest> {
    const [{ 'spec-id': specId, fields }] = metadata['partition-specs'];
    const schema = metadata.schemas.find((one) => one['schema-id'] === metadata['current-schema-id']);
    const encoded = await encodeAvro(entrySchema(isPartitioned(metadata)), entries, {
      schema: JSON.stringify(schema),
      'schema-id': String(metadata['current-schema-id']),
      'partition-spec': JSON.stringify(fields),
      'partition-spec-id': String(specId),
      'format-version': '2',
      content: 'data',
    });
    const path = await this.#write(month, encoded);
    this.#entries.set(path, entries);
    const sequence = metadata['last-sequence-number'] + 1;
    const [added, existing, deleted] = (['added', 'existing', 'deleted'] as const).map((name) => {
      const files = entries.filter(({ status }) => status === ENTRY_STATUS[name]).map((entry) => entry.data_file);
      return { files: files.length, rows: files.reduce((sum, file) => sum + file.record_count, 0) };
    });
    const days = entries.flatMap(({ data_file: { partition } }) => partition.date ?? []);
    const bounds = () => ({
      lower_bound: encodeBound('int', Math.min(...days), 'lower'),
      upper_bound: encodeBound('int', Math.max(...days), 'upper'),
    });
    return {
      manifest_path: path,
      manifest_length: encoded.bytes.length,
      partition_spec_id: specId,
      content: 0,
      sequence_number: sequence,
      min_sequence_number: Math.min(...entries.filter(isLive).map((entry) => entry.sequence_number), sequence),
      added_snapshot_id: id,
      added_files_count: added?.files ?? 0,
      existing_files_count: existing?.files ?? 0,
      deleted_files_count: deleted?.files ?? 0,
      added_rows_count: added?.rows ?? 0,
      existing_rows_count: existing?.rows ?? 0,
      deleted_rows_count: deleted?.rows ?? 0,
      partitions: isPartitioned(metadata) ? [{ contains_null: false, contains_nan: false, ...bounds() }] : [],
    };
  }

  /** @returns how readers address the file */
  async #write(name: string, { bytes, digest }: AvroFile): Promise<string> {
    const key = `${tableMetadataPrefix(this.#dataset)}${name}-${digest}.avro`;
    await this.#store.put(key, { bytes });
    return locate(this.#store, key);
  }
}

/** @throws StoreFault; Fault `TABLE_DAMAGED` */
export async function readManifestList(store: Store, snapshot: TableSnapshot): Promise<readonly ListedManifest[]> {
  return await readRecords(store, snapshot['manifest-list']);
}

/** @throws StoreFault; Fault `TABLE_DAMAGED` */
export async function readTableManifest(store: Store, path: string): Promise<readonly ManifestEntry[]> {
  return await readRecords(store, path);
}

export function isLive({ status }: ManifestEntry): boolean {
  return status !== ENTRY_STATUS.deleted;
}

async function readRecords<T>(store: Store, path: string): Promise<readonly T[]> {
  const bytes = await store.get(keyOf(store, path));
  if (bytes === undefined) throw damagedTable(`${path} is missing`);
  return await decodeAvro(bytes, path);
}

/** The data file of a manifest. @param metadata has its columns already @throws Fault `TABLE_UNFIT` */
function describeFile(metadata: TableMetadata, manifest: Manifest, path: string): DataFile {
  const ids = new Map(manifest.schema.map(({ name, field_id: id }) => [name, id]));
  const types = new Map(currentFields(metadata).map(({ id, type }) => [id, type]));
  const columns = manifest.statistics.map((one) => ({ ...one, key: ids.get(one.column) ?? 0 }));
  const bounds = (end: 'lower' | 'upper') =>
    columns.flatMap(({ key, min, max }) => {
      const [value, type] = [end === 'lower' ? min : max, types.get(key)];
      return value === undefined || type === undefined ? [] : [{ key, value: encodeBound(type, value, end) }];
    });
  const day = columns.find(({ key }) => key === metadata['partition-specs'][0].fields[0]?.['source-id']);
  if (isPartitioned(metadata) && (day?.min !== manifest.date || day.max !== manifest.date || day.nulls > 0))
    throw unfit(
      manifest,
      `its rows have the dates ${day?.min ?? 'none'} to ${day?.max ?? 'none'}, and readers go by the partition`,
    );
  return {
    content: 0,
    file_path: path,
    file_format: 'PARQUET',
    partition: isPartitioned(metadata) ? { date: countDays(manifest.date) } : {},
    record_count: manifest.rows,
    file_size_in_bytes: manifest.files[0].size,
    column_sizes: columns.map(({ key, bytes }) => ({ key, value: bytes })),
    value_counts: columns.map(({ key }) => ({ key, value: manifest.rows })),
    null_value_counts: columns.map(({ key, nulls }) => ({ key, value: nulls })),
    lower_bounds: bounds('lower'),
    upper_bounds: bounds('upper'),
  };
}

/** In the words of the spec ("Optional Snapshot Summary Fields"). */
function summarize(parent: TableSnapshot | undefined, file: DataFile | undefined, removed: readonly ManifestEntry[]) {
  const total = (name: string) => Number(parent?.summary[`total-${name}`] ?? 0);
  const sum = (value: (file: DataFile) => number) => removed.reduce((all, entry) => all + value(entry.data_file), 0);
  const [files, rows, bytes] = [file ? 1 : 0, file?.record_count ?? 0, file?.file_size_in_bytes ?? 0];
  const [goneRows, goneBytes] = [sum((one) => one.record_count), sum((one) => one.file_size_in_bytes)];
  const facts = {
    'added-data-files': files,
    'added-records': rows,
    'added-files-size': bytes,
    'deleted-data-files': removed.length,
    'deleted-records': goneRows,
    'removed-files-size': goneBytes,
    'total-data-files': total('data-files') + files - removed.length,
    'total-records': total('records') + rows - goneRows,
    'total-files-size': total('files-size') + bytes - goneBytes,
  };
  return {
    operation: file === undefined ? 'delete' : removed.length > 0 ? 'overwrite' : 'append',
    ...Object.fromEntries(Object.entries(facts).map(([name, value]) => [name, String(value)])),
  };
}

const DAY_MS = 86_400_000;

/**
 * @param value as in a manifest's `statistics`: of times it has milliseconds, so an upper bound is the end of that
 *   millisecond
 */
function encodeBound(type: TableField['type'], value: string | number, end: 'lower' | 'upper'): Buffer {
  const bytes = Buffer.alloc(8);
  switch (type) {
    case 'string':
      return Buffer.from(String(value), 'utf8');
    case 'int':
      bytes.writeInt32LE(Number(value));
      return bytes.subarray(0, 4);
    case 'date':
      bytes.writeInt32LE(countDays(String(value)));
      return bytes.subarray(0, 4);
    case 'long':
      bytes.writeBigInt64LE(BigInt(value));
      return bytes;
    case 'double':
      bytes.writeDoubleLE(Number(value) === 0 ? (end === 'lower' ? -0 : 0) : Number(value));
      return bytes;
    case 'timestamp':
    case 'timestamptz': {
      const text = String(value);
      const millis = BigInt(Date.parse(text.endsWith('Z') ? text : `${text}Z`));
      bytes.writeBigInt64LE(millis * 1000n + (end === 'upper' ? 999n : 0n));
      return bytes;
    }
    default:
      return type satisfies never;
  }
}

/** Days since 1970-01-01. */
function countDays(date: string): number {
  return Date.parse(`${date}T00:00:00Z`) / DAY_MS;
}
