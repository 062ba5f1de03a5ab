/**
 * Groups the cuts of a date into requests: as few as possible, none reading more than is allowed, and all of about
 * equal size, so that none fails because of a wrong estimate. Pure.
 */
import { compareCells, type DayCounts, keyOf } from './counts.ts';
import type { CutRequest } from './pack.ts';

/** Ranks in one cut request; keeps its text far below the server's limit for a query. */
const MAX_RANKS = 1000;
/** Rows of a block that a server reads whole, at both ends of a request: the default of ClickHouse's index. */
const GRANULE_ROWS = 8_192;
/** Under a low limit, blocks are assumed to be smaller, or no request would fit. */
const GRANULES_ALLOWED = 64;
/** Number of sizes to try when balancing the groups. */
const STEPS = 32;

/** A cut with its cell's range of row numbers within the date, in axis order. */
interface PlacedCut {
  readonly cut: CutRequest;
  readonly from: number;
  readonly to: number;
}

/**
 * On the time axis a request reads the whole stretch from its first cell to its last. Symbols are read one by one, each
 * with the blocks at both of its ends. Parts of a symbol's day share a request only if they have the same start and end
 * time, because the request has one condition on time.
 * @param counts of the date, all of its cells
 * @param most rows that a request may read
 * @returns every cut once, in axis order; a cell that alone has more than `most` rows gets its own request
 */
export function groupCuts(
  cuts: readonly CutRequest[],
  counts: DayCounts,
  most: number,
): readonly (readonly CutRequest[])[] {
  const placed = placeCuts(cuts, counts);
  const margin = 2 * Math.min(GRANULE_ROWS, most / GRANULES_ALLOWED);
  const fewest = fill(placed, most, margin);
  for (let step = 1; step < STEPS; step += 1) {
    const groups = fill(placed, (most * step) / STEPS, margin);
    if (groups.length <= fewest.length) return groups;
  }
  return fewest;
}

function placeCuts(cuts: readonly CutRequest[], counts: DayCounts): readonly PlacedCut[] {
  const places = new Map<string, { from: number; until: number | undefined }>();
  let reached = 0;
  for (const [index, cell] of counts.entries()) {
    const next = counts[index + 1];
    const isGoingOn = cell.symbol !== undefined && next?.symbol === cell.symbol;
    places.set(keyOf(cell), { from: reached, until: isGoingOn ? next?.second : undefined });
    reached += cell.rows;
  }
  return [...cuts]
    .sort((a, b) => compareCells(a.cell, b.cell))
    .map((asked) => {
      const { from, until } = places.get(keyOf(asked.cell)) ?? { from: 0, until: undefined };
      const cut = until === undefined ? asked : { ...asked, until };
      return { cut, from, to: from + asked.cell.rows };
    });
}

/** Greedy, in axis order. @param margin extra rows that are read around a stretch, both ends together */
function fill(placed: readonly PlacedCut[], most: number, margin: number): readonly (readonly CutRequest[])[] {
  const groups: CutRequest[][] = [];
  let open: { group: CutRequest[]; first: CutRequest; read: number; to: number; ranks: number } | undefined;
  for (const { cut, from, to } of placed) {
    const alone = to - from + margin;
    const isContiguous = cut.cell.symbol === undefined || (open !== undefined && from - open.to < margin);
    const added = open && isContiguous ? to - open.to : alone;
    const isWhole = cut.cell.symbol === undefined || isSameStretch(cut, open?.first);
    const ranks = cut.ranks.length;
    if (!open || !isWhole || open.read + added > most || open.ranks + ranks > MAX_RANKS) {
      open = { group: [cut], first: cut, read: alone, to, ranks };
      groups.push(open.group);
      continue;
    }
    open.group.push(cut);
    open.read += added;
    open.to = to;
    open.ranks += ranks;
  }
  return groups;
}

/** Whether two cells cover the same part of the day. */
function isSameStretch(a: CutRequest, b: CutRequest | undefined): boolean {
  return b !== undefined && a.cell.second === b.cell.second && a.until === b.until;
}
