/** Splitting a window that was too much for one answer. Pure: where the ids must be asked first, it says so. */

import type { Bound } from '../calendar/window.ts';
import type { DayCounts } from './counts.ts';
import type { PackedWindow } from './pack.ts';

/** Cut at a bound, or ask for the id in the middle of the one second that is left, or there is nothing to cut. */
export type SplitPlan =
  | { readonly kind: 'cut'; readonly at: Bound }
  | { readonly kind: 'ask-id' }
  | { readonly kind: 'impossible' };

/**
 * Where to cut a window in two, by the counts so that both halves have about the same number of rows.
 * @param byId whether windows may be cut inside a second
 */
export function planSplit(window: PackedWindow, counts: DayCounts, byId: boolean): SplitPlan {
  const inside = counts.filter(
    ({ second }) =>
      second >= window.from.second &&
      (second < window.to.second || (second === window.to.second && window.to.id !== undefined)),
  );
  const total = inside.reduce((sum, count) => sum + count.rows, 0);
  let before = 0;
  for (const [index, { second, rows }] of inside.entries()) {
    // Cut before the second that passes the middle, but never before the first: the left half must have rows.
    if (index > 0 && (before + rows / 2 >= total / 2 || index === inside.length - 1))
      return { kind: 'cut', at: { second } };
    before += rows;
  }
  return byId ? narrowToSecond(window, inside[0]?.second) : { kind: 'impossible' };
}

/**
 * A window has at most one second with rows, but may reach beyond it: an id cuts only inside its own second, so the
 * stretches around it are cut off first. Without a counted second the rows came late: then by time.
 */
function narrowToSecond({ from, to }: PackedWindow, counted: number | undefined): SplitPlan {
  const last = to.id === undefined ? to.second - 1 : to.second;
  if (from.second === last) return { kind: 'ask-id' };
  const second = counted ?? Math.ceil((from.second + last) / 2);
  return { kind: 'cut', at: { second: second > from.second ? second : second + 1 } };
}

/** The two halves of a window. Row counts of the halves come from the counts where the cut is between seconds. */
export function splitWindow(window: PackedWindow, at: Bound, counts: DayCounts): readonly [PackedWindow, PackedWindow] {
  const left = counts
    .filter(({ second }) => second >= window.from.second && second < at.second)
    .reduce((sum, count) => sum + count.rows, 0);
  const exact = window.exact && at.id === undefined;
  const rows = at.id === undefined ? left : Math.floor(window.rows / 2);
  return [
    { ...window, to: at, rows, exact },
    { ...window, from: at, rows: Math.max(0, window.rows - rows), exact },
  ];
}
