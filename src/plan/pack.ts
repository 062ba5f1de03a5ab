/**
 * Packing: counts of a date -> windows that each fill a page and together tile what is not staged yet. Pure. Two ways:
 * between cells (no further request), or to the row, for which the places at the cuts must be asked first; the second
 * way uses the fewest pages possible, `ceil(rows / limit)`.
 */
import { SECONDS_PER_DAY } from '../calendar/wall-clock.ts';
import {
  type Bound,
  compareBounds,
  DAY_END,
  DAY_START,
  isEmptyWindow,
  type Stretch,
  type Window,
} from '../calendar/window.ts';
import { type CellCount, type DayCounts, keyOf, startOf, stretchOf } from './counts.ts';

/** A day of requests at the API's pace, and a little more: a date of more pages is never brought home. */
export const MAX_DATE_PAGES = 100_000;

export interface PackedWindow extends Window {
  /** Rows that the counts promise. */
  readonly rows: number;
  /** Whether `rows` is exact as of the counts; an upper bound where a window begins or ends inside a cell already staged in part. */
  readonly exact: boolean;
}

/** Ranks (1-based, in the order of the axis, of the whole cell) at which windows begin inside a cell. */
export interface CutRequest {
  readonly cell: CellCount;
  readonly ranks: readonly number[];
  /** Where the cell is a part of a symbol's day and is not its last: the second that it ends before. */
  readonly until?: number;
}

/** Places found for a `CutRequest`, in the order of its ranks, by `keyOf` its cell. */
export type CutPlaces = ReadonlyMap<string, readonly Bound[]>;

/** What can be packed without further questions, and which cuts would be needed to pack to the row. */
export interface Packing {
  readonly windows: readonly PackedWindow[];
  /** Cells that alone exceed the limit: these cuts must be asked, or their windows split themselves. */
  readonly overfull: number;
  /** Pages when packed to the row. */
  readonly fewest: number;
  readonly cuts: readonly CutRequest[];
}

/**
 * Plans the windows of a date.
 * @param covered windows already staged, in any order, of the counts' axis; what they cover is left out
 * @param limit most rows of a page
 */
export function planPacking(date: string, counts: DayCounts, covered: readonly Window[], limit: number): Packing {
  const windows: PackedWindow[] = [];
  const cuts: Cuts = new Map();
  let overfull = 0;
  let fewest = 0;
  for (const gap of listGaps(covered)) {
    const inside = countsInGap(counts, gap);
    windows.push(...packBetweenCells(date, gap, inside, limit, counts));
    overfull += inside.filter((count) => count.rows > limit).length;
    fewest += planCuts(inside, limit, cuts);
  }
  return {
    windows,
    overfull,
    fewest,
    cuts: [...cuts.values()].map(({ cell, ranks }) => ({ cell, ranks: [...ranks] })),
  };
}

/** Windows packed to the row, once the places of the cuts are known. Gaps and counts as in `planPacking`. */
export function packToTheRow(
  date: string,
  counts: DayCounts,
  covered: readonly Window[],
  limit: number,
  places: CutPlaces,
): readonly PackedWindow[] {
  const windows: PackedWindow[] = [];
  for (const gap of listGaps(covered)) {
    const inside = countsInGap(counts, gap);
    if (inside.length === 0) continue;
    const bounds = inside
      .flatMap((cell) => places.get(keyOf(cell)) ?? [])
      .filter((bound) => compareBounds(gap.from, bound) < 0 && compareBounds(bound, gap.to) < 0);
    const { beginsInside, endsInside } = describeEnds(inside, gap, counts);
    let left = inside.reduce((sum, count) => sum + count.rows, 0);
    let from = gap.from;
    for (const to of [...bounds, gap.to]) {
      const rows = Math.min(limit, left);
      // Two cuts are a page apart, whatever the gap has of the cells at its ends.
      const isBetweenCuts = from !== gap.from && to !== gap.to;
      const exact = isBetweenCuts || !(beginsInside || (to === gap.to && endsInside));
      if (!isEmptyWindow({ from, to })) windows.push({ date, from, to, rows, exact });
      // Of a cell that the gap has only the end of, nobody knows how many rows are gone.
      if (!beginsInside) left -= rows;
      from = to;
    }
  }
  return windows;
}

/** The parts of the day that no window covers, ascending. */
export function listGaps(covered: readonly Window[]): readonly Stretch[] {
  const sorted = [...covered].sort((a, b) => compareBounds(a.from, b.from));
  const gaps: Stretch[] = [];
  let reached: Bound = DAY_START;
  for (const window of sorted) {
    if (compareBounds(reached, window.from) < 0) gaps.push({ from: reached, to: window.from });
    if (compareBounds(reached, window.to) < 0) reached = window.to;
  }
  if (compareBounds(reached, DAY_END) < 0) gaps.push({ from: reached, to: DAY_END });
  return gaps;
}

/**
 * Counts of a stretch. A cell that it has only a part of counts in full: how many of its rows lie in the part is not
 * known here, and too small a window costs less than a truncated one.
 */
export function countsInGap(counts: DayCounts, gap: Stretch): DayCounts {
  return counts.filter((cell, index) => {
    const start = startOf(cell);
    if (compareBounds(start, gap.to) >= 0) return false;
    return compareBounds(start, gap.from) >= 0 || isInside(cell, counts[index + 1], gap.from);
  });
}

/** Rows of the cells that lie in a window whole: so many it must bring at least. */
export function countWhole(counts: DayCounts, window: Stretch): number {
  const inside = countsInGap(counts, window);
  return inside.reduce((sum, cell, index) => {
    const to = inside[index + 1] ?? stretchOf(cell).to;
    const end = 'rows' in to ? startOf(to) : to;
    const isWhole = compareBounds(window.from, startOf(cell)) <= 0 && compareBounds(end, window.to) <= 0;
    return isWhole ? sum + cell.rows : sum;
  }, 0);
}

/** Whether a bound lies behind rows that the cell may have, and before the next cell. */
function isInside(cell: CellCount, next: CellCount | undefined, bound: Bound): boolean {
  if (next !== undefined && compareBounds(startOf(next), bound) <= 0) return false;
  if (compareBounds(startOf(cell), bound) >= 0 || cell.symbol !== bound.symbol) return false;
  return cell.symbol === undefined ? cell.second === bound.second : bound.second < SECONDS_PER_DAY;
}

/** Which ends of a gap have only a part of a cell. @param cells of the gap, of all */
function describeEnds(
  cells: DayCounts,
  gap: Stretch,
  all: DayCounts,
): { readonly beginsInside: boolean; readonly endsInside: boolean } {
  const [first] = cells;
  const offset = first === undefined ? 0 : all.indexOf(first);
  const isInsideAny = (bound: Bound) => cells.some((cell, index) => isInside(cell, all[offset + index + 1], bound));
  return { beginsInside: isInsideAny(gap.from), endsInside: isInsideAny(gap.to) };
}

/** Greedy from the left: a window ends where the next cell would not fit. Empty stretches belong to a neighbour. */
function packBetweenCells(
  date: string,
  gap: Stretch,
  counts: DayCounts,
  limit: number,
  all: DayCounts,
): PackedWindow[] {
  const windows: PackedWindow[] = [];
  const { beginsInside, endsInside } = describeEnds(counts, gap, all);
  let from = gap.from;
  let rows = 0;
  const close = (to: Bound) => {
    const exact = !(from === gap.from && beginsInside) && !(to === gap.to && endsInside);
    if (rows > 0 && !isEmptyWindow({ from, to })) windows.push({ date, from, to, rows, exact });
    from = to;
    rows = 0;
  };
  for (const count of counts) {
    if (rows > 0 && rows + count.rows > limit) close(startOf(count));
    rows += count.rows;
  }
  close(gap.to);
  return windows;
}

type Cuts = Map<string, { readonly cell: CellCount; readonly ranks: Set<number> }>;

/** Adds the cuts of every `limit` rows to `cuts` and returns the number of pages they make. */
function planCuts(counts: DayCounts, limit: number, cuts: Cuts): number {
  let before = 0;
  // A cell that the gap before ends in is cut already: its cuts go on, so that its ranks stay `limit` apart.
  const [shared] = (counts[0] && cuts.get(keyOf(counts[0]))?.ranks) ?? [];
  let next = shared === undefined ? limit : shared - 1;
  for (const cell of counts) {
    while (next < before + cell.rows) {
      const cut = cuts.get(keyOf(cell)) ?? { cell, ranks: new Set() };
      // The next window begins with the row after the last that fits; rank 1 is the cell itself, cut like any other.
      cut.ranks.add(next - before + 1);
      cuts.set(keyOf(cell), cut);
      next += limit;
    }
    before += cell.rows;
  }
  return Math.ceil(before / limit);
}
