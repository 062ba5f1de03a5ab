/** Packing and splitting as pure data, on random days of both axes. Its SQL is tested in `statement.test.ts`. */
import { describe, expect, test } from 'vitest';
import {
  type Axis,
  type Bound,
  compareBounds,
  DAY_END,
  DAY_START,
  formatWindow,
  isEmptyWindow,
  type Stretch,
  type Window,
  wholeDay,
} from '../../src/calendar/window.ts';
import { keyOf } from '../../src/plan/axis.ts';
import { type CellCount, type DayCounts, findDifferences, mergeParts, sumCounts } from '../../src/plan/counts.ts';
import { countsInGap, cutWindow, findMiddle, listGaps, packFull, packWindows } from '../../src/plan/pack.ts';
import { createRandom } from '../support/random.ts';

const DATE = '2026-11-19';
const SEEDS = Array.from({ length: 200 }, (_, i) => i + 1);

/** A row of a day as the source has it. */
interface Row {
  readonly symbol?: string;
  readonly second: number;
  readonly id: string;
}

/** Rows in the order of the axis. Ids and symbols are ASCII: JavaScript's order of strings is that of their bytes. */
function createDay(random: () => number, axis: Axis): readonly Row[] {
  const rows: Row[] = [];
  const cells = new Set(Array.from({ length: 1 + Math.floor(random() * 40) }, () => Math.floor(random() * 60)));
  for (const cell of [...cells].sort((a, b) => a - b)) {
    for (let k = 0, n = 1 + Math.floor(random() ** 3 * 60); k < n; k += 1) {
      const id = `${cell}-${String(k).padStart(3, '0')}`;
      if (axis === 'time') rows.push({ second: 34_200 + cell, id });
      else rows.push({ symbol: `S${String(cell).padStart(2, '0')}`, second: 34_200 + Math.floor(random() * 3), id });
    }
  }
  return rows.sort((a, b) => (isBefore(a, b) ? -1 : 1));
}

/** An oracle apart from `compareBounds`. */
function isBefore(a: Bound, b: Bound): boolean {
  const place = ({ symbol, second, id }: Bound) =>
    [symbol ?? (second === 0 ? '' : '~'), String(second).padStart(5, '0'), id ?? ''].join(' ');
  return place(a) < place(b);
}

const holds = ({ from, to }: Stretch, row: Bound) => !isBefore(row, from) && isBefore(row, to);
const rowsIn = (day: readonly Row[], window: Stretch) => day.filter((row) => holds(window, row));

/** Counts by second or by symbol; some symbols in two parts of their day. */
function countDay(day: readonly Row[], random: () => number): DayCounts {
  const cells = new Map<string, CellCount>();
  const parted = new Map<string, boolean>();
  for (const { symbol, second } of day) {
    if (symbol !== undefined && !parted.has(symbol)) parted.set(symbol, random() < 0.2);
    const start = symbol !== undefined && parted.get(symbol) && second >= 34_201 ? 34_201 : 0;
    const cell = symbol === undefined ? { second } : { symbol, second: start };
    const key = keyOf(cell);
    const rows = (cells.get(key)?.rows ?? 0) + 1;
    cells.set(key, { ...cell, rows, ids: rows, mark: '' });
  }
  return [...cells.values()];
}

/** How many rows each cell or window has, in order. */
const sizesOf = (counts: readonly { readonly rows: number }[]) => counts.map(({ rows }) => rows);

/** Some windows of the day, at random bounds between any two rows, that do not overlap. */
function createCovered(random: () => number, day: readonly Row[], counts: DayCounts): Window[] {
  const bounds: Bound[] = [
    ...day.filter(() => random() < 0.08),
    ...counts
      .filter(() => random() < 0.1)
      .map(({ symbol, second }) => (symbol === undefined ? { second } : { symbol, second })),
  ];
  const sorted = [DAY_START, ...bounds.sort(compareBounds), DAY_END];
  const windows = sorted.slice(1).map((to, i) => ({ date: DATE, from: sorted[i] ?? DAY_START, to }));
  return windows.filter((window) => random() < 0.4 && !isEmptyWindow(window));
}

function assertTiles(day: readonly Row[], windows: readonly Window[], covered: readonly Window[], seed: string): void {
  for (const row of day) {
    const times = [...windows, ...covered].filter((window) => holds(window, row)).length;
    if (times !== 1) throw new Error(`${seed}: row ${row.id} is in ${times} windows`);
  }
  expect(windows.filter(isEmptyWindow), seed).toEqual([]);
}

/** Random days, one a seed. */
function* drawDays(axis: Axis) {
  for (const seed of SEEDS) {
    const random = createRandom(seed);
    const day = createDay(random, axis);
    const counts = countDay(day, random);
    const covered = createCovered(random, day, counts);
    const [limit, pages] = [1 + Math.floor(random() * 40), 2 + Math.floor(random() * 4)];
    yield { day, counts, covered, limit, pages, about: `seed ${seed}` };
  }
}

describe.each(['time', 'symbol'] as const)('on random days along the %s axis', (axis) => {
  test('windows tile what is not staged, and exceed the limit only with one cell', () => {
    for (const { day, counts, covered, limit, about } of drawDays(axis)) {
      const windows = packWindows(DATE, counts, covered, limit);
      assertTiles(day, windows, covered, about);
      for (const window of windows) {
        const rows = rowsIn(day, window);
        expect(rows.length, about).toBeLessThanOrEqual(window.rows);
        if (window.exact) expect(rows.length, about).toBe(window.rows);
        if (window.rows > limit) expect(countsInGap(counts, window), about).toHaveLength(1);
      }
    }
  });

  test('only the first and the last window of what is not staged may have fewer rows than they say', () => {
    for (const { counts, covered, limit, about } of drawDays(axis)) {
      const windows = packWindows(DATE, counts, covered, limit);
      for (const gap of listGaps(covered)) {
        const inside = windows.filter(({ from }) => holds(gap, from));
        const inner = inside.slice(1, -1).filter(({ exact }) => !exact);
        expect(inner.map(formatWindow), about).toEqual([]);
      }
    }
  });

  test('windows take the fewest requests of all that end at these places, and full windows are all of these but the rest', () => {
    for (const { day, counts, limit, pages, about } of drawDays(axis)) {
      const sizes: number[] = [];
      for (const rows of sizesOf(counts)) {
        if ((sizes.at(-1) ?? limit) + rows <= limit) sizes.push((sizes.pop() ?? 0) + rows);
        else sizes.push(rows);
      }
      expect(packWindows(DATE, counts, [], limit), about).toHaveLength(sizes.length);
      const parts = packWindows(DATE, counts, [], limit, limit * pages);
      assertTiles(day, parts, [], about);
      const requests = parts.reduce((sum, { rows }) => sum + requestsOf(rows, limit), 0);
      expect(requests, about).toBe(fewestRequests(sizesOf(counts), limit, pages));
      const full = packFull(DATE, counts, wholeDay(DATE), limit);
      expect(sizesOf(full), about).toEqual(sizes.slice(0, -1));
      const end = full.at(-1)?.to ?? DAY_START;
      assertTiles(day, full, [{ date: DATE, from: end, to: DAY_END }], about);
    }
  });

  test('halves of a window between its cells have the rows that they say, and tile it', () => {
    for (const { day, counts, about } of drawDays(axis)) {
      const window = { ...wholeDay(DATE), rows: sumCounts(counts).rows, exact: true };
      const middle = findMiddle(window, counts);
      expect(middle === undefined, about).toBe(counts.length === 1);
      if (middle === undefined) continue;
      const halves = cutWindow(window, [middle]);
      assertTiles(day, halves, [], about);
      for (const half of halves) expect(rowsIn(day, half), about).toHaveLength(half.rows);
    }
  });
});

/** Of a part: its pages, and the question for their ends. */
const requestsOf = (rows: number, limit: number) => Math.ceil(rows / limit) + (rows > limit ? 1 : 0);

/** Over all ways to cut cells into parts: a part of more pages than allowed has one cell. */
function fewestRequests(sizes: readonly number[], limit: number, pages: number): number {
  const fewest = [0];
  for (let end = 1; end <= sizes.length; end += 1) {
    let rows = 0;
    let best = Number.POSITIVE_INFINITY;
    for (let start = end - 1; start >= 0; start -= 1) {
      rows += sizes[start] ?? 0;
      if (rows > limit * pages && start < end - 1) break;
      best = Math.min(best, (fewest[start] ?? 0) + requestsOf(rows, limit));
    }
    fewest.push(best);
  }
  return fewest.at(-1) ?? 0;
}

const cell = (symbol: string | undefined, second: number, rows: number, mark = ''): CellCount => ({
  ...(symbol === undefined ? { second } : { symbol, second }),
  ...{ rows, ids: rows, mark },
});
const cells = (...rows: readonly number[]): DayCounts => rows.map((n, i) => cell(undefined, 10 * i, n));

test('windows between seconds are of about equal size', () => {
  const counts = cells(3, 3, 4, 6, 1, 9, 1);
  expect(sizesOf(packWindows(DATE, counts, [], 9))).toEqual([6, 4, 7, 9, 1]);
  expect(sizesOf(packWindows(DATE, cells(1, 1, 1, 1, 1), [], 4))).toEqual([3, 2]);
  // A cell that is too large for a page changes nothing for the others.
  expect(sizesOf(packWindows(DATE, cells(9, 1, 1, 1, 1, 1), [], 4))).toEqual([9, 3, 2]);
});

test('a window between symbols ends where the next symbol would not fit', () => {
  const counts = ['AAPL', 'QQQ', 'SPY'].map((symbol, i) => cell(symbol, 0, i + 2));
  expect(packWindows(DATE, counts, [], 5).map(formatWindow)).toEqual([
    '00:00:00..SPY@00:00:00',
    'SPY@00:00:00..24:00:00',
  ]);
});

test('gaps are what no window covers, also when windows overlap', () => {
  const at = (from: number, to: number): Window => ({ date: DATE, from: { second: from }, to: { second: to } });
  expect(listGaps([at(10, 20), at(0, 5), at(15, 18)])).toEqual(
    [at(5, 10), at(20, 86_400)].map(({ from, to }) => ({ from, to })),
  );
  expect(listGaps([wholeDay(DATE)])).toEqual([]);
});

test('differences are the cells where staged and counted ids are not the same, on either side', () => {
  const count = (second: number, ids: number) => ({ second, rows: ids + 1, ids, mark: '' });
  const found = findDifferences([count(1, 5), count(2, 5), count(4, 1)], [count(1, 5), count(2, 6), count(3, 1)]);
  expect(found.map(({ second }) => second)).toEqual([2, 3, 4]);
});

test('a row that was corrected under its id is a difference, where the source tells when rows were made', () => {
  const count = (mark: string) => [{ second: 1, rows: 5, ids: 5, mark }];
  expect(findDifferences(count('sum 1700'), count('sum 1701'))).toHaveLength(1);
  expect(findDifferences(count('2026-11-19 15:00:00.250'), count('2026-11-19 15:00:00.251'))).toHaveLength(1);
  expect(findDifferences(count('sum 1700'), count('sum 1700'))).toEqual([]);
  // The same instant in other words is none.
  expect(findDifferences(count('2026-11-19 15:00:00.250'), count('2026-11-19T15:00:00Z'))).toEqual([]);
  expect(findDifferences(count(''), count('sum 1701'))).toEqual([]);
});

test('parts of a symbol count as one', () => {
  const spy = [cell('SPY', 0, 2, 'sum 5'), cell('SPY', 40_000, 3, 'sum 18446744073709551615')];
  expect(mergeParts([...spy, cell('A', 0, 1, '1')])).toEqual([cell('A', 0, 1, '1'), cell('SPY', 0, 5, 'sum 4')]);
});
