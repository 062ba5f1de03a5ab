/**
 * Packs the counts of a date into windows that each fill a page and together tile the part that is not staged yet.
 * Pure. Two ways: cut between cells, without further requests; or cut to the row, after requests for the places of the
 * cuts. The second way uses the fewest pages possible, `ceil(rows / limit)`.
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

/** A little more than a day of requests at the API's pace: a date with more pages can never be fetched. */
export const MAX_DATE_PAGES = 100_000;

export interface PackedWindow extends Window {
  /** Rows expected from the counts. */
  readonly rows: number;
  /** Whether `rows` is exact as of the counts. Otherwise an upper bound: an end is inside a partly staged cell. */
  readonly exact: boolean;
}

/** Ranks within a cell at which windows begin (1-based, in axis order, counted over the whole cell). */
export interface CutRequest {
  readonly cell: CellCount;
  readonly ranks: readonly number[];
  /** If the cell is a part of a symbol's day, but not the last: the second before which it ends. */
  readonly until?: number;
}

/** The places found for each `CutRequest`, in the order of its ranks; the map's key is `keyOf` the cell. */
export type CutPlaces = ReadonlyMap<string, readonly Bound[]>;

/** The windows that need no further requests, and the cuts needed to pack to the row. */
export interface Packing {
  readonly windows: readonly PackedWindow[];
  /** Number of cells that alone exceed the limit: request their cuts, or their windows must be split later. */
  readonly overfull: number;
  /** Number of pages if packed to the row. */
  readonly fewest: number;
  readonly cuts: readonly CutRequest[];
}

/**
 * Plans the windows of a date.
 * @param covered windows already staged, in any order, on the axis of the counts; they are left out
 * @param limit maximum rows of a page
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

/** Packs windows to the row, once the places of the cuts are known. Gaps and counts as in `planPacking`. */
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
      // Two cuts are exactly a page apart, even if the gap has only parts of the cells at its ends.
      const isBetweenCuts = from !== gap.from && to !== gap.to;
      const exact = isBetweenCuts || !(beginsInside || (to === gap.to && endsInside));
      if (!isEmptyWindow({ from, to })) windows.push({ date, from, to, rows, exact });
      // If the gap begins inside a cell, the number of rows before the gap is unknown.
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
 * Counts of the cells in a stretch. A cell that is only partly inside counts in full: its share is unknown here, and a
 * window that is too small costs less than a truncated one.
 */
export function countsInGap(counts: DayCounts, gap: Stretch): DayCounts {
  return counts.filter((cell, index) => {
    const start = startOf(cell);
    if (compareBounds(start, gap.to) >= 0) return false;
    return compareBounds(start, gap.from) >= 0 || isInside(cell, counts[index + 1], gap.from);
  });
}

/** Rows of the cells that are entirely in a window: the minimum that it must return. */
export function countWhole(counts: DayCounts, window: Stretch): number {
  const inside = countsInGap(counts, window);
  return inside.reduce((sum, cell, index) => {
    const to = inside[index + 1] ?? stretchOf(cell).to;
    const end = 'rows' in to ? startOf(to) : to;
    const isWhole = compareBounds(window.from, startOf(cell)) <= 0 && compareBounds(end, window.to) <= 0;
    return isWhole ? sum + cell.rows : sum;
  }, 0);
}

/** Whether a bound lies after the start of the cell's rows and before the next cell. */
export function isInside(cell: CellCount, next: CellCount | undefined, bound: Bound): boolean {
  if (next !== undefined && compareBounds(startOf(next), bound) <= 0) return false;
  if (compareBounds(startOf(cell), bound) >= 0 || cell.symbol !== bound.symbol) return false;
  return cell.symbol === undefined ? cell.second === bound.second : bound.second < SECONDS_PER_DAY;
}

/** Whether each end of a gap lies inside a cell. @param cells those of the gap @param all those of the date */
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

/** Greedy from the left: a window ends where the next cell would not fit. Empty stretches join a neighbour. */
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

/** Adds a cut at every `limit` rows to `cuts` and returns the number of pages. */
function planCuts(counts: DayCounts, limit: number, cuts: Cuts): number {
  let before = 0;
  // If the gap before ended inside this cell, the cell has cuts: continue them, so that its ranks stay `limit` apart.
  const [shared] = (counts[0] && cuts.get(keyOf(counts[0]))?.ranks) ?? [];
  let next = shared === undefined ? limit : shared - 1;
  for (const cell of counts) {
    while (next < before + cell.rows) {
      const cut = cuts.get(keyOf(cell)) ?? { cell, ranks: new Set() };
      // The next window begins with the row after the last that fits. Rank 1 is the cell's start, cut like any other
      // row.
      cut.ranks.add(next - before + 1);
      cuts.set(keyOf(cell), cut);
      next += limit;
    }
    before += cell.rows;
  }
  return Math.ceil(before / limit);
}
