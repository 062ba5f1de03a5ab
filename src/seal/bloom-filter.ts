/**
 * Keeps the useful bloom filters. The engine writes one for every column or for none, and those of prices and ids take
 * a seventh of a drop. They lie after the last page, before the page indexes. The tail is rebuilt from the kept pieces,
 * so the other filters are never read. Pure. Source: parquet-format, `BloomFilter.md` and `PageIndex.md`.
 */
import type { ColumnChunk, FileMetaData } from 'hyparquet';

/** Columns in which readers look up single values: they keep their filters. */
export const BLOOM_COLUMNS: readonly string[] = ['symbol', 'option_symbol'];

/** A byte range of the file as the engine wrote it. */
export interface Piece {
  readonly offset: number;
  readonly length: number;
}

interface Tail {
  readonly metadata: FileMetaData;
  /** The pieces between the last page and the footer, in order. */
  readonly pieces: readonly Piece[];
}

/** End of the last page, where the tail begins. */
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
 * @param tail bytes between the last page (`findTailStart`) and the footer
 * @param keep columns whose filters stay
 * @returns the tail unchanged if its layout is not the engine's
 */
export function dropBloomFilters(metadata: FileMetaData, tail: Piece, keep: readonly string[]): Tail {
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
    columns: group.columns.map((chunk) => ({ ...chunk, ...moveFilter(chunk, keep, move) })),
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

type Move = (offset: bigint | undefined, size: number | undefined) => bigint | undefined;

function moveFilter(chunk: ColumnChunk, keep: readonly string[], move: Move): Pick<ColumnChunk, 'meta_data'> {
  if (!chunk.meta_data) return {};
  const { bloom_filter_offset, bloom_filter_length, ...rest } = chunk.meta_data;
  if (!keep.includes(rest.path_in_schema.join('.'))) return { meta_data: rest };
  const offset = move(bloom_filter_offset, bloom_filter_length);
  if (offset === undefined || bloom_filter_length === undefined) return { meta_data: rest };
  return { meta_data: { ...rest, bloom_filter_offset: offset, bloom_filter_length } };
}
