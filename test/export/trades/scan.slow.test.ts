/**
 * How a date is counted under a scan limit, on a simulated table: nothing known at first, then with what was learnt. The
 * same over a real engine is in `complete-date.slow.test.ts`.
 */
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { compareBounds, type Stretch } from '../../../src/calendar/window.ts';
import { planSpans, ScanTrial } from '../../../src/export/trades/scan.ts';
import { compareCells } from '../../../src/plan/axis.ts';
import { type CellCount, sumCounts } from '../../../src/plan/counts.ts';
import { ApiLimits } from '../../../src/state/limits.ts';
import { useCleanups } from '../../support/cleanups.ts';
import { createRandom } from '../../support/random.ts';
import { createJob } from '../../support/trades.ts';

const { folder } = useCleanups();
interface Table {
  readonly order: 'time' | 'symbol';
  readonly scanLimit: number;
  readonly bySecond: readonly number[];
  readonly bySymbol: readonly { readonly symbol: string; readonly rows: number }[];
  readonly rows: number;
}

/** A session with a lively opening; symbols of random names, a few of which carry half of the rows. */
function createTable(
  order: Table['order'],
  rows: number,
  scanLimit: number,
  seed: number,
  large: readonly string[] = [],
): Table {
  const random = createRandom(seed);
  const rate = (second: number) =>
    second < 34_200 || second >= 58_500 ? 0 : second < 34_500 ? 5 : second < 36_000 ? 2.2 : second < 57_600 ? 1 : 0.1;
  const rates = Array.from({ length: 86_400 }, (_, second) => rate(second) * (0.7 + 0.6 * random()));
  const total = rates.reduce((sum, each) => sum + each, 0);
  const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ';
  const letter = () => letters.charAt(Math.floor(random() * letters.length));
  const names = new Set(Array.from({ length: 300 }, () => letter() + letter() + (random() < 0.7 ? letter() : '')));
  const heavy = large.length > 0 ? large : [...names].slice(0, 5);
  const weights = [...new Set([...heavy, ...names])].map((symbol) => ({
    symbol,
    weight: heavy.includes(symbol) ? 60 : random(),
  }));
  const weight = weights.reduce((sum, each) => sum + each.weight, 0);
  return {
    order,
    scanLimit,
    rows,
    bySecond: rates.map((each) => Math.round((each / total) * rows)),
    bySymbol: weights
      .map((each) => ({ symbol: each.symbol, rows: Math.round((each.weight / weight) * rows) }))
      .sort((a, b) => (a.symbol < b.symbol ? -1 : 1)),
  };
}

const isBySymbol = ({ from, to }: Stretch) => from.symbol !== undefined || to.symbol !== undefined;

/** Cells of a stretch; of a symbol whose day is cut, its share of the seconds. */
function readCells(table: Table, stretch: Stretch, axis: 'time' | 'symbol'): CellCount[] {
  const { from, to } = stretch;
  if (axis === 'time') {
    return table.bySecond.flatMap((rows, second) =>
      rows > 0 && second >= from.second && second < to.second ? [{ second, rows, ids: rows, mark: '' }] : [],
    );
  }
  return table.bySymbol.flatMap(({ symbol, rows }) => {
    const start = from.symbol === symbol ? from.second : 0;
    const end = to.symbol === symbol ? to.second : 86_400;
    const inside =
      compareBounds({ symbol, second: 86_400 }, from) > 0 &&
      compareBounds({ symbol, second: 0 }, to) < 0 &&
      start < end;
    const part = inside ? Math.round((rows * (end - start)) / 86_400) : 0;
    return part > 0 ? [{ symbol, second: start, rows: part, ids: part, mark: '' }] : [];
  });
}

function scannedRows(table: Table, stretch: Stretch): number {
  if ((table.order === 'symbol') !== isBySymbol(stretch)) return table.rows;
  return sumCounts(readCells(table, stretch, table.order)).rows;
}

/** Counts a date as `probe.ts` does. */
function count(table: Table, limits: ApiLimits): { asked: Stretch[]; refused: number; cells: CellCount[] } {
  const trial = new ScanTrial({ job: createJob(), limits });
  const asked: Stretch[] = [];
  let refused = 0;
  let cells: CellCount[] = [];
  let left = planSpans({ job: createJob(), limits });
  for (let [stretch] = left; stretch !== undefined; [stretch] = left) {
    left = left.slice(1);
    asked.push(stretch);
    const axis = isBySymbol(stretch) ? 'symbol' : trial.axis;
    if (scannedRows(table, stretch) > table.scanLimit) {
      refused += 1;
      const before = trial.axis;
      const next = trial.noteRefused(stretch, left);
      if (next === undefined) throw new Error(`refused for good at ${JSON.stringify(stretch)}`);
      left = next;
      if (trial.axis !== before) cells = [];
    } else {
      const found = readCells(table, stretch, axis);
      cells.push(...found);
      left = trial.notePassed(stretch, sumCounts(found).rows, left);
    }
  }
  cells.sort(compareCells);
  trial.learn(cells);
  return { asked, refused, cells };
}

describe.each(['time', 'symbol'] as const)('a date of a table ordered by %s', (order) => {
  it.each([1, 2, 3, 4, 5])(
    'is counted in few requests at first, in the fewest from then on (seed %d)',
    async (seed) => {
      const table = createTable(order, 700_000, 200_000, seed);
      const limits = await new ApiLimits('none.json', 0).load();
      const first = count(table, limits);
      expect(sumCounts(first.cells).rows).toBeGreaterThan(699_000);
      expect(first.asked.length).toBeLessThanOrEqual(order === 'time' ? 12 : 30);
      const next = count(table, limits);
      expect(sumCounts(next.cells).rows).toBe(sumCounts(first.cells).rows);
      expect(next.refused).toBe(0);
      expect(next.asked.length).toBeLessThanOrEqual(7);
      expect(limits.axis).toBe(order);
    },
  );

  it.each([0.5, 0.05, 0.02])(
    'is counted once, and nothing is asked twice, under a limit of %d of it',
    async (share) => {
      const table = createTable(order, 700_000, 700_000 * share, 7);
      const limits = await new ApiLimits('none.json', 0).load();
      for (let night = 0; night < 3; night += 1) {
        const { asked, cells } = count(table, limits);
        expect(new Set(asked.map((stretch) => JSON.stringify(stretch))).size).toBe(asked.length);
        expect(sumCounts(cells).rows).toBeGreaterThan(690_000);
        expect(new Set(cells.map((cell) => `${cell.symbol} ${cell.second}`)).size).toBe(cells.length);
      }
    },
  );

  it('whose largest symbols each exceed the scan limit is counted without a search for them by letters', async () => {
    const limits = await new ApiLimits('none.json', 0).load();
    const table = createTable(order, 700_000, 50_000, 7, ['SPY', 'SPX', 'QQQ', 'NVDA', 'TSLA']);
    // A date without rows teaches the axis and nothing else, as the first one of a new dataset may be.
    count({ ...table, bySecond: [], bySymbol: [] }, limits);
    const { asked, cells } = count(table, limits);
    expect(sumCounts(cells).rows).toBeGreaterThan(690_000);
    expect(asked.length).toBeLessThanOrEqual(70);
  });

  it('that grew by half is still counted, and the limits learnt stay true', async () => {
    const limits = await new ApiLimits('none.json', 0).load();
    count(createTable(order, 700_000, 200_000, 3), limits);
    const grown = createTable(order, 1_050_000, 200_000, 3);
    const { cells } = count(grown, limits);
    expect(sumCounts(cells).rows).toBeGreaterThan(1_040_000);
    expect(limits.passedRows).toBeLessThanOrEqual(200_000);
    expect(count(grown, limits).refused).toBeLessThanOrEqual(2);
  });

  it('whose scan limit was lowered is counted in smaller parts from the next night on', async () => {
    const limits = await new ApiLimits('none.json', 0).load();
    count(createTable(order, 700_000, 400_000, 3), limits);
    const lowered = createTable(order, 700_000, 100_000, 3);
    count(lowered, limits);
    expect(limits.passedRows).toBeLessThanOrEqual(200_000);
    count(lowered, limits);
    expect(count(lowered, limits).refused).toBeLessThanOrEqual(3);
  });
});

describe.each(['time', 'symbol'] as const)('limits of a table ordered by %s that were learnt a week ago', (order) => {
  const WEEK_MS = 7 * 86_400_000;

  async function learnThenWait(table: Table) {
    const path = join(await folder(), 'learnt.json');
    const limits = await new ApiLimits(path, 0).load();
    for (let night = 0; night < 2; night += 1) count(table, limits);
    await limits.save();
    return { limits: await new ApiLimits(path, WEEK_MS + 1).load(), path };
  }

  it('cost no search again, and one refusal at most where nothing has changed', async () => {
    const table = createTable(order, 700_000, 200_000, 2);
    const { limits, path } = await learnThenWait(table);
    const before = count(table, await new ApiLimits(path, WEEK_MS).load());
    const { asked, refused } = count(table, limits);
    expect(refused).toBeLessThanOrEqual(1);
    expect(asked.length).toBeLessThanOrEqual(before.asked.length + 2);
  });

  it('are tried beyond once: up to twice of what was refused, and what is refused again is known for a week', async () => {
    const table = createTable(order, 700_000, 200_000, 2);
    const { limits, path } = await learnThenWait(table);
    const known = await new ApiLimits(path, WEEK_MS).load();
    const refused = known.refusedRows ?? 0;
    expect(refused).toBeGreaterThan(0);
    expect(limits.refusedRows).toBe(2 * refused);
    limits.noteTooBroad(refused);
    await limits.save();
    expect((await new ApiLimits(path, 2 * WEEK_MS).load()).refusedRows).toBe(refused);
  });
});
