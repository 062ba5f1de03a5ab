/**
 * Reads a whole sealed file with an independent reader (hyparquet): decodes every page of every column, and checks the
 * declared order row by row. Memory holds one column of one row group, and the sort columns of a group.
 */
import type { FileMetaData } from 'hyparquet';
import { Fault } from '../core/errors.ts';
import { describeStatistics, listRowGroupOffsets } from './file-statistics.ts';
import { decodeColumn, openParquet } from './second-reader.ts';
import { describeSchema, type VerifiedFile } from './verify-file.ts';

export interface ReadBack extends VerifiedFile {
  /** First and last value of the wall-clock column, `YYYY-MM-DD HH:MM:SS`; null without one, or without rows. */
  readonly minTime: string | null;
  readonly maxTime: string | null;
  /** Values that are not UTF-8 or not finite, by column: some readers refuse such files, others show nonsense. */
  readonly bad: readonly { readonly column: string; readonly rows: number }[];
  /** The first row out of order, counted from 0; `undefined` if all are in order. */
  readonly disorder: number | undefined;
  /** Sort columns declared by all row groups; empty if the groups differ. */
  readonly declaredSort: readonly string[];
  /** Codecs of the column chunks, lower case, sorted. */
  readonly codecs: readonly string[];
}

/** @param sort columns of the declared order, ascending, nulls last @throws Fault `DROP_UNREADABLE` */
export async function readBack(path: string, sort: readonly string[], signal?: AbortSignal): Promise<ReadBack> {
  try {
    const opened = await openParquet(path);
    const { metadata } = opened;
    const schema = describeSchema(metadata);
    const time = schema.find(({ type }) => type.startsWith('INT64/TIMESTAMP(') && type.endsWith('utc=false)'))?.name;
    const range: { min?: number; max?: number } = {};
    const order = new Order(sort);
    const bad = new Map<string, number>();
    let from = 0;
    for (const group of metadata.row_groups) {
      const to = from + Number(group.num_rows);
      const sorted = new Map<string, readonly unknown[]>();
      for (const { name } of schema) {
        signal?.throwIfAborted();
        const keep = name === time || sort.includes(name);
        const column = await decodeColumn(opened, name, { from, to }, { keep });
        if (column.bad > 0) bad.set(name, (bad.get(name) ?? 0) + column.bad);
        if (name === time) widen(range, column.values);
        if (sort.includes(name)) sorted.set(name, column.values);
      }
      order.check(from, to - from, sorted);
      from = to;
    }
    return {
      rows: Number(metadata.num_rows),
      rowGroups: metadata.row_groups.length,
      schema,
      rowGroupOffsets: listRowGroupOffsets(metadata),
      statistics: describeStatistics(metadata),
      minTime: formatTime(range.min),
      maxTime: formatTime(range.max),
      bad: [...bad].map(([column, rows]) => ({ column, rows })),
      disorder: order.disorder,
      declaredSort: readDeclaredSort(metadata),
      codecs: listCodecs(metadata),
    };
  } catch (cause) {
    signal?.throwIfAborted();
    throw new Fault('DROP_UNREADABLE', `the independent reader cannot read ${path}`, { cause });
  }
}

/** Compares each row with the one before, across row groups. */
class Order {
  disorder: number | undefined;
  readonly #sort: readonly string[];
  #last: readonly unknown[] | undefined;

  constructor(sort: readonly string[]) {
    this.#sort = sort;
  }

  check(firstRow: number, count: number, values: ReadonlyMap<string, readonly unknown[]>): void {
    const columns = this.#sort.map((name) => values.get(name) ?? []);
    for (let row = 0; row < count && this.disorder === undefined; row += 1) {
      const present = columns.map((column) => column[row]);
      if (this.#last && compareRows(this.#last, present) > 0) this.disorder = firstRow + row;
      this.#last = present;
    }
  }
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

function widen(range: { min?: number; max?: number }, values: readonly unknown[]): void {
  for (const value of values) {
    if (!(value instanceof Date)) continue;
    const at = value.getTime();
    range.min = Math.min(range.min ?? at, at);
    range.max = Math.max(range.max ?? at, at);
  }
}

function formatTime(at: number | undefined): string | null {
  return at === undefined ? null : new Date(at).toISOString().slice(0, 19).replace('T', ' ');
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
