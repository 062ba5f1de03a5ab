/**
 * Which cuts of a date one request may ask for: as few requests as can be of which none reads more than is allowed, and all
 * of them about equally much, so that none fails for what was estimated wrongly. Pure.
 */
import { compareCells, type DayCounts, keyOf } from './counts.ts';
import type { CutRequest } from './pack.ts';

/** Ranks asked in one cut request, so that its text stays far below the server's limit for a query. */
const MAX_RANKS = 1000;
/** Rows of a block that a server reads whole, at both ends of what is asked for: the default of ClickHouse's index. */
const GRANULE_ROWS = 8_192;
/** Where little is allowed blocks must be small too, or nothing could be asked. */
const GRANULES_ALLOWED = 64;
/** How finely an even size is sought. */
const STEPS = 32;

/** A cut with the places of its cell among the date's rows, in the order of the axis. */
interface PlacedCut {
  readonly cut: CutRequest;
  readonly from: number;
  readonly to: number;
}

/**
 * Along the time axis a request reads the whole stretch from its first cell to its last. Symbols are read one by one, each
 * with the blocks that it begins and ends in. A part of a symbol's day comes alone: the condition on its time would not hold
 * for others.
 * @param counts of the date, all of its cells
 * @param most rows that a request may read
 * @returns every cut once, in the order of the axis; a cell that alone is more than `most` is asked for by itself
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

/** Greedy, in the order of the axis. @param margin rows beside a stretch that is read, at both of its ends together */
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

/** Whether two cells are of the same stretch of the day. */
function isSameStretch(a: CutRequest, b: CutRequest | undefined): boolean {
  return b !== undefined && a.cell.second === b.cell.second && a.until === b.until;
}
