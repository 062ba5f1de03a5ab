/**
 * Which part of a sealed date an audit fetches again: the cells whose counts at the source have moved, in as few windows as
 * pages allow. Pure. Invariant: the stretches to fetch and those to keep tile the date, and both begin and end between cells.
 */
import { SECONDS_PER_DAY } from '../calendar/wall-clock.ts';
import { type Bound, compareBounds, DAY_END, DAY_START, type Stretch } from '../calendar/window.ts';
import { type CellCount, compareCells, type DayCounts, findDifferences, keyOf, startOf, stretchOf } from './counts.ts';

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

/**
 * @param moved from `findMoved` @param now the counts it was found by @param limit most rows of a page
 * @param bySecond symbols that were counted by second: their cells end with it
 */
export function planRepair(
  moved: DayCounts,
  now: DayCounts,
  limit: number,
  bySecond: ReadonlySet<string> = new Set(),
): RepairPlan {
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
    const { symbol, second } = cell;
    const to = symbol !== undefined && bySecond.has(symbol) ? { symbol, second: second + 1 } : stretchOf(cell).to;
    if (open !== undefined && open.rows + between + cell.rows <= limit) {
      open = { from: open.from, to, rows: open.rows + between + cell.rows };
    } else {
      if (open !== undefined) fetched.push({ from: open.from, to: open.to });
      open = { from: startOf(cell), to, rows: cell.rows };
    }
    between = 0;
  }
  if (open !== undefined) fetched.push({ from: open.from, to: open.to });
  return { fetched, kept: listRest(fetched, now, limit) };
}

/** What is not fetched, in stretches of about a page: if one of them has to be fetched after all, the others stay. */
function listRest(fetched: readonly Stretch[], now: DayCounts, limit: number): readonly Stretch[] {
  const bounds = [DAY_START, ...fetched.flatMap(({ from, to }) => [from, to]), DAY_END];
  const rest: Stretch[] = [];
  let at = 0;
  for (let index = 0; index + 1 < bounds.length; index += 2) {
    const [start = DAY_START, to = DAY_END] = bounds.slice(index, index + 2);
    let from = start;
    let rows = 0;
    for (let cell = now[at]; cell !== undefined && compareBounds(startOf(cell), to) < 0; cell = now[at]) {
      at += 1;
      if (compareBounds(startOf(cell), from) < 0) continue;
      if (rows > 0 && rows + cell.rows > limit) {
        rest.push({ from, to: startOf(cell) });
        from = startOf(cell);
        rows = 0;
      }
      rows += cell.rows;
    }
    if (compareBounds(from, to) < 0) rest.push({ from, to });
  }
  return rest;
}

/** The axis as one number: more than the seconds of a day for each symbol. */
const SYMBOL_STEP = 100_000;

/**
 * A bound between cells as a number that sorts like it. @param symbols all of the date in their order; none along the time
 */
export function placeOf({ symbol, second }: Bound, symbols: ReadonlyMap<string, number>): number {
  if (symbols.size === 0) return second;
  if (symbol === undefined) return second < SECONDS_PER_DAY ? 0 : (symbols.size + 1) * SYMBOL_STEP;
  return ((symbols.get(symbol) ?? 0) + 1) * SYMBOL_STEP + second;
}

/** The symbols of counts in the order of their axis; none along the time. */
export function listSymbols(...counts: readonly DayCounts[]): readonly string[] {
  const cells = new Map<string, CellCount>();
  for (const cell of counts.flat()) if (cell.symbol !== undefined) cells.set(cell.symbol, { ...cell, second: 0 });
  return [...cells.values()].sort(compareCells).flatMap(({ symbol }) => symbol ?? []);
}
