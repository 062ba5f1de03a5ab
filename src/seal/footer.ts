/**
 * The footer of a drop's Parquet file, completed after the engine has written it: wall-clock columns are declared as
 * not adjusted to UTC, the sort order is declared, and the job, query and column docs go into the key-value metadata.
 * Bloom filters without use are removed. Only the bytes after the last page are rewritten. Source: parquet-format,
 * `parquet.thrift` and `LogicalTypes.md`.
 */
import { type FileHandle, open } from 'node:fs/promises';
import type { FileMetaData } from 'hyparquet';
import { Fault } from '../core/errors.ts';
import { BLOOM_COLUMNS, dropBloomFilters, findTailStart, type Piece } from './bloom-filter.ts';
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
    const kept = dropBloomFilters(metadata, tail, BLOOM_COLUMNS);
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
