/** Splits a window that was too much for one answer. Pure: if the place of a row is needed first, the plan says so. */
import { SECONDS_PER_DAY } from '../calendar/wall-clock.ts';
import { type Bound, compareBounds } from '../calendar/window.ts';
import { type CellCount, type DayCounts, type Notch, startOf } from './counts.ts';
import { countsInGap, type PackedWindow } from './pack.ts';

/** Cut at a bound, or ask for the middle row of the only cell, or the window cannot be cut. */
type SplitPlan =
  | { readonly kind: 'cut'; readonly at: Bound }
  | { readonly kind: 'ask-middle' }
  | { readonly kind: 'impossible' };

/**
 * Where to cut a window in two; the counts give both halves about the same number of rows.
 * @param grainSeconds length of a cell on the time axis, 1 for single trades
 * @param hasKey whether windows may be cut inside a cell: by id, or by a split key
 */
export function planSplit(window: PackedWindow, counts: DayCounts, grainSeconds: number, hasKey: boolean): SplitPlan {
  const inside = countsInGap(counts, window);
  const total = inside.reduce((sum, count) => sum + count.rows, 0);
  let before = 0;
  for (const [index, cell] of inside.entries()) {
    // Cut before the cell that passes the middle, but never before the first: the left half must have rows.
    if (index > 0 && (before + cell.rows / 2 >= total / 2 || index === inside.length - 1))
      return { kind: 'cut', at: startOf(cell) };
    before += cell.rows;
  }
  if (!hasKey) return { kind: 'impossible' };
  const [only] = inside;
  const notch = only && middleNotch(window, only);
  if (notch !== undefined) return { kind: 'cut', at: notch };
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
function narrowToSecond({ from, to }: PackedWindow, counted: number | undefined, grainSeconds: number): SplitPlan {
  if (from.symbol !== undefined || to.symbol !== undefined) return { kind: 'ask-middle' };
  const last = to.id === undefined ? to.second - grainSeconds : to.second;
  if (from.second >= last) return { kind: 'ask-middle' };
  const middle = Math.ceil((from.second + last) / 2 / grainSeconds) * grainSeconds;
  const second = counted ?? middle;
  return { kind: 'cut', at: { second: second > from.second ? second : second + grainSeconds } };
}

/** The same for a window with rows of one symbol: cut off the range of other symbols first. */
function narrowToSymbol({ from, to }: PackedWindow, { symbol = '', second }: CellCount): SplitPlan {
  const start: Bound = { symbol, second };
  const end: Bound = { symbol, second: SECONDS_PER_DAY };
  if (compareBounds(from, start) < 0) return { kind: 'cut', at: start };
  if (compareBounds(end, to) < 0) return { kind: 'cut', at: end };
  return { kind: 'ask-middle' };
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
