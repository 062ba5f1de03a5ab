/**
 * Statistics of a whole Parquet file, from the footer's statistics of its row groups: for the manifest, so that readers
 * of the ledger (tables, queries) can rule out a file without opening it. Pure.
 */
import type { FileMetaData, Statistics } from 'hyparquet';
import type { Manifest } from '../ledger/manifest.ts';

type ColumnStatistics = Manifest['statistics'][number];

/** Bounds of longer texts take more room than they save work. */
const MAX_BOUND_CHARACTERS = 64;

/** Of each column, in the file's order. Bounds are left out where a row group has none. */
export function describeStatistics(metadata: FileMetaData): ColumnStatistics[] {
  return metadata.schema.slice(1).map(({ name, logical_type: logical }, index) => {
    const chunks = metadata.row_groups.flatMap(({ columns }) => columns[index]?.meta_data ?? []);
    const isDate = logical?.type === 'DATE';
    const isUtc = logical?.type === 'TIMESTAMP' && logical.isAdjustedToUTC;
    const withValues = chunks.filter((chunk) => chunk.statistics?.null_count !== chunk.num_values);
    const bounds = withValues.map(({ statistics }) => readBounds(statistics));
    const known = bounds.flatMap((bound) => bound ?? []);
    const hasAll = withValues.length > 0 && known.length === 2 * bounds.length;
    const min = known.reduce<Bound | undefined>(smaller, undefined);
    const max = known.reduce<Bound | undefined>(larger, undefined);
    return {
      column: name,
      bytes: Number(chunks.reduce((sum, { total_compressed_size: bytes }) => sum + bytes, 0n)),
      nulls: Number(chunks.reduce((sum, { statistics }) => sum + (statistics?.null_count ?? 0n), 0n)),
      ...(hasAll && isShort(min) && isShort(max)
        ? { min: formatBound(min, isDate, isUtc), max: formatBound(max, isDate, isUtc) }
        : {}),
    };
  });
}

/** Where each row group begins in the file, bytes. */
export function listRowGroupOffsets(metadata: FileMetaData): number[] {
  return metadata.row_groups.map(({ columns: [first] }) =>
    Number(first?.meta_data?.dictionary_page_offset ?? first?.meta_data?.data_page_offset ?? 0n),
  );
}

/** A bound as the reader decodes it. */
type Bound = string | number | bigint | Date;

function readBounds(statistics: Statistics | undefined): readonly [Bound, Bound] | undefined {
  const { min_value: min, max_value: max } = statistics ?? {};
  return isBound(min) && isBound(max) ? [min, max] : undefined;
}

function isBound(value: unknown): value is Bound {
  return ['string', 'number', 'bigint'].includes(typeof value) || value instanceof Date;
}

function isShort(value: Bound | undefined): value is Bound {
  return value !== undefined && (typeof value !== 'string' || value.length <= MAX_BOUND_CHARACTERS);
}

function smaller(a: Bound | undefined, b: Bound): Bound {
  return a === undefined || compare(b, a) < 0 ? b : a;
}

function larger(a: Bound | undefined, b: Bound): Bound {
  return a === undefined || compare(b, a) > 0 ? b : a;
}

/** Texts compare by their bytes, as Parquet orders them. */
function compare(a: Bound, b: Bound): number {
  if (typeof a === 'string' && typeof b === 'string') return Buffer.compare(Buffer.from(a), Buffer.from(b));
  return a < b ? -1 : Number(a > b);
}

/** `2026-11-19`, `2026-11-19T09:30:00.000` (`Z` at the end if UTC), long integers as decimal text. */
function formatBound(value: Bound, isDate: boolean, isUtc: boolean): string | number {
  if (value instanceof Date) return value.toISOString().slice(0, isDate ? 10 : isUtc ? undefined : -1);
  return typeof value === 'bigint' ? String(value) : value;
}
