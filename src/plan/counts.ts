/**
 * Row counts of a date by cell, as probes return them. Pure. Rows are counted by cell: a second on the time axis (a
 * grain, for aggregating jobs), a symbol, or a part of its day, on the symbol axis.
 */

import { z } from 'zod';
import { addHashes } from '../engine/row-hash.ts';
import { isSameUpdateMark, isUpdateMark, mergeUpdateMarks } from '../engine/update-mark.ts';
import { axisOf, type Cell, compareCells, keyOf } from './axis.ts';

export interface CellCount extends Cell {
  /** Rows at the source. */
  readonly rows: number;
  /** Distinct ids among them. For aggregating jobs, equal to `rows`. */
  readonly ids: number;
  /** Update mark, which shows corrected rows. Empty if not requested. See `engine/update-mark.ts`. */
  readonly mark: string;
  /** Sums of hashes of the ids, and of the values; `undefined` if not requested. See `engine/row-hash.ts`. */
  readonly idHash?: string | undefined;
  readonly valueHash?: string | undefined;
}

/**
 * Maximum rows of a date: the whole U.S. options market makes some ten million trades a day. Below this limit, sums
 * over a lookback are exact, and row-by-row planning terminates.
 */
export const MAX_DATE_ROWS = 1_000_000_000;

/** Bound on the seconds of a time with two-digit hours and minutes; the time itself is validated elsewhere. */
export const MAX_CELL_SECOND = 100 * 3600;

/** Counts of a date as stored on disk. */
export const dayCountsSchema = z.array(
  z.object({
    symbol: z.string().optional(),
    second: z.int().min(-MAX_CELL_SECOND).max(MAX_CELL_SECOND),
    rows: z.int().min(0).max(MAX_DATE_ROWS),
    ids: z.int().min(0).max(MAX_DATE_ROWS),
    mark: z.string().refine(isUpdateMark),
    idHash: z.string().exactOptional(),
    valueHash: z.string().exactOptional(),
  }),
);

/** Counts of one date, ascending on one axis, only of cells that have rows. */
export type DayCounts = readonly CellCount[];

/** Parses a server's count, a 64-bit one as text; `undefined` if it cannot be a number of rows of a date. */
export function readCount(value: unknown): number | undefined {
  const count = typeof value === 'string' && /^\d{1,16}$/.test(value) ? Number(value) : value;
  if (typeof count !== 'number' || !Number.isInteger(count)) return undefined;
  return count >= 0 && count <= MAX_DATE_ROWS ? count : undefined;
}

export interface CountTotals {
  readonly rows: number;
  readonly ids: number;
}

/** Hashes that identify a date's rows: the same rows have the same sums. */
type HashTotals = Pick<CellCount, 'idHash' | 'valueHash'>;

export function sumCounts(counts: DayCounts): CountTotals {
  let rows = 0;
  let ids = 0;
  for (const count of counts) {
    rows += count.rows;
    ids += count.ids;
  }
  return { rows, ids };
}

/** Each sum is `undefined` if any cell has no such hash. */
export function sumHashes(counts: DayCounts): HashTotals {
  const sum = (hashOf: (cell: CellCount) => string | undefined) =>
    counts.reduce<string | undefined>((total, cell) => addHashes(total, hashOf(cell)), '0');
  return { idHash: sum(({ idHash }) => idHash), valueHash: sum(({ valueHash }) => valueHash) };
}

/**
 * Cells whose staged rows differ from the current rows of the source: rows came late or were corrected, or pages did
 * not contain them.
 * @param staged counts of staged rows @param source counts of the recount, by the same cells
 */
export function findDifferences(staged: DayCounts, source: DayCounts): DayCounts {
  const have = new Map(staged.map((cell) => [keyOf(cell), cell]));
  const known = new Set(source.map(keyOf));
  const differing = source.filter((cell) => !isSame(have.get(keyOf(cell)), cell));
  return [...differing, ...staged.filter((cell) => !known.has(keyOf(cell)))].sort(compareCells);
}

/**
 * Whether the staged rows are those of the source by their hashes alone. Equal sums of the hashes of ids are the same ids as
 * often, so distinct ids need no count.
 * @param staged by the key of a cell on its axis: its symbol or its second; `undefined` is never the same
 * @param source cells of which none has parts
 */
export function isSameByHash(
  staged: ReadonlyMap<number | string, Pick<CellCount, 'rows' | 'mark' | 'idHash' | 'valueHash'>> | undefined,
  source: DayCounts,
): boolean {
  if (staged?.size !== source.length) return false;
  return source.every((cell) => {
    const have = staged.get(cell.symbol ?? cell.second);
    if (have === undefined || cell.idHash === undefined || have.idHash !== cell.idHash) return false;
    return have.rows === cell.rows && have.valueHash === cell.valueHash && isSameUpdateMark(have.mark, cell.mark);
  });
}

/** One cell for each symbol, if counts are by symbol: the parts of its day are merged. */
export function mergeParts(counts: DayCounts): DayCounts {
  if (axisOf(counts) === 'time') return counts;
  const merged = new Map<string, CellCount>();
  for (const cell of counts) {
    const { symbol = '' } = cell;
    const before = merged.get(symbol);
    merged.set(symbol, { ...(before === undefined ? cell : mergeCells(before, cell)), symbol, second: 0 });
  }
  return [...merged.values()].sort(compareCells);
}

function mergeCells(a: CellCount, b: CellCount): CellCount {
  return {
    second: a.second,
    rows: a.rows + b.rows,
    ids: a.ids + b.ids,
    mark: mergeUpdateMarks(a.mark, b.mark),
    idHash: addHashes(a.idHash, b.idHash),
    valueHash: addHashes(a.valueHash, b.valueHash),
  };
}

function isSame(staged: CellCount | undefined, source: CellCount): boolean {
  if (staged === undefined || !isSameCount(staged, source)) return false;
  return isSameHash(staged.idHash, source.idHash) && isSameHash(staged.valueHash, source.valueHash);
}

/** Whether a cell's distinct ids and update marks agree; hashes are not compared. */
export function isSameCount(staged: CellCount, source: CellCount): boolean {
  return staged.ids === source.ids && isSameUpdateMark(staged.mark, source.mark);
}

/** Whether two sums of hashes agree; an unknown sum agrees with any. */
export function isSameHash(a: string | undefined, b: string | undefined): boolean {
  return a === undefined || b === undefined || a === b;
}
