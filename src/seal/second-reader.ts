/**
 * The independent reader (hyparquet) on one column of one row group: it decompresses every page and decodes every
 * value. Each value must be valid for all readers: UTF-8 text, finite numbers. Values are kept only on request, because
 * all columns of a group would take a hundred megabytes.
 */
import { isUtf8 } from 'node:buffer';
import type { AsyncBuffer, Compressors, DecodedArray, FileMetaData, ParquetParsers } from 'hyparquet';

export interface OpenedFile {
  readonly file: AsyncBuffer;
  readonly metadata: FileMetaData;
  readonly compressors: Compressors;
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
  const { asyncBufferFromFile, parquetMetadataAsync } = await import('hyparquet');
  const { compressors } = await import('hyparquet-compressors');
  const file = await asyncBufferFromFile(path);
  return { file, metadata: await parquetMetadataAsync(file), compressors };
}

/** @throws RangeError if the group has another number of values; any error of hyparquet */
export async function decodeColumn(
  opened: OpenedFile,
  name: string,
  { from, to }: RowSpan,
  { keep }: { readonly keep: boolean },
): Promise<DecodedColumn> {
  const { parquetRead } = await import('hyparquet');
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
  await parquetRead({ ...opened, columns: [name], rowStart: from, rowEnd: to, parsers, onChunk });
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
