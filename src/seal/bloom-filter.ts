/**
 * Keeping the bloom filters that are of use. The engine writes one for every column or for none, and those of prices and
 * ids are a seventh of a drop. They lie after the last page, before the page indexes: the tail is put together again
 * without the unwanted ones. Pure. Source: parquet-format, `BloomFilter.md` and `PageIndex.md`.
 */
import type { ColumnChunk, FileMetaData } from 'hyparquet';

export interface Tail {
  readonly metadata: FileMetaData;
  /** What follows the last page, up to the footer. */
  readonly bytes: Buffer;
}

/** End of the last page: where the tail begins. */
export function findTailStart(metadata: FileMetaData): number {
  const ends = metadata.row_groups.flatMap(({ columns }) =>
    columns.map(({ meta_data: chunk }) => {
      const start = chunk?.dictionary_page_offset ?? chunk?.data_page_offset ?? 0n;
      return Number(start + (chunk?.total_compressed_size ?? 0n));
    }),
  );
  return Math.max(0, ...ends);
}

/**
 * @param tail bytes from `start` up to the footer @param start from `findTailStart`
 * @param keep columns whose filters stay
 * @returns the tail as it is when something in it lies elsewhere than the engine puts it
 */
export function dropBloomFilters(metadata: FileMetaData, tail: Buffer, start: number, keep: readonly string[]): Tail {
  const pieces: Buffer[] = [];
  let length = 0;
  let misplaced = false;
  const move = (offset: bigint | undefined, size: number | undefined): bigint | undefined => {
    if (offset === undefined || size === undefined) return undefined;
    const from = Number(offset) - start;
    misplaced ||= from < 0 || from + size > tail.length;
    pieces.push(tail.subarray(from, from + size));
    length += size;
    return BigInt(start + length - size);
  };
  const groups = metadata.row_groups.map((group) => ({
    ...group,
    columns: group.columns.map((chunk) => ({ ...chunk, ...moveFilter(chunk, keep, move) })),
  }));
  for (const group of groups) {
    for (const chunk of group.columns) moveIndexes(chunk, move);
  }
  if (misplaced) return { metadata, bytes: tail };
  return { metadata: { ...metadata, row_groups: groups }, bytes: Buffer.concat(pieces) };
}

type Move = (offset: bigint | undefined, size: number | undefined) => bigint | undefined;

function moveFilter(chunk: ColumnChunk, keep: readonly string[], move: Move): Pick<ColumnChunk, 'meta_data'> {
  if (!chunk.meta_data) return {};
  const { bloom_filter_offset, bloom_filter_length, ...rest } = chunk.meta_data;
  if (!keep.includes(rest.path_in_schema.join('.'))) return { meta_data: rest };
  const offset = move(bloom_filter_offset, bloom_filter_length);
  if (offset === undefined || bloom_filter_length === undefined) return { meta_data: rest };
  return { meta_data: { ...rest, bloom_filter_offset: offset, bloom_filter_length } };
}

/** The chunks are copies by now: they may be changed. */
function moveIndexes(chunk: ColumnChunk, move: Move): void {
  const column = move(chunk.column_index_offset, chunk.column_index_length);
  if (column !== undefined) chunk.column_index_offset = column;
  const offset = move(chunk.offset_index_offset, chunk.offset_index_length);
  if (offset !== undefined) chunk.offset_index_offset = offset;
}
