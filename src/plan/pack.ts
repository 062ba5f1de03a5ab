/**
 * Packs the counts of a date into windows: as few as a page allows, all of about equal size, so that rows that come
 * meanwhile still fit. Pure. Windows end between cells or at the notches inside them, never inside a second of single
 * trades. Invariant: they tile the part of the date that is not staged yet.
 */
import { SECONDS_PER_DAY } from '../calendar/wall-clock.ts';
import { type Bound, compareBounds, DAY_END, DAY_START, type Stretch, type Window } from '../calendar/window.ts';
import { type CellCount, type DayCounts, type Notch, startOf, stretchOf } from './counts.ts';

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
interface CutPlace<At> {
  readonly at: At;
  readonly before: number;
}
type Place = CutPlace<Bound>;

/**
 * Plans the windows of a date. A stretch that cannot be cut gets its own window, whatever its size.
 * @param covered windows already staged, in any order, on the axis of the counts; they are left out
 * @param limit maximum rows of a page
 */
export function packWindows(
  date: string,
  counts: DayCounts,
  covered: readonly Window[],
  limit: number,
): readonly PackedWindow[] {
  const places = listPlaces(counts);
  return listGaps(covered).flatMap((gap) =>
    packGap(date, gap, counts, places, (ends, from) => balance(ends, from, limit)),
  );
}

/** The full windows of a stretch, from its start on; what is left at its end is in none. */
export function packFull(date: string, counts: DayCounts, stretch: Stretch, limit: number): readonly PackedWindow[] {
  return packGap(date, stretch, counts, listPlaces(counts), (ends, from) => fill(ends, from, limit)).slice(0, -1);
}

function packGap(
  date: string,
  gap: Stretch,
  counts: DayCounts,
  places: readonly Place[],
  choose: (places: readonly Place[], before: number) => readonly Place[],
): readonly PackedWindow[] {
  const first = measure(gap.from, counts);
  const last = measure(gap.to, counts);
  const inside = places.filter(({ at }) => compareBounds(gap.from, at) < 0 && compareBounds(at, gap.to) < 0);
  const end: Place = { at: gap.to, before: last.most };
  let from: Place = { at: gap.from, before: first.least };
  const windows: PackedWindow[] = [];
  for (const to of choose([...inside, end], first.least)) {
    const exact = (from.at !== gap.from || first.least === first.most) && (to !== end || last.least === last.most);
    if (to.before > from.before) {
      windows.push({ date, from: from.at, to: to.at, rows: to.before - from.before, exact });
    }
    from = to;
  }
  return windows;
}

/**
 * The ends of the fewest parts, with the smallest size that needs no more of them.
 * @param places ascending; the last is the end @param before of the first part
 */
export function balance<At>(places: readonly CutPlace<At>[], before: number, limit: number): readonly CutPlace<At>[] {
  let best = fill(places, before, limit);
  let [low, high] = [0, limit];
  for (let step = 0; step < STEPS && high - low > 1; step += 1) {
    const size = Math.floor((low + high) / 2);
    const ends = fill(places, before, size);
    if (ends.length <= best.length) [best, high] = [ends, size];
    else low = size;
  }
  return best;
}

/** Greedy: a part ends at the last place that fits. The last end is the end of the whole. */
function fill<At>(places: readonly CutPlace<At>[], before: number, size: number): readonly CutPlace<At>[] {
  const ends: CutPlace<At>[] = [];
  let start = before;
  let fitting: CutPlace<At> | undefined;
  for (const [index, place] of places.entries()) {
    if (fitting !== undefined && place.before - start > size) {
      ends.push(fitting);
      start = fitting.before;
      fitting = undefined;
    }
    if (place.before > start || index === places.length - 1) fitting = place;
  }
  return fitting === undefined ? ends : [...ends, fitting];
}

/** Every place at which a window may end: the starts of cells, and their notches. */
function listPlaces(counts: DayCounts): readonly Place[] {
  const places: Place[] = [];
  let before = 0;
  for (const cell of counts) {
    places.push({ at: startOf(cell), before });
    for (const notch of cell.notches ?? []) places.push({ at: notch.at, before: before + notch.before });
    before += cell.rows;
  }
  return places;
}

/** The least and most rows that may lie before a bound: inside a cell they are known only at its notches. */
function measure(bound: Bound, counts: DayCounts): { readonly least: number; readonly most: number } {
  let before = 0;
  for (const [index, cell] of counts.entries()) {
    if (compareBounds(bound, startOf(cell)) <= 0) break;
    if (!isInside(cell, counts[index + 1], bound)) {
      before += cell.rows;
      continue;
    }
    const notches = cell.notches ?? [];
    const least = notches.findLast(({ at }) => compareBounds(at, bound) <= 0)?.before ?? 0;
    const most = notches.find(({ at }) => compareBounds(at, bound) >= 0)?.before ?? cell.rows;
    return { least: before + least, most: before + most };
  }
  return { least: before, most: before };
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
function isInside(cell: CellCount, next: CellCount | undefined, bound: Bound): boolean {
  if (next !== undefined && compareBounds(startOf(next), bound) <= 0) return false;
  if (compareBounds(startOf(cell), bound) >= 0 || cell.symbol !== bound.symbol) return false;
  return cell.symbol === undefined ? cell.second === bound.second : bound.second < SECONDS_PER_DAY;
}

/**
 * Where to cut a window in two that was too much for one answer; the counts give both halves about the same number of rows.
 * @param grainSeconds length of a cell on the time axis, 1 for single trades
 * @param hasKey whether windows may be cut inside a cell: by id, or by a split key
 * @returns a bound, or that the middle row of the only cell has to be asked for; `undefined` if it cannot be cut
 */
export function planSplit(
  window: PackedWindow,
  counts: DayCounts,
  grainSeconds: number,
  hasKey: boolean,
): Bound | 'ask-middle' | undefined {
  const inside = countsInGap(counts, window);
  const total = inside.reduce((sum, count) => sum + count.rows, 0);
  let before = 0;
  for (const [index, cell] of inside.entries()) {
    // Cut before the cell that passes the middle, but never before the first: the left half must have rows.
    if (index > 0 && (before + cell.rows / 2 >= total / 2 || index === inside.length - 1)) return startOf(cell);
    before += cell.rows;
  }
  if (!hasKey) return undefined;
  const [only] = inside;
  const notch = only && middleNotch(window, only);
  if (notch !== undefined) return notch;
  return only?.symbol === undefined ? narrowToSecond(window, only?.second, grainSeconds) : narrowToSymbol(window, only);
}

/** The counted place nearest the middle of the window's groups, all of one cell. */
function middleNotch({ from, to }: PackedWindow, { notches = [], rows }: CellCount): Bound | undefined {
  const first = notches.findLast(({ at }) => compareBounds(at, from) <= 0)?.before ?? 0;
  const last = notches.find(({ at }) => compareBounds(at, to) >= 0)?.before ?? rows;
  const middle = (first + last) / 2;
  const inside = notches.filter(({ at }) => compareBounds(from, at) < 0 && compareBounds(at, to) < 0);
  const nearest = (best: Notch | undefined, notch: Notch) =>
    best !== undefined && Math.abs(best.before - middle) <= Math.abs(notch.before - middle) ? best : notch;
  return inside.reduce<Notch | undefined>(nearest, undefined)?.at;
}

/**
 * The window has at most one second with rows, but may extend beyond it. An id cuts only inside its own second, so cut
 * off the surrounding stretches first. Without a counted second the rows came late: then cut by time.
 */
function narrowToSecond(
  { from, to }: PackedWindow,
  counted: number | undefined,
  grainSeconds: number,
): Bound | 'ask-middle' {
  if (from.symbol !== undefined || to.symbol !== undefined) return 'ask-middle';
  const last = to.id === undefined ? to.second - grainSeconds : to.second;
  if (from.second >= last) return 'ask-middle';
  const middle = Math.ceil((from.second + last) / 2 / grainSeconds) * grainSeconds;
  const second = counted ?? middle;
  return { second: second > from.second ? second : second + grainSeconds };
}

/** The same for a window with rows of one symbol: cut off the range of other symbols first. */
function narrowToSymbol({ from, to }: PackedWindow, { symbol = '', second }: CellCount): Bound | 'ask-middle' {
  const start: Bound = { symbol, second };
  const end: Bound = { symbol, second: SECONDS_PER_DAY };
  if (compareBounds(from, start) < 0) return start;
  if (compareBounds(end, to) < 0) return end;
  return 'ask-middle';
}

/** The two halves of a window. If the cut is between cells, their row counts come from the counts. */
export function splitWindow(window: PackedWindow, at: Bound, counts: DayCounts): readonly [PackedWindow, PackedWindow] {
  const isCellStart = counts.some((cell) => compareBounds(startOf(cell), at) === 0);
  const isBetween = isCellStart || (at.id === undefined && (at.symbol === undefined || at.second === SECONDS_PER_DAY));
  const left = countsInGap(counts, { from: window.from, to: at }).reduce((sum, count) => sum + count.rows, 0);
  const exact = window.exact && isBetween;
  const rows = isBetween ? Math.min(left, window.rows) : Math.floor(window.rows / 2);
  return [
    { ...window, to: at, rows, exact },
    { ...window, from: at, rows: Math.max(0, window.rows - rows), exact },
  ];
}
