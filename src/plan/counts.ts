/**
 * Counts of a date by cell, as a probe brings them home. Pure. A cell is what rows are counted by: a second on the time
 * axis (a grain, for aggregating jobs), a symbol, or a part of its day, on the symbol axis.
 */

import { SECONDS_PER_DAY } from '../calendar/wall-clock.ts';
import { type Bound, compareBounds, type Stretch } from '../calendar/window.ts';
import { isSameUpdateMark, mergeUpdateMarks } from '../engine/update-mark.ts';

export interface CellCount {
  /** Only on the symbol axis. */
  readonly symbol?: string;
  /** First second of the cell. */
  readonly second: number;
  /** Rows at the source. */
  readonly rows: number;
  /** Distinct ids among them. For aggregating jobs, equal to `rows`. */
  readonly ids: number;
  /** When they were made, in short: a corrected row shows here. Empty when not asked. See `engine/update-mark.ts`. */
  readonly mark: string;
}

/** Counts of one date, ascending on one axis, only of cells that have rows. */
export type DayCounts = readonly CellCount[];

export interface CountTotals {
  readonly rows: number;
  readonly ids: number;
}

export function sumCounts(counts: DayCounts): CountTotals {
  let rows = 0;
  let ids = 0;
  for (const count of counts) {
    rows += count.rows;
    ids += count.ids;
  }
  return { rows, ids };
}

/** Where a cell begins. */
export function startOf({ symbol, second }: Pick<CellCount, 'symbol' | 'second'>): Bound {
  return symbol === undefined ? { second } : { symbol, second };
}

/** The stretch of a cell. On the symbol axis to the end of the symbol: cells that begin later in it overlap. */
export function stretchOf(cell: CellCount): Stretch {
  const { symbol, second } = cell;
  const to: Bound = symbol === undefined ? { second: second + 1 } : { symbol, second: SECONDS_PER_DAY };
  return { from: startOf(cell), to };
}

/** Cells in the order of their axis. */
export function compareCells(a: CellCount, b: CellCount): number {
  return compareBounds(startOf(a), startOf(b));
}

/**
 * Cells in which what is staged is not what the source has now: rows came late or were corrected, or pages did not
 * bring them.
 * @param staged what is staged @param source counts of the recount, by the same cells
 */
export function findDifferences(staged: DayCounts, source: DayCounts): DayCounts {
  const have = new Map(staged.map((cell) => [keyOf(cell), cell]));
  const known = new Set(source.map(keyOf));
  const differing = source.filter((cell) => !isSame(have.get(keyOf(cell)), cell));
  return [...differing, ...staged.filter((cell) => !known.has(keyOf(cell)))].sort(compareCells);
}

/** One cell a symbol, whatever parts its day was counted in. */
export function mergeBySymbol(counts: DayCounts): DayCounts {
  const merged = new Map<string, CellCount>();
  for (const { symbol = '', rows, ids, mark } of counts) {
    const before = merged.get(symbol);
    merged.set(symbol, {
      symbol,
      second: 0,
      rows: rows + (before?.rows ?? 0),
      ids: ids + (before?.ids ?? 0),
      mark: before === undefined ? mark : mergeUpdateMarks(before.mark, mark),
    });
  }
  return [...merged.values()].sort(compareCells);
}

/** Text that tells a cell from the others of its date. */
export function keyOf({ symbol, second }: CellCount): string {
  return `${symbol ?? ''}@${second}`;
}

function isSame(staged: CellCount | undefined, source: CellCount): boolean {
  return staged !== undefined && staged.ids === source.ids && isSameUpdateMark(staged.mark, source.mark);
}
