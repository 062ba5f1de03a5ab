/**
 * The footer of a drop's Parquet file, completed after the engine has written it: wall-clock columns are declared as
 * not adjusted to UTC, the sort order is declared, and the job, query and column docs go into the key-value metadata.
 * Bloom filters without use are removed. Only the bytes after the last page are rewritten. Source: parquet-format,
 * `parquet.thrift`, `LogicalTypes.md`, `BloomFilter.md` and `PageIndex.md`.
 */
import { type FileHandle, open } from 'node:fs/promises';
import type { ColumnChunk, FileMetaData } from 'hyparquet';
import { Fault } from '../core/errors.ts';
import type { DropColumn } from './drop-columns.ts';

interface FooterNotes {
  readonly columns: readonly DropColumn[];
  /** By column name; columns without one get none. */
  readonly fieldIds?: ReadonlyMap<string, number> | undefined;
  /** Names of the sort columns, ascending. */
  readonly sort: readonly string[];
  /** Key-value metadata of the file, e.g. `flowdrop.job`. */
  readonly keyValues: Readonly<Record<string, string>>;
}

/** Length of the footer's size field and the closing magic bytes. */
const TAIL_BYTES = 8;
/** Bounds of text columns are not truncated: option symbols differ only in their last letters. */
const WHOLE_BOUNDS = Number.POSITIVE_INFINITY;
const MAGIC = Buffer.from('PAR1');

/**
 * Rewrites the footer in place. The file must not be published yet: a crash here leaves it unreadable.
 * @throws Fault `SEAL_UNVERIFIED` if the engine left an incomplete file, as on a full disk, which it may not report
 */
export async function writeFooter(path: string, notes: FooterNotes): Promise<void> {
  const { ByteWriter } = await import('hyparquet-writer');
  const { writeMetadata } = await import('hyparquet-writer/src/metadata.js');
  const metadata = await readFooter(path);
  const file = await open(path, 'r+');
  try {
    const { size } = await file.stat();
    const ending = Buffer.alloc(TAIL_BYTES);
    await file.read(ending, 0, TAIL_BYTES, size - TAIL_BYTES);
    const footerStart = size - TAIL_BYTES - ending.readUInt32LE(0);
    const tailStart = Math.min(footerStart, findTailStart(metadata) || footerStart);
    const tail = { offset: tailStart, length: footerStart - tailStart };
    const kept = dropBloomFilters(metadata, tail);
    const writer = new ByteWriter();
    writeMetadata(writer, completeMetadata(kept.metadata, notes), WHOLE_BOUNDS);
    const rewritten = Buffer.concat([await readPieces(file, path, kept.pieces), Buffer.from(writer.getBytes()), MAGIC]);
    await file.write(rewritten, 0, rewritten.length, tailStart);
    await file.truncate(tailStart + rewritten.length);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Joins the pieces. A bloom filter of zeros would hide rows without any error. @throws Fault `SEAL_UNVERIFIED` */
async function readPieces(file: FileHandle, path: string, pieces: readonly Piece[]): Promise<Buffer> {
  const bytes = Buffer.alloc(pieces.reduce((sum, { length }) => sum + length, 0));
  let filled = 0;
  for (const { offset, length } of pieces) {
    const { bytesRead } = await file.read(bytes, filled, length, offset);
    if (bytesRead !== length) throw notWhole(path, `${bytesRead} of the ${length} bytes at ${offset} are there`);
    filled += length;
  }
  return bytes;
}

/** @throws Fault `SEAL_UNVERIFIED` */
async function readFooter(path: string): Promise<FileMetaData> {
  const { asyncBufferFromFile, parquetMetadataAsync } = await import('hyparquet');
  try {
    return await parquetMetadataAsync(await asyncBufferFromFile(path));
  } catch (cause) {
    throw notWhole(path, 'its footer cannot be read', cause);
  }
}

function notWhole(path: string, reason: string, cause?: unknown): Fault {
  return new Fault('SEAL_UNVERIFIED', `${path} was not written completely: ${reason}`, {
    cause,
    hint: 'Nothing was published; the staged rows are kept. Check whether the disk is full, then run again.',
  });
}

function completeMetadata(metadata: FileMetaData, notes: FooterNotes): FileMetaData {
  const wall = new Set(notes.columns.filter((column) => column.type === 'wall').map((column) => column.name));
  // Element 0 is the root; the leaves follow in column order.
  const names = metadata.schema.slice(1).map((element) => element.name);
  const sorting_columns = notes.sort.map((name) => ({
    column_idx: names.indexOf(name),
    descending: false,
    nulls_first: false,
  }));
  const { key_value_metadata: written = [], ...rest } = metadata;
  const pairs = [
    ...written,
    ...Object.entries(notes.keyValues).map(([key, value]) => ({ key, value })),
    ...notes.columns.map(({ name, description }) => ({ key: `column.${name}`, value: description })),
  ];
  return {
    ...rest,
    // The pages are version 1, although the engine writes 2; old readers (parquetjs) refuse 2.
    version: 1,
    schema: metadata.schema.map((element) => {
      const field_id = notes.fieldIds?.get(element.name);
      const named = field_id === undefined ? element : { ...element, field_id };
      if (!wall.has(element.name)) return named;
      // TIMESTAMP_MICROS would mean UTC to readers that know only converted types.
      const { converted_type: _, ...kept } = named;
      return { ...kept, logical_type: { type: 'TIMESTAMP', isAdjustedToUTC: false, unit: 'MICROS' } };
    }),
    row_groups: metadata.row_groups.map((group) => ({ ...group, sorting_columns })),
    // An empty list has no element type, and parquet-rs refuses it.
    ...(pairs.length > 0 ? { key_value_metadata: pairs } : {}),
  };
}

/** Columns in which readers look up single values: they keep their filters. */
const BLOOM_COLUMNS: readonly string[] = ['symbol', 'option_symbol'];

/** A byte range of the file as the engine wrote it. */
interface Piece {
  readonly offset: number;
  readonly length: number;
}

/** End of the last page, where the tail begins. */
function findTailStart(metadata: FileMetaData): number {
  const ends = metadata.row_groups.flatMap(({ columns }) =>
    columns.map(({ meta_data: chunk }) => {
      const start = chunk?.dictionary_page_offset ?? chunk?.data_page_offset ?? 0n;
      return Number(start + (chunk?.total_compressed_size ?? 0n));
    }),
  );
  return Math.max(0, ...ends);
}

/**
 * Keeps the useful bloom filters. The engine writes one for every column or for none, and those of prices and ids take
 * a seventh of a drop. They lie after the last page, before the page indexes; the others are never read.
 * @param tail bytes between the last page (`findTailStart`) and the footer
 * @returns the pieces of the new tail, in order; the tail unchanged if its layout is not the engine's
 */
function dropBloomFilters(
  metadata: FileMetaData,
  tail: Piece,
): { readonly metadata: FileMetaData; readonly pieces: readonly Piece[] } {
  const pieces: Piece[] = [];
  let end = tail.offset;
  let misplaced = false;
  const move = (from: bigint | undefined, length: number | undefined): bigint | undefined => {
    if (from === undefined || length === undefined) return undefined;
    const offset = Number(from);
    misplaced ||= offset < tail.offset || offset + length > tail.offset + tail.length;
    pieces.push({ offset, length });
    end += length;
    return BigInt(end - length);
  };
  const groups = metadata.row_groups.map((group) => ({
    ...group,
    columns: group.columns.map((chunk) => ({ ...chunk, ...moveFilter(chunk, move) })),
  }));
  // The chunks are copies, so changing them is safe. All column indexes lie before all offset indexes.
  const chunks = groups.flatMap(({ columns }) => columns);
  for (const index of ['column_index', 'offset_index'] as const) {
    for (const chunk of chunks) {
      const offset = move(chunk[`${index}_offset`], chunk[`${index}_length`]);
      if (offset !== undefined) chunk[`${index}_offset`] = offset;
    }
  }
  if (misplaced) return { metadata, pieces: [tail] };
  return { metadata: { ...metadata, row_groups: groups }, pieces: joinNeighbours(pieces) };
}

/** Page indexes are adjacent: thousands of pieces become one. */
function joinNeighbours(pieces: readonly Piece[]): readonly Piece[] {
  const joined: Piece[] = [];
  for (const piece of pieces) {
    const last = joined.at(-1);
    if (last && last.offset + last.length === piece.offset) {
      joined[joined.length - 1] = { offset: last.offset, length: last.length + piece.length };
    } else {
      joined.push(piece);
    }
  }
  return joined;
}

function moveFilter(
  chunk: ColumnChunk,
  move: (offset: bigint | undefined, size: number | undefined) => bigint | undefined,
): Pick<ColumnChunk, 'meta_data'> {
  if (!chunk.meta_data) return {};
  const { bloom_filter_offset, bloom_filter_length, ...rest } = chunk.meta_data;
  if (!BLOOM_COLUMNS.includes(rest.path_in_schema.join('.'))) return { meta_data: rest };
  const offset = move(bloom_filter_offset, bloom_filter_length);
  if (offset === undefined || bloom_filter_length === undefined) return { meta_data: rest };
  return { meta_data: { ...rest, bloom_filter_offset: offset, bloom_filter_length } };
}
