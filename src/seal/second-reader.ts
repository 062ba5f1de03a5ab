/**
 * The independent reader (hyparquet) on one column of one row group: it decompresses every page and decodes every
 * value. Each value must be valid for all readers: UTF-8 text, finite numbers. Values are kept only on request, because
 * all columns of a group would take a hundred megabytes.
 */
import { isUtf8 } from 'node:buffer';
import type { AsyncBuffer, Compressors, DecodedArray, FileMetaData, ParquetParsers, parquetRead } from 'hyparquet';

export interface OpenedFile {
  readonly file: AsyncBuffer;
  readonly metadata: FileMetaData;
  readonly compressors: Compressors;
  /** The reader, loaded once a file: a load for each column takes longer than decoding a small one. */
  readonly read: typeof parquetRead;
}

/** Rows of a group, `to` excluded. */
interface RowSpan {
  readonly from: number;
  readonly to: number;
}

interface DecodedColumn {
  /** In row order; empty if not kept. */
  readonly values: readonly unknown[];
  /** Number of values that are not UTF-8 or not finite. */
  readonly bad: number;
}

/** Replaces a text that is not UTF-8. */
const BAD_TEXT = Symbol('not UTF-8');

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

/** @throws RangeError if the group has another number of values; any error of hyparquet */
export async function decodeColumn(
  opened: OpenedFile,
  name: string,
  { from, to }: RowSpan,
  { keep }: { readonly keep: boolean },
): Promise<DecodedColumn> {
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
