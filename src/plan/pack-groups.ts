/**
 * Packs the groups of a date into windows: as few as a page allows, all of about equal size, so that a few new groups fit
 * into each. Pure. Windows end between cells or at the notches that were counted with them. Invariant: they tile the part
 * of the date that is not staged yet, as those of `pack.ts` do.
 */
import { type Bound, compareBounds, type Stretch, type Window } from '../calendar/window.ts';
import { type DayCounts, startOf } from './counts.ts';
import { isInside, listGaps, type PackedWindow } from './pack.ts';

/** Sizes tried when balancing the windows: halving the range so often finds the smallest to a group. */
const STEPS = 20;

/** A place at which something may be cut, and how much lies before it. */
export interface CutPlace<At> {
  readonly at: At;
  readonly before: number;
}

/** A bound and the number of the date's groups before it. */
type Place = CutPlace<Bound>;

/** Gaps, counts and limit as in `planPacking`. A stretch that cannot be cut gets its own window, whatever its size. */
export function packGroups(
  date: string,
  counts: DayCounts,
  covered: readonly Window[],
  limit: number,
): readonly PackedWindow[] {
  const places = listPlaces(counts);
  return listGaps(covered).flatMap((gap) => packGap(date, gap, counts, places, limit));
}

function packGap(
  date: string,
  gap: Stretch,
  counts: DayCounts,
  places: readonly Place[],
  limit: number,
): readonly PackedWindow[] {
  const first = measure(gap.from, counts);
  const last = measure(gap.to, counts);
  const inside = places.filter(({ at }) => compareBounds(gap.from, at) < 0 && compareBounds(at, gap.to) < 0);
  const end: Place = { at: gap.to, before: last.most };
  const bounds = balance([...inside, end], first.least, limit);
  let from: Place = { at: gap.from, before: first.least };
  const windows: PackedWindow[] = [];
  for (const to of bounds) {
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

/** Greedy: a window ends at the last place that fits. The last end is the end of the gap. */
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

/** The least and most groups that may lie before a bound: inside a cell they are known only at its notches. */
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
