/**
 * Packing: counts of a date -> windows that each fill a page and together tile what is not staged yet. Pure. Two ways:
 * between seconds (no further request), or to the row, for which the ids at the cuts must be asked first; the second
 * way uses the fewest pages possible, `ceil(rows / limit)`.
 */

import { type Bound, DAY_END, DAY_START, isEmptyWindow, type Window } from '../calendar/window.ts';
import type { DayCounts } from './counts.ts';

export interface PackedWindow extends Window {
  /** Rows that the counts promise. */
  readonly rows: number;
  /** Whether `rows` is exact as of the counts; an upper bound where a window begins or ends inside a second already staged in part. */
  readonly exact: boolean;
}

/** Ranks (1-based, in id order, of the date's whole second) at which windows begin inside a second. */
export interface CutRequest {
  readonly second: number;
  readonly ranks: readonly number[];
}

/** Ids found for a `CutRequest`, in the order of its ranks. */
export type CutIds = ReadonlyMap<number, readonly string[]>;

/** What can be packed without further questions, and which cuts would be needed to pack to the row. */
export interface Packing {
  readonly windows: readonly PackedWindow[];
  /** Seconds that alone exceed the limit: these cuts must be asked, or their windows split themselves. */
  readonly overfull: number;
  /** Pages when packed to the row. */
  readonly fewest: number;
  readonly cuts: readonly CutRequest[];
}

/**
 * Plans the windows of a date.
 * @param covered windows already staged, in any order; what they cover is left out
 * @param limit most rows of a page
 */
export function planPacking(date: string, counts: DayCounts, covered: readonly Window[], limit: number): Packing {
  const windows: PackedWindow[] = [];
  const cuts = new Map<number, number[]>();
  let overfull = 0;
  let fewest = 0;
  for (const gap of listGaps(covered)) {
    const inside = countsInGap(counts, gap);
    windows.push(...packBetweenSeconds(date, gap, inside, limit));
    overfull += inside.filter((count) => count.rows > limit).length;
    fewest += planCuts(inside, limit, cuts);
  }
  return {
    windows,
    overfull,
    fewest,
    cuts: [...cuts].map(([second, ranks]) => ({ second, ranks })),
  };
}

/** Windows packed to the row, once the ids at the cuts are known. Gaps and counts as in `planPacking`. */
export function packToTheRow(
  date: string,
  counts: DayCounts,
  covered: readonly Window[],
  limit: number,
  ids: CutIds,
): readonly PackedWindow[] {
  const windows: PackedWindow[] = [];
  const cuts = new Map<number, number[]>();
  for (const gap of listGaps(covered)) {
    const inside = countsInGap(counts, gap);
    if (inside.length === 0) continue;
    planCuts(inside, limit, cuts);
    const bounds = [...cuts.keys()]
      .flatMap((second) => (ids.get(second) ?? []).map((id): Bound => ({ second, id })))
      .filter((bound) => compareBounds(gap.from, bound) < 0 && compareBounds(bound, gap.to) < 0);
    const exact = isWholeSeconds(gap);
    let left = inside.reduce((sum, count) => sum + count.rows, 0);
    let from = gap.from;
    for (const to of [...bounds, gap.to]) {
      const rows = Math.min(limit, left);
      if (!isEmptyWindow({ from, to })) windows.push({ date, from, to, rows, exact });
      // Of a second that the gap has only a part of, nobody knows how many rows are gone.
      if (exact) left -= rows;
      from = to;
    }
  }
  return windows;
}

/** The parts of the day that no window covers, ascending. Parts of one second are covered by its id ranges. */
export function listGaps(covered: readonly Window[]): readonly Pick<Window, 'from' | 'to'>[] {
  const sorted = [...covered].sort((a, b) => compareBounds(a.from, b.from));
  const gaps: Pick<Window, 'from' | 'to'>[] = [];
  let reached: Bound = DAY_START;
  for (const window of sorted) {
    if (compareBounds(reached, window.from) < 0) gaps.push({ from: reached, to: window.from });
    if (compareBounds(reached, window.to) < 0) reached = window.to;
  }
  if (compareBounds(reached, DAY_END) < 0) gaps.push({ from: reached, to: DAY_END });
  return gaps;
}

/** Order of bounds in a day: by second, then by id, a bound without an id first. */
export function compareBounds(a: Bound, b: Bound): number {
  if (a.second !== b.second) return a.second - b.second;
  if (a.id === b.id) return 0;
  if (a.id === undefined) return -1;
  if (b.id === undefined) return 1;
  return Buffer.compare(Buffer.from(a.id), Buffer.from(b.id));
}

/**
 * Counts of a gap. A second that the gap has only a part of counts in full: how many of its rows lie in the part is not
 * known here, and too small a window costs less than a truncated one.
 */
function countsInGap(counts: DayCounts, gap: Pick<Window, 'from' | 'to'>): DayCounts {
  return counts.filter(
    ({ second }) =>
      second >= gap.from.second && (second < gap.to.second || (second === gap.to.second && gap.to.id !== undefined)),
  );
}

function isWholeSeconds(gap: Pick<Window, 'from' | 'to'>): boolean {
  return gap.from.id === undefined && gap.to.id === undefined;
}

/** Greedy from the left: a window ends where the next second would not fit. Empty stretches belong to a neighbour. */
function packBetweenSeconds(
  date: string,
  gap: Pick<Window, 'from' | 'to'>,
  counts: DayCounts,
  limit: number,
): PackedWindow[] {
  const windows: PackedWindow[] = [];
  let from = gap.from;
  let rows = 0;
  const close = (to: Bound) => {
    if (rows > 0 && !isEmptyWindow({ from, to })) windows.push({ date, from, to, rows, exact: isWholeSeconds(gap) });
    from = to;
    rows = 0;
  };
  for (const count of counts) {
    if (rows > 0 && rows + count.rows > limit) close({ second: count.second });
    rows += count.rows;
  }
  close(gap.to);
  return windows;
}

/** Adds the cuts of every `limit` rows to `cuts` and returns the number of pages they make. */
function planCuts(counts: DayCounts, limit: number, cuts: Map<number, number[]>): number {
  let before = 0;
  // A second that the gap before ends in is cut already: its cuts go on, so that its ranks stay `limit` apart.
  const shared = counts[0] && cuts.get(counts[0].second)?.[0];
  let next = shared === undefined ? limit : shared - 1;
  for (const { second, rows } of counts) {
    while (next < before + rows) {
      const ranks = cuts.get(second) ?? [];
      // The next window begins with the row after the last that fits; rank 1 is the second itself, cut like any other.
      const rank = next - before + 1;
      if (!ranks.includes(rank)) ranks.push(rank);
      cuts.set(second, ranks);
      next += limit;
    }
    before += rows;
  }
  return Math.ceil(before / limit);
}
