/**
 * Reads a Parquet file with an independent reader (hyparquet): what its footer says of it, and its values, column by
 * column. Each value must be valid for all readers: UTF-8 text, finite numbers. Memory holds one column of one row group,
 * and the sort columns of a group.
 */
import { isUtf8 } from 'node:buffer';
import type {
  AsyncBuffer,
  Compressors,
  DecodedArray,
  FileMetaData,
  ParquetParsers,
  parquetRead,
  SchemaElement,
} from 'hyparquet';
import type { Manifest } from '../ledger/manifest.ts';

interface OpenedFile {
  readonly file: AsyncBuffer;
  readonly metadata: FileMetaData;
  readonly compressors: Compressors;
  /** The reader, loaded once a file: a load for each column takes longer than decoding a small one. */
  readonly read: typeof parquetRead;
}

/** Replaces a text that is not UTF-8. */
const BAD_TEXT = Symbol('not UTF-8');

/** What a manifest says of its file. */
export type FileFacts = Pick<Manifest, 'rows' | 'row_groups' | 'schema' | 'statistics' | 'min_time' | 'max_time'>;

/** The values of a file beside its footer. */
export interface ReadFile extends FileFacts {
  /** Values that are not UTF-8 or not finite, by column: some readers refuse such files, others show nonsense. */
  readonly bad: readonly { readonly column: string; readonly rows: number }[];
  /** The first row out of order, counted from 0; `undefined` if all are in order. */
  readonly disorder: number | undefined;
  /** Sort columns declared by all row groups; empty if the groups differ. */
  readonly declaredSort: readonly string[];
  /** Codecs of the column chunks, lower case, sorted. */
  readonly codecs: readonly string[];
}

/**
 * Minimum number of columns decoded in each row group where not all are. Decoding all of them took a third of the time of
 * everything before it; `flowdrop verify` decodes all.
 */
const DECODED_COLUMNS = 2;

/**
 * @param sort columns of the declared order, ascending, nulls last; absent: in each row group only some columns are decoded,
 * in turn, so that each is in at least one group, and the order is not read
 * @throws an error of hyparquet; RangeError
 */
export async function readParquet(path: string, sort?: readonly string[], signal?: AbortSignal): Promise<ReadFile> {
  const opened = await openParquet(path);
  const { metadata } = opened;
  const facts = describeFile(metadata);
  const names = facts.schema.map(({ name }) => name);
  const atOnce = sort
    ? names.length
    : Math.max(DECODED_COLUMNS, Math.ceil(names.length / Math.max(1, facts.row_groups)));
  let last: readonly unknown[] | undefined;
  let disorder: number | undefined;
  const bad = new Map<string, number>();
  let from = 0;
  for (const [index, group] of metadata.row_groups.entries()) {
    const to = from + Number(group.num_rows);
    const sorted = new Map<string, readonly unknown[]>();
    for (let turn = 0; turn < Math.min(atOnce, names.length); turn += 1) {
      signal?.throwIfAborted();
      const name = names[(index * atOnce + turn) % names.length] ?? '';
      const isSorted = sort?.includes(name) === true;
      const column = await decodeColumn(opened, name, { from, to, keep: isSorted });
      if (column.bad > 0) bad.set(name, (bad.get(name) ?? 0) + column.bad);
      if (isSorted) sorted.set(name, column.values);
    }
    const columns = (sort ?? []).map((name) => sorted.get(name) ?? []);
    // Each row is compared with the one before, across row groups.
    for (let row = 0; sort && row < to - from && disorder === undefined; row += 1) {
      const present = columns.map((column) => column[row]);
      if (last && compareRows(last, present) > 0) disorder = from + row;
      last = present;
    }
    from = to;
  }
  return {
    ...facts,
    bad: [...bad].map(([column, rows]) => ({ column, rows })),
    disorder,
    declaredSort: readDeclaredSort(metadata),
    codecs: listCodecs(metadata),
  };
}

/** @throws an error of hyparquet if the footer cannot be read */
export async function openParquet(path: string): Promise<OpenedFile> {
  const { asyncBufferFromFile, parquetMetadataAsync, parquetRead: read } = await import('hyparquet');
  const { compressors, decompressZstd } = await import('hyparquet-compressors');
  const ZSTD = (page: Uint8Array, sizeBytes: number) => decompressZstd(narrowWindow(page, sizeBytes));
  const file = await asyncBufferFromFile(path);
  return { file, metadata: await parquetMetadataAsync(file), compressors: { ...compressors, ZSTD }, read };
}

const ZSTD_MAGIC = 0xfd2fb528;
/** Of a frame's descriptor: no window follows. */
const SINGLE_SEGMENT = 0x20;
const MIN_WINDOW_BITS = 10;

/**
 * The page as a frame whose window is no larger than what it decompresses to (RFC 8878, section 3.1.1.1.2). The reader
 * allocates and moves the whole window for each page: the engine writes 2 MiB for pages of 128 KiB and less.
 * @param sizeBytes as the page's header says; a page that has more or less fails as before
 */
function narrowWindow(page: Uint8Array, sizeBytes: number): Uint8Array {
  const view = Buffer.from(page.buffer, page.byteOffset, page.byteLength);
  const isFrame = view.length > 5 && view.readUInt32LE(0) === ZSTD_MAGIC && ((view[4] ?? 0) & SINGLE_SEGMENT) === 0;
  if (!isFrame) return page;
  const bits = Math.max(MIN_WINDOW_BITS, Math.ceil(Math.log2(Math.max(1, sizeBytes))));
  const narrowed = (bits - MIN_WINDOW_BITS) << 3;
  if (narrowed >= (view[5] ?? 0)) return page;
  const copy = Uint8Array.from(page);
  copy[5] = narrowed;
  return copy;
}

/**
 * Decompresses every page of a column in the rows of a group, `to` excluded, and decodes every value. Values are kept only
 * on request, because all columns of a group would take a hundred megabytes.
 * @returns the kept values in row order, and the number of those that are not UTF-8 or not finite
 * @throws RangeError if the group has another number of values; any error of hyparquet
 */
async function decodeColumn(
  opened: OpenedFile,
  name: string,
  { from, to, keep }: { readonly from: number; readonly to: number; readonly keep: boolean },
): Promise<{ readonly values: readonly unknown[]; readonly bad: number }> {
  // A column chunk arrives in pieces of several pages, in row order.
  const pieces: DecodedArray[] = [];
  let hasBadText = false;
  const stringFromBytes = (bytes: Uint8Array | undefined) => {
    if (bytes === undefined) return undefined;
    if (!isUtf8(bytes)) {
      hasBadText = true;
      return BAD_TEXT;
    }
    return keep ? Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8') : '';
  };
  const parsers: Partial<ParquetParsers> = keep ? { stringFromBytes } : { ...PLAIN, stringFromBytes };
  const onChunk = ({ columnData }: { readonly columnData: DecodedArray }) => void pieces.push(columnData);
  const { file, metadata, compressors } = opened;
  await opened.read({ file, metadata, compressors, columns: [name], rowStart: from, rowEnd: to, parsers, onChunk });
  const count = pieces.reduce((sum, { length }) => sum + length, 0);
  if (count !== to - from) throw new RangeError(`${name} has ${count} values in a row group of ${to - from} rows`);
  const isDouble = opened.metadata.schema.some((element) => element.name === name && element.type === 'DOUBLE');
  const bad = isDouble || hasBadText ? pieces.reduce((sum, piece) => sum + countBad(piece), 0) : 0;
  return { values: keep ? pieces.flatMap((piece) => Array.from(piece as readonly unknown[])) : [], bad };
}

/** Numbers stay numbers: converting them to dates takes longer than decoding. */
const PLAIN: Partial<ParquetParsers> = {
  timestampFromMilliseconds: (value) => value,
  timestampFromMicroseconds: (value) => value,
  timestampFromNanoseconds: (value) => value,
  dateFromDays: (value) => value,
};

function countBad(piece: DecodedArray): number {
  let bad = 0;
  for (const value of piece as ArrayLike<unknown> & Iterable<unknown>) {
    if (value === BAD_TEXT || (typeof value === 'number' && !Number.isFinite(value))) bad += 1;
  }
  return bad;
}

function compareRows(a: readonly unknown[], b: readonly unknown[]): number {
  for (const [index, value] of a.entries()) {
    const order = compareValues(value, b[index]);
    if (order !== 0) return order;
  }
  return 0;
}

/** Nulls last; text by UTF-8 bytes, as Parquet orders it. */
function compareValues(a: unknown, b: unknown): number {
  if (a === b) return 0;
  if (isNull(a) || isNull(b)) return Number(isNull(a)) - Number(isNull(b));
  if (typeof a === 'string' && typeof b === 'string') return Buffer.compare(Buffer.from(a), Buffer.from(b));
  const [x, y] = [a, b].map((value) => (value instanceof Date ? value.getTime() : value)) as [number, number];
  return x < y ? -1 : x > y ? 1 : 0;
}

function isNull(value: unknown): boolean {
  return value === null || value === undefined;
}

function readDeclaredSort(metadata: FileMetaData): readonly string[] {
  const names = metadata.schema.slice(1).map(({ name }) => name);
  const declared = metadata.row_groups.map(({ sorting_columns }) =>
    (sorting_columns ?? []).map(({ column_idx, descending }) => `${names[column_idx]}${descending ? ' desc' : ''}`),
  );
  const [first = []] = declared;
  return declared.every((sort) => sort.join() === first.join()) ? first : [];
}

function listCodecs(metadata: FileMetaData): readonly string[] {
  const chunks = metadata.row_groups.flatMap(({ columns }) => columns);
  return [...new Set(chunks.map(({ meta_data }) => String(meta_data?.codec).toLowerCase()))].sort();
}

/** The columns with their types, the row groups, and statistics of the whole file. */
export function describeFile(metadata: FileMetaData): FileFacts {
  const schema = metadata.schema.slice(1).map((element) => ({
    name: element.name,
    type: describeType(element),
    nullable: element.repetition_type === 'OPTIONAL',
    // 0 where `writeFooter` has not given a field id yet.
    field_id: element.field_id ?? 0,
  }));
  const statistics = metadata.schema.slice(1).map((element, index) => describeColumn(metadata, element, index));
  const time = findWallClock(schema);
  const { min, max } = statistics.find(({ column }) => column === time) ?? {};
  const timeOf = (bound: string | number | undefined) =>
    bound === undefined ? null : String(bound).slice(0, 'YYYY-MM-DDTHH:MM:SS'.length).replace('T', ' ');
  return {
    rows: Number(metadata.num_rows),
    row_groups: metadata.row_groups.length,
    schema,
    statistics,
    min_time: timeOf(min),
    max_time: timeOf(max),
  };
}

/** A column's type in Parquet's terms: `BYTE_ARRAY/STRING`, `INT64/TIMESTAMP(MICROS,utc=false)`. */
function describeType(element: SchemaElement): string {
  const logical = element.logical_type;
  if (logical?.type === 'TIMESTAMP') return `${element.type}/TIMESTAMP(${logical.unit},utc=${logical.isAdjustedToUTC})`;
  return [element.type, logical?.type].filter(Boolean).join('/');
}

/** The column of wall-clock times; `undefined` if there is none. */
function findWallClock(schema: FileFacts['schema']): string | undefined {
  return schema.find(({ type }) => type.startsWith('INT64/TIMESTAMP(') && type.endsWith('utc=false)'))?.name;
}

/** Bounds of longer texts take more room than they save work. */
const MAX_BOUND_CHARACTERS = 64;

/** Readers of the ledger rule out a file by these without opening it. Bounds are left out where a row group has none. */
function describeColumn(
  metadata: FileMetaData,
  { name, logical_type: logical }: SchemaElement,
  index: number,
): FileFacts['statistics'][number] {
  const chunks = metadata.row_groups.flatMap(({ columns }) => columns[index]?.meta_data ?? []);
  const isDate = logical?.type === 'DATE';
  const isUtc = logical?.type === 'TIMESTAMP' && logical.isAdjustedToUTC;
  const withValues = chunks.filter((chunk) => chunk.statistics?.null_count !== chunk.num_values);
  const bounds = withValues.flatMap(({ statistics }) => [statistics?.min_value, statistics?.max_value].filter(isBound));
  const hasAll = withValues.length > 0 && bounds.length === 2 * withValues.length;
  const sorted = bounds.sort(compareValues);
  const [min, max] = [sorted[0], sorted.at(-1)];
  return {
    column: name,
    bytes: Number(chunks.reduce((sum, { total_compressed_size: bytes }) => sum + bytes, 0n)),
    nulls: Number(chunks.reduce((sum, { statistics }) => sum + (statistics?.null_count ?? 0n), 0n)),
    ...(hasAll && isShort(min) && isShort(max)
      ? { min: formatBound(min, isDate, isUtc), max: formatBound(max, isDate, isUtc) }
      : {}),
  };
}

/** A bound as the reader decodes it. */
type Bound = string | number | bigint | Date;

function isBound(value: unknown): value is Bound {
  return ['string', 'number', 'bigint'].includes(typeof value) || value instanceof Date;
}

function isShort(value: Bound | undefined): value is Bound {
  return value !== undefined && (typeof value !== 'string' || value.length <= MAX_BOUND_CHARACTERS);
}

/** `2026-11-19`, `2026-11-19T09:30:00.000` (`Z` at the end if UTC), long integers as decimal text. */
function formatBound(value: Bound, isDate: boolean, isUtc: boolean): string | number {
  if (value instanceof Date) return value.toISOString().slice(0, isDate ? 10 : isUtc ? undefined : -1);
  return typeof value === 'bigint' ? String(value) : value;
}
