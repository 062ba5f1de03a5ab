/**
 * Packs the counts of a date into the windows that take the fewest requests, all of about equal size, so that rows that
 * come meanwhile still fit. Pure. Windows end between cells; where to cut inside a cell, the source is asked
 * (`export/trades/fetch.ts`). Invariant: they tile the part of the date that is not staged yet.
 */
import { type Bound, compareBounds, DAY_END, DAY_START, type Stretch, type Window } from '../calendar/window.ts';
import { type Cell, compareCells, keyOf, startOf, stretchOf } from './axis.ts';
import { type DayCounts, findDifferences, sumCounts } from './counts.ts';

/** A little more than a day of requests at the API's pace: a date with more pages can never be fetched. */
export const MAX_DATE_PAGES = 100_000;
/** Sizes tried when balancing the windows: halving the range so often finds the smallest to a row. */
const STEPS = 20;

export interface PackedWindow extends Window {
  /** Rows expected from the counts. */
  readonly rows: number;
  /** Whether `rows` is exact as of the counts. Otherwise an upper bound: an end is inside a partly staged cell. */
  readonly exact: boolean;
}

/** A place at which something may be cut, and how much lies before it. */
export interface CutPlace<At = Bound> {
  readonly at: At;
  readonly before: number;
}

/**
 * Plans the windows of a date. A cell with more rows than a window may have gets its own.
 * @param covered stretches already staged, in any order, on the axis of the counts; they are left out
 * @param limit most rows of a page @param most rows of a window: where it has several pages, their ends are asked for
 */
export function packWindows(
  date: string,
  counts: DayCounts,
  covered: readonly Stretch[],
  limit: number,
  most = limit,
): readonly PackedWindow[] {
  return listGaps(covered).flatMap((gap) => packGap(date, gap, counts, (ends) => balance(ends, 0, limit, most)));
}

/** The full windows of a stretch, from its start on; what is left at its end is in none. */
export function packFull(date: string, counts: DayCounts, stretch: Stretch, limit: number): readonly PackedWindow[] {
  return packGap(date, stretch, counts, (ends) => fill(ends, 0, { size: limit, limit, most: limit }).ends).slice(0, -1);
}

function packGap(
  date: string,
  gap: Stretch,
  counts: DayCounts,
  choose: (ends: readonly CutPlace[]) => readonly CutPlace[],
): readonly PackedWindow[] {
  const { cells, isFirstCut, isLastCut } = cellsOf(counts, gap);
  let rows = 0;
  const ends = cells.map((cell) => {
    const place = { at: startOf(cell), before: rows };
    rows += cell.rows;
    return place;
  });
  const places = choose([...ends.slice(1), { at: gap.to, before: rows }]).slice(0, -1);
  const windows = cutWindow({ date, ...gap, rows, exact: true }, places).map((window) => ({
    ...window,
    exact: !(isFirstCut && window.from === gap.from) && !(isLastCut && window.to === gap.to),
  }));
  return windows.filter((window) => window.rows > 0);
}

/**
 * The ends of the parts that take the fewest requests, with the smallest pages that need no more of them.
 * @param places ascending; the last is the end @param before of the first part @param limit most of a page
 * @param most of a part
 */
export function balance<At>(
  places: readonly CutPlace<At>[],
  before: number,
  limit: number,
  most = limit,
): readonly CutPlace<At>[] {
  let best = fill(places, before, { size: limit, limit, most });
  let [low, high] = [0, limit];
  for (let step = 0; step < STEPS && high - low > 1; step += 1) {
    const size = Math.floor((low + high) / 2);
    const filled = fill(places, before, { size, limit, most });
    if (filled.requests <= best.requests) [best, high] = [filled, size];
    else low = size;
  }
  return best.ends;
}

/**
 * The parts that take the fewest requests: one for each page, one more to ask for the ends of several. A part ends at the
 * last place that fits its pages, because what is left never takes more requests than what contains it.
 * @param sizes most rows of a page as it is tried (`size`), of a full one, and of a part
 */
function fill<At>(
  places: readonly CutPlace<At>[],
  before: number,
  { size, limit, most }: Readonly<Record<'size' | 'limit' | 'most', number>>,
) {
  /** From each place on, the end last. */
  const best: { readonly requests: number; readonly next: number }[] = [{ requests: 0, next: places.length }];
  const bestFrom = (start: number) => best[places.length - start] ?? { requests: 0, next: places.length };
  const rowsTo = (end: number) => places[end]?.before ?? before;
  const last = new Array<number>(Math.ceil(most / limit)).fill(places.length - 1);
  for (let start = places.length - 1; start >= 0; start -= 1) {
    let found = { requests: Number.POSITIVE_INFINITY, next: start + 1 };
    const rows = rowsTo(start - 1);
    for (const [index, furthest] of last.entries()) {
      let end = furthest;
      // A cell that is too large is a part alone.
      while (rowsTo(end - 1) > rows && rowsTo(end) - rows > Math.min(size * (index + 1), most)) end -= 1;
      last[index] = end;
      const own = Math.ceil((rowsTo(end) - rows) / limit);
      const requests = own + (own > 1 ? 1 : 0) + bestFrom(end + 1).requests;
      if (requests < found.requests) found = { requests, next: end + 1 };
    }
    best.push(found);
  }
  const ends: CutPlace<At>[] = [];
  for (let start = 0; start < places.length; ) {
    start = bestFrom(start).next;
    ends.push(...places.slice(start - 1, start));
  }
  return { ends, requests: bestFrom(0).requests };
}

/** The parts of the day that no window covers, ascending. */
export function listGaps(covered: readonly Stretch[]): readonly Stretch[] {
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
  return cellsOf(counts, gap).cells;
}

/** Rows of the cells that are entirely in a window: the minimum that it must return. */
export function countWhole(counts: DayCounts, window: Stretch): number {
  const { cells, isFirstCut, isLastCut } = cellsOf(counts, window);
  return sumCounts(cells.slice(isFirstCut ? 1 : 0, isLastCut ? -1 : undefined)).rows;
}

/** The cells of a stretch, and whether its ends lie inside the first and the last of them. */
function cellsOf(counts: DayCounts, { from, to }: Stretch) {
  // A cell ends where the next one begins, if not before. A cell is the bound of its start.
  const isInside = (cell: Cell, next: Cell | undefined, bound: Bound) =>
    (next === undefined || compareBounds(bound, next) < 0) &&
    compareBounds(cell, bound) < 0 &&
    compareBounds(bound, stretchOf(cell).to) < 0;
  const cells = counts.filter((cell, index) => {
    if (compareBounds(cell, to) >= 0) return false;
    return compareBounds(cell, from) >= 0 || isInside(cell, counts[index + 1], from);
  });
  const [first, last] = [cells[0], cells.at(-1)];
  return {
    cells,
    isFirstCut: first !== undefined && compareBounds(first, from) < 0,
    isLastCut: last !== undefined && isInside(last, undefined, to),
  };
}

/**
 * The start of a cell that is nearest the middle of a window's rows; `undefined` if it has only one cell. `exact`: the rows
 * before it are known, because no cell is only partly in the window.
 */
export function findMiddle(
  window: PackedWindow,
  counts: DayCounts,
): (CutPlace & { readonly exact: boolean }) | undefined {
  const { cells: inside, isFirstCut, isLastCut } = cellsOf(counts, window);
  const total = sumCounts(inside).rows;
  let before = 0;
  for (const [index, cell] of inside.entries()) {
    // Cut before the cell that passes the middle, but never before the first: the left half must have rows.
    if (index > 0 && (before + cell.rows / 2 >= total / 2 || index === inside.length - 1)) {
      const exact = window.exact && !isFirstCut && !isLastCut;
      return { at: startOf(cell), before: Math.min(before, window.rows), exact };
    }
    before += cell.rows;
  }
  return undefined;
}

/** The parts of a window. @param places inside it, ascending */
export function cutWindow(window: PackedWindow, places: readonly CutPlace[]): readonly PackedWindow[] {
  let from: CutPlace = { at: window.from, before: 0 };
  return [...places, { at: window.to, before: window.rows }].map((to) => {
    const part = { ...window, from: from.at, to: to.at, rows: to.before - from.before };
    from = to;
    return part;
  });
}

/**
 * Which part of a sealed date an audit fetches again: the cells whose counts at the source have moved, in as few windows
 * as pages allow. The stretches to fetch and those to keep begin and end between cells, and hold all rows of the date.
 */
export interface RepairPlan {
  /** Ascending; each has no more rows than a page, unless one cell alone has more. */
  readonly fetched: readonly Stretch[];
  /** The rest of the date. */
  readonly kept: readonly Stretch[];
}

/** Nothing is kept: everything is fetched again. */
export const WHOLE_DATE: RepairPlan = { fetched: [{ from: DAY_START, to: DAY_END }], kept: [] };

/**
 * Cells whose rows at the source have changed between two counts along one axis; along the symbols each has one cell. Cells without rows now are among them.
 */
export function findMoved(earlier: DayCounts, now: DayCounts): DayCounts {
  const before = new Map(earlier.map((cell) => [keyOf(cell), cell.rows]));
  const moved = new Map(findDifferences(earlier, now).map((cell) => [keyOf(cell), cell]));
  for (const cell of now) if (before.get(keyOf(cell)) !== cell.rows) moved.set(keyOf(cell), cell);
  return [...moved.values()].sort(compareCells);
}

/** @param moved from `findMoved` @param now the counts it was found by @param limit most rows of a page */
export function planRepair(moved: DayCounts, now: DayCounts, limit: number): RepairPlan {
  const isMoved = new Set(moved.map(keyOf));
  const present = new Set(now.map(keyOf));
  const gone = moved.filter((cell) => !present.has(keyOf(cell))).map((cell) => ({ ...cell, rows: 0 }));
  const fetched: Stretch[] = [];
  let open: { from: Bound; to: Bound; rows: number } | undefined;
  let between = 0;
  for (const cell of [...now, ...gone].sort(compareCells)) {
    if (!isMoved.has(keyOf(cell))) {
      between += cell.rows;
      continue;
    }
    const { to } = stretchOf(cell);
    if (open !== undefined && open.rows + between + cell.rows <= limit) {
      open = { from: open.from, to, rows: open.rows + between + cell.rows };
    } else {
      if (open !== undefined) fetched.push({ from: open.from, to: open.to });
      open = { from: startOf(cell), to, rows: cell.rows };
    }
    between = 0;
  }
  if (open !== undefined) fetched.push({ from: open.from, to: open.to });
  // If a part of the rest has to be fetched after all, the others stay.
  return { fetched, kept: packWindows('', now, fetched, limit).map(({ from, to }) => ({ from, to })) };
}
