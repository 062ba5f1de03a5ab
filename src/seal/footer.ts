/**
 * The footer of a drop's Parquet file, completed after the engine has written it: wall-clock columns are declared as
 * not adjusted to UTC, the sort order is declared, and the job, query and column docs go into the key-value metadata.
 * Bloom filters without use are removed. Only the bytes after the last page are rewritten. Source: parquet-format,
 * `parquet.thrift`, `LogicalTypes.md`, `BloomFilter.md` and `PageIndex.md`.
 */
import { type FileHandle, open } from 'node:fs/promises';
import type { ColumnChunk, FileMetaData } from 'hyparquet';
import { Fault } from '../core/errors.ts';
import type { DropColumn } from './write-parquet.ts';

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
  const { asyncBufferFromFile, parquetMetadataAsync } = await import('hyparquet');
  const { ByteWriter } = await import('hyparquet-writer/src/bytewriter.js');
  const { writeMetadata } = await import('hyparquet-writer/src/metadata.js');
  const file = await open(path, 'r+');
  try {
    const metadata = await parquetMetadataAsync(await asyncBufferFromFile(path)).catch((cause: unknown) => {
      throw notWhole(path, 'its footer cannot be read', cause);
    });
    const footerStart = (await file.stat()).size - TAIL_BYTES - metadata.metadata_length;
    const tail = dropBloomFilters(metadata, footerStart);
    const pieces = await Promise.all(tail.pieces.map((piece) => readPiece(file, path, piece)));
    const writer = new ByteWriter();
    writeMetadata(writer, completeMetadata(metadata, notes), WHOLE_BOUNDS);
    const rewritten = Buffer.concat([...pieces, Buffer.from(writer.getBytes()), MAGIC]);
    await file.write(rewritten, 0, rewritten.length, tail.start);
    await file.truncate(tail.start + rewritten.length);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** A bloom filter of zeros would hide rows without any error. @throws Fault `SEAL_UNVERIFIED` */
async function readPiece(file: FileHandle, path: string, { offset, length }: Piece): Promise<Buffer> {
  const bytes = Buffer.alloc(length);
  const { bytesRead } = await file.read(bytes, 0, length, offset);
  if (bytesRead !== length) throw notWhole(path, `${bytesRead} of the ${length} bytes at ${offset} are there`);
  return bytes;
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

/**
 * Keeps the useful bloom filters. The engine writes one for every column or for none, and those of prices and ids take
 * a seventh of a drop. They lie between the last page and the page indexes; the others are never read.
 * @param metadata is changed @returns the pieces of the new tail, which begins after the last page
 */
function dropBloomFilters(metadata: FileMetaData, footerStart: number): { start: number; pieces: readonly Piece[] } {
  const chunks = metadata.row_groups.flatMap(({ columns }) => columns);
  const start = Math.min(footerStart, Math.max(0, ...chunks.map(endOfPages)) || footerStart);
  const indexes = chunks.flatMap((chunk) => [chunk.column_index_offset ?? [], chunk.offset_index_offset ?? []].flat());
  const indexStart = Math.min(footerStart, ...indexes.map(Number));
  const kept: Piece[] = [];
  let end = start;
  for (const { meta_data: chunk } of chunks) {
    const { bloom_filter_offset: from, bloom_filter_length: length } = chunk ?? {};
    if (chunk === undefined || from === undefined) continue;
    delete chunk.bloom_filter_offset;
    delete chunk.bloom_filter_length;
    const isInPlace = length !== undefined && Number(from) >= start && Number(from) + length <= indexStart;
    if (!isInPlace || !BLOOM_COLUMNS.includes(chunk.path_in_schema.join('.'))) continue;
    kept.push({ offset: Number(from), length });
    chunk.bloom_filter_offset = BigInt(end);
    chunk.bloom_filter_length = length;
    end += length;
  }
  // The page indexes stay together.
  const shift = BigInt(indexStart - end);
  for (const chunk of chunks) {
    if (chunk.column_index_offset !== undefined) chunk.column_index_offset -= shift;
    if (chunk.offset_index_offset !== undefined) chunk.offset_index_offset -= shift;
  }
  return { start, pieces: [...kept, { offset: indexStart, length: footerStart - indexStart }] };
}

function endOfPages({ meta_data: chunk }: ColumnChunk): number {
  const start = chunk?.dictionary_page_offset ?? chunk?.data_page_offset ?? 0n;
  return Number(start + (chunk?.total_compressed_size ?? 0n));
}
