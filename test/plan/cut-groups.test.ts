/** Groups of cuts as pure data, on random days of both axes; what they read is counted anew, one row after another. */
import { describe, expect, test } from 'vitest';
import { compareCells, type DayCounts, keyOf, sumCounts } from '../../src/plan/counts.ts';
import { groupCuts } from '../../src/plan/cut-groups.ts';
import { type CutRequest, planPacking } from '../../src/plan/pack.ts';
import { createRandom } from '../support/random.ts';

const DATE = '2026-11-19';
const GRANULE = 8_192;
const SEEDS = Array.from({ length: 100 }, (_, i) => i + 1);

function createCounts(seed: number, axis: 'time' | 'symbol', cells: number, mean: number): DayCounts {
  const random = createRandom(seed);
  const letter = () => String.fromCharCode(65 + Math.floor(random() * 26));
  const names = [...new Set(Array.from({ length: cells }, () => letter() + letter() + letter() + letter()))].sort();
  return names.map((symbol, index) => {
    const rows = 1 + Math.floor(mean * 4 * random() ** 3 * (random() < 0.01 ? 100 : 1));
    const place = axis === 'time' ? { second: 34_200 + index } : { symbol, second: 0 };
    return { ...place, rows, ids: rows, mark: '' };
  });
}

/** Rows that a server reads for a group: of whole blocks, each once. */
function readRows(group: readonly CutRequest[], counts: DayCounts, granule: number): number {
  const starts = new Map<string, number>();
  let reached = 0;
  for (const cell of counts) {
    starts.set(keyOf(cell), reached);
    reached += cell.rows;
  }
  const spans = group.map(({ cell }) => {
    const from = starts.get(keyOf(cell)) ?? Number.NaN;
    return { from, to: from + cell.rows };
  });
  const isByTime = group[0]?.cell.symbol === undefined;
  const [first, last] = [spans[0], spans.at(-1)];
  const asked = isByTime && first && last ? [{ from: first.from, to: last.to }] : spans;
  const blocks = new Set<number>();
  for (const { from, to } of asked) {
    for (let block = Math.floor(from / granule); block * granule < to; block += 1) blocks.add(block);
  }
  return [...blocks].reduce((sum, block) => sum + Math.min(granule, reached - block * granule), 0);
}

describe.each(['time', 'symbol'] as const)('groups of cuts by %s', (axis) => {
  test('have every cut once, in order, and read no more than is allowed', () => {
    for (const seed of SEEDS) {
      const counts = createCounts(seed, axis, 800, 2_000);
      const total = sumCounts(counts).rows;
      const { cuts } = planPacking(DATE, counts, [], 10_000);
      const most = Math.round(total / (1.5 + (seed % 7)));
      const groups = groupCuts(cuts, counts, most);
      const ordered = [...cuts].sort((a, b) => compareCells(a.cell, b.cell));
      expect(groups.flat().map(({ cell }) => keyOf(cell))).toEqual(ordered.map(({ cell }) => keyOf(cell)));
      expect(groups.flat().map(({ ranks }) => ranks)).toEqual(ordered.map(({ ranks }) => ranks));
      for (const group of groups) {
        // A cell that is too much by itself can be asked for in no other way.
        if (group.length > 1) expect(readRows(group, counts, GRANULE), `seed ${seed}`).toBeLessThanOrEqual(most);
      }
    }
  });

  test('are about equally large', () => {
    let compared = 0;
    for (const seed of SEEDS.slice(0, 20)) {
      const counts = createCounts(seed, axis, 3_000, 700);
      const total = sumCounts(counts).rows;
      const { cuts } = planPacking(DATE, counts, [], 10_000);
      // Four would do by a little: greedily the first three would be full, and the fourth half empty.
      const groups = groupCuts(cuts, counts, Math.round(total * 0.29));
      const reads = groups.map((group) => readRows(group, counts, 512));
      if (groups.length !== 4) continue;
      expect(Math.max(...reads) / total, `seed ${seed}`).toBeLessThan(0.28);
      compared += 1;
    }
    expect(compared).toBeGreaterThan(5);
  });
});

describe('groups of cuts', () => {
  const day = (rows: number, cells: number): DayCounts =>
    Array.from({ length: cells }, (_, at) => ({ second: 34_200 + at, rows, ids: rows, mark: '' }));

  test('are four for a session of seven million rows of which two may be read', () => {
    const counts = day(300, 23_400);
    const { cuts } = planPacking(DATE, counts, [], 10_000);
    expect(groupCuts(cuts, counts, 1_950_000).map((group) => group.length)).toEqual([176, 176, 176, 173]);
  });

  test('are one where nothing is refused, but for the length of its text', () => {
    const counts = day(300, 23_400);
    const few = planPacking(DATE, counts, [], 10_000).cuts;
    expect(groupCuts(few, counts, Number.POSITIVE_INFINITY)).toHaveLength(1);
    const many = planPacking(DATE, counts, [], 1_000).cuts;
    const ranks = many.reduce((sum, cut) => sum + cut.ranks.length, 0);
    expect(groupCuts(many, counts, Number.POSITIVE_INFINITY)).toHaveLength(Math.ceil(ranks / 1_000));
  });

  test('count the blocks that each of many small symbols lies in', () => {
    const counts = Array.from({ length: 3_000 }, (_, at) => {
      const rows = at % 10 === 0 ? 900 : 9_000;
      return { symbol: `S${String(at).padStart(4, '0')}`, second: 0, rows, ids: rows, mark: '' };
    });
    const cuts = counts.filter(({ rows }) => rows === 900).map((cell): CutRequest => ({ cell, ranks: [2] }));
    // 300 symbols of 900 rows are 270,000 rows, and 300 blocks or two each are ten to twenty times as much.
    const groups = groupCuts(cuts, counts, 1_000_000);
    expect(groups.length).toBeGreaterThan(2);
    for (const group of groups) expect(readRows(group, counts, GRANULE)).toBeLessThanOrEqual(1_000_000);
  });

  test('take a part of a symbol by itself, with where it ends', () => {
    const part = (symbol: string, second: number) => ({ symbol, second, rows: 50_000, ids: 50_000, mark: '' });
    const counts = [part('AAPL', 0), part('SPY', 0), part('SPY', 45_000), part('XOM', 0)];
    const { cuts } = planPacking(DATE, counts, [], 10_000);
    const groups = groupCuts(cuts, counts, 1_000_000);
    const named = groups.map((group) => group.map(({ cell, until }) => `${keyOf(cell)}-${until ?? ''}`));
    expect(named).toEqual([['AAPL@0-'], ['SPY@0-45000'], ['SPY@45000-'], ['XOM@0-']]);
  });
});
