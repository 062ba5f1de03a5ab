/**
 * Windows, packing, splitting and dates, as pure data; packings and splits are checked on random days. The SQL made of
 * windows is tested on a real engine in `statement.test.ts`.
 */
import { describe, expect, test } from 'vitest';
import {
  type Bound,
  DAY_END,
  DAY_START,
  formatWindow,
  isEmptyWindow,
  parseWindow,
  type Window,
  wholeDay,
} from '../../src/calendar/window.ts';
import { findDifferences, type SecondCount, sumCounts } from '../../src/plan/counts.ts';
import { computeConditions, computeLookback, expiresAt, listUnsealed, settledAt } from '../../src/plan/dates.ts';
import {
  type CutIds,
  compareBounds,
  listGaps,
  type PackedWindow,
  packToTheRow,
  planPacking,
} from '../../src/plan/pack.ts';
import { planSplit, splitWindow } from '../../src/plan/split.ts';
import { createRandom } from '../support/random.ts';

const DATE = '2026-11-19';

describe('the text of a window', () => {
  const ids = [
    'a',
    '',
    '..',
    '+',
    '%',
    '%2E',
    "o'neil",
    '"',
    '\\',
    'ü🚀',
    'a b',
    'a..b+c%25',
    '\u0000\n',
    '/',
    'é'.repeat(50),
  ];

  test.each(ids)('is read back with the id "%s" on either side', (id) => {
    for (const window of [
      { date: DATE, from: { second: 34_200, id }, to: { second: 34_201 } },
      { date: DATE, from: { second: 0 }, to: { second: 86_399, id } },
      { date: DATE, from: { second: 5, id: 'x' }, to: { second: 5, id } },
    ]) {
      const text = formatWindow(window);
      expect(parseWindow(DATE, text)).toEqual(window);
      expect(text).toMatch(/^[\x20-\x7e]+$/);
      expect(text).not.toMatch(/['"\\]/);
    }
  });

  test('is the same for the same window and different for any other', () => {
    const texts = ids.map((id) => formatWindow({ from: { second: 1, id }, to: DAY_END }));
    expect(new Set(texts).size).toBe(ids.length);
    expect(formatWindow(wholeDay(DATE))).toBe('00:00:00..24:00:00');
  });

  test.each(['', '09:30:00', '09:30..10:00', 'x..y', '09:30:00..'])('"%s" is refused', (text) => {
    expect(() => parseWindow(DATE, text)).toThrow(RangeError);
  });
});

test('bounds are in byte order, as the engine sorts ids', () => {
  const bounds: Bound[] = [
    { second: 1 },
    ...['', 'A', 'a', 'é', '\uFFFD', '🚀'].map((id) => ({ second: 1, id })),
    { second: 2 },
  ];
  expect([...bounds].reverse().sort(compareBounds)).toEqual(bounds);
});

/** A day as the source has it: for each second the ids of its rows, sorted. */
type Day = ReadonlyMap<number, readonly string[]>;

function createDay(random: () => number): Day {
  const day = new Map<number, string[]>();
  for (let i = 0, n = 1 + Math.floor(random() * 40); i < n; i += 1) {
    const second = 34_200 + Math.floor(random() * 60);
    const rows = 1 + Math.floor(random() ** 3 * 60);
    day.set(
      second,
      Array.from({ length: rows }, (_, k) => `${second}-${String(k).padStart(3, '0')}`),
    );
  }
  return new Map([...day].sort(([a], [b]) => a - b));
}

const countDay = (day: Day): SecondCount[] =>
  [...day].map(([second, ids]) => ({ second, rows: ids.length, ids: ids.length }));

/** Ids here are ASCII, so the order of JavaScript's strings is that of their bytes: an oracle apart from `compareBounds`. */
const isBefore = (a: Bound, b: Bound): boolean =>
  a.second < b.second || (a.second === b.second && b.id !== undefined && (a.id === undefined || a.id < b.id));
const holds = ({ from, to }: Pick<Window, 'from' | 'to'>, row: Bound) => !isBefore(row, from) && isBefore(row, to);
const rowsIn = (day: Day, window: Pick<Window, 'from' | 'to'>) =>
  [...day].flatMap(([second, ids]) => ids.map((id) => ({ second, id }))).filter((row) => holds(window, row));

const findIds = (day: Day, cuts: readonly { second: number; ranks: readonly number[] }[], limit: number): CutIds =>
  new Map(
    cuts.map(({ second, ranks: [first = 0] }) => [
      second,
      // As the statement does it: from the first rank on, every `limit` rows.
      (day.get(second) ?? []).filter((_, i) => i + 1 >= first && (i + 1 - first) % limit === 0),
    ]),
  );

/** Some windows of the day, at random bounds between any two rows, that do not overlap. */
function createCovered(random: () => number, day: Day): Window[] {
  const rows = rowsIn(day, wholeDay(DATE));
  const bounds = [
    ...rows.filter(() => random() < 0.08),
    ...[...day.keys()].filter(() => random() < 0.1).map((second) => ({ second })),
  ];
  const sorted = [DAY_START, ...bounds.sort(compareBounds), DAY_END];
  const windows = sorted.slice(1).map((to, i) => ({ date: DATE, from: sorted[i] ?? DAY_START, to }));
  return windows.filter((window) => random() < 0.4 && !isEmptyWindow(window));
}

function assertTiles(day: Day, windows: readonly Window[], covered: readonly Window[], seed: string): void {
  for (const row of rowsIn(day, wholeDay(DATE))) {
    const times = [...windows, ...covered].filter((window) => holds(window, row)).length;
    if (times !== 1) throw new Error(`${seed}: row ${row.id} is in ${times} windows`);
  }
  expect(windows.filter(isEmptyWindow), seed).toEqual([]);
}

describe('on random days', () => {
  const SEEDS = Array.from({ length: 200 }, (_, i) => i + 1);

  test('windows between seconds tile what is not staged, and only single seconds exceed the limit', () => {
    for (const seed of SEEDS) {
      const random = createRandom(seed);
      const day = createDay(random);
      const covered = createCovered(random, day);
      const limit = 1 + Math.floor(random() * 40);
      const { windows, overfull } = planPacking(DATE, countDay(day), covered, limit);
      assertTiles(day, windows, covered, `seed ${seed}`);
      for (const window of windows) {
        const rows = rowsIn(day, window);
        expect(rows.length, `seed ${seed}`).toBeLessThanOrEqual(window.rows);
        if (window.exact) expect(rows.length, `seed ${seed}`).toBe(window.rows);
        if (rows.length > limit) expect(new Set(rows.map(({ second }) => second)).size, `seed ${seed}`).toBe(1);
      }
      if (overfull === 0)
        expect(Math.max(0, ...windows.map(({ rows }) => rows)), `seed ${seed}`).toBeLessThanOrEqual(limit);
    }
  });

  test('windows to the row tile what is not staged and none exceeds the limit', () => {
    for (const seed of SEEDS) {
      const random = createRandom(seed);
      const day = createDay(random);
      const covered = createCovered(random, day);
      const limit = 1 + Math.floor(random() * 40);
      const counts = countDay(day);
      const ids = findIds(day, planPacking(DATE, counts, covered, limit).cuts, limit);
      const windows = packToTheRow(DATE, counts, covered, limit, ids);
      assertTiles(day, windows, covered, `seed ${seed}`);
      for (const window of windows) {
        const rows = rowsIn(day, window).length;
        expect(rows, `seed ${seed} ${formatWindow(window)}`).toBeLessThanOrEqual(limit);
        expect(rows, `seed ${seed}`).toBeLessThanOrEqual(window.rows);
        if (window.exact) expect(rows, `seed ${seed}`).toBe(window.rows);
      }
    }
  });

  test('windows to the row are the fewest possible when nothing is staged', () => {
    for (const seed of SEEDS) {
      const random = createRandom(seed);
      const day = createDay(random);
      const limit = 1 + Math.floor(random() * 40);
      const counts = countDay(day);
      const { cuts, fewest } = planPacking(DATE, counts, [], limit);
      const windows = packToTheRow(DATE, counts, [], limit, findIds(day, cuts, limit));
      const expected = Math.ceil(sumCounts(counts).rows / limit);
      expect([windows.length, fewest], `seed ${seed}`).toEqual([expected, expected]);
      expect(
        windows.slice(0, -1).every(({ rows }) => rows === limit),
        `seed ${seed}`,
      ).toBe(true);
    }
  });

  test('splitting ends with windows within the limit that tile the day', () => {
    for (const seed of SEEDS) {
      const random = createRandom(seed);
      const day = createDay(random);
      const limit = 1 + Math.floor(random() * 10);
      // The counts know of only some seconds: rows of the others came late.
      const counts = countDay(day).filter(() => random() < 0.8);
      const done: PackedWindow[] = [];
      const queue: PackedWindow[] = [{ ...wholeDay(DATE), rows: sumCounts(counts).rows, exact: true }];
      for (let steps = 0, window = queue.shift(); window; window = queue.shift(), steps += 1) {
        if (steps > 3000) throw new Error(`seed ${seed}: the splits make no progress`);
        const rows = rowsIn(day, window);
        if (rows.length <= limit) {
          done.push(window);
          continue;
        }
        const plan = planSplit(window, counts, true);
        const middle = rows[Math.floor(rows.length / 2)];
        if (plan.kind === 'ask-id' && rows.some(({ second }) => second !== window.from.second)) {
          throw new Error(`seed ${seed}: an id cannot cut ${formatWindow(window)}`);
        }
        if (plan.kind === 'impossible' || !middle) throw new Error(`seed ${seed}: no split of ${formatWindow(window)}`);
        const at = plan.kind === 'cut' ? plan.at : { second: window.from.second, id: middle.id };
        const halves = splitWindow(window, at, counts);
        // Not `expect`: there are tens of thousands of halves.
        const bounds = JSON.stringify(halves.map(({ from, to }) => [from, to]));
        if (
          halves.some(isEmptyWindow) ||
          bounds !==
            JSON.stringify([
              [window.from, at],
              [at, window.to],
            ])
        ) {
          throw new Error(`seed ${seed}: ${formatWindow(window)} splits into ${bounds}`);
        }
        queue.push(...halves);
      }
      assertTiles(day, done, [], `seed ${seed}`);
    }
  });
});

test('a window between seconds is as full as whole seconds allow', () => {
  const counts = [3, 3, 4, 6, 1, 9, 1].map((rows, i) => ({ second: 10 * i, rows, ids: rows }));
  expect(planPacking(DATE, counts, [], 6).windows.map(formatWindow)).toEqual([
    '00:00:00..00:00:20',
    '00:00:20..00:00:30',
    '00:00:30..00:00:40',
    '00:00:40..00:00:50',
    '00:00:50..00:01:00',
    '00:01:00..24:00:00',
  ]);
  expect(planPacking(DATE, counts, [], 6)).toMatchObject({ overfull: 1, fewest: 5 });
});

test('two gaps that share a second are cut alike, so that one answer serves both', () => {
  const day: Day = new Map([
    [1, ['a', 'b', 'c', 'd']],
    [2, Array.from({ length: 23 }, (_, k) => `x${String(k).padStart(2, '0')}`)],
    [3, ['z1', 'z2', 'z3', 'z4', 'z5', 'z6']],
  ]);
  const covered = [{ date: DATE, from: { second: 2, id: 'x02' }, to: { second: 2, id: 'x05' } }];
  const { cuts } = planPacking(DATE, countDay(day), covered, 10);
  const windows = packToTheRow(DATE, countDay(day), covered, 10, findIds(day, cuts, 10));
  assertTiles(day, windows, covered, 'two gaps');
  expect(Math.max(...windows.map((window) => rowsIn(day, window).length))).toBeLessThanOrEqual(10);
});

test('a split of groups never cuts inside a second', () => {
  const window = { ...wholeDay(DATE), rows: 50, exact: true };
  expect(planSplit(window, [{ second: 60, rows: 50, ids: 50 }], false)).toEqual({ kind: 'impossible' });
  expect(
    planSplit(
      window,
      [
        { second: 60, rows: 9, ids: 9 },
        { second: 120, rows: 1, ids: 1 },
      ],
      false,
    ),
  ).toEqual({ kind: 'cut', at: { second: 120 } });
});

test('gaps are what no window covers, also when windows overlap', () => {
  const at = (from: number, to: number): Window => ({ date: DATE, from: { second: from }, to: { second: to } });
  expect(listGaps([at(10, 20), at(0, 5), at(15, 18)])).toEqual(
    [at(5, 10), at(20, 86_400)].map(({ from, to }) => ({ from, to })),
  );
  expect(listGaps([wholeDay(DATE)])).toEqual([]);
});

test('differences are the seconds where staged and counted ids are not the same, on either side', () => {
  const count = (second: number, ids: number) => ({ second, rows: ids + 1, ids });
  expect(findDifferences([count(1, 5), count(2, 5), count(4, 1)], [count(1, 5), count(2, 6), count(3, 1)])).toEqual([
    2, 3, 4,
  ]);
});

describe('the lookback', () => {
  const at = (instant: string) => computeLookback(Date.parse(instant));

  test.each([
    ['2026-11-20T22:00:00Z', '2026-11-05 17:00:00', '2026-11-05', '2026-11-06', '2026-11-20'],
    ['2026-11-20T21:44:59Z', '2026-11-05 16:44:59', '2026-11-05', '2026-11-06', '2026-11-19'],
    ['2026-11-20T21:45:00Z', '2026-11-05 16:45:00', '2026-11-05', '2026-11-06', '2026-11-20'],
    ['2026-11-27T18:45:00Z', '2026-11-12 13:45:00', '2026-11-12', '2026-11-13', '2026-11-27'],
    ['2026-11-20T05:00:00Z', '2026-11-05 00:00:00', '2026-11-05', '2026-11-05', '2026-11-19'],
    ['2026-11-20T05:00:00.001Z', '2026-11-05 00:00:00', '2026-11-05', '2026-11-06', '2026-11-19'],
    // Over the change of clocks the edge is 15 times 24 hours ago, not the same hour of the wall clock.
    ['2026-11-10T05:00:00Z', '2026-10-26 01:00:00', '2026-10-26', '2026-10-27', '2026-11-09'],
    ['2026-03-16T04:30:00Z', '2026-02-28 23:30:00', '2026-02-28', '2026-03-01', '2026-03-13'],
  ])('at %s begins at %s', (now, edge, clipped, firstWhole, lastSettled) => {
    expect(at(now)).toMatchObject({ edge, clipped, firstWhole, lastSettled });
  });

  test('expires a date when the edge reaches its midnight', () => {
    for (const date of ['2026-11-05', '2026-10-26', '2026-03-02', '2026-03-09']) {
      const expires = expiresAt(date);
      expect([computeLookback(expires).firstWhole, computeLookback(expires + 1).firstWhole > date], date).toEqual([
        date,
        true,
      ]);
    }
  });

  test('lists what is not sealed, soonest expiry first, without the clipped date', () => {
    expect(listUnsealed(at('2026-11-20T22:00:00Z'), new Set(['2026-11-09', '2026-11-12']))).toEqual([
      ...['2026-11-06', '2026-11-10', '2026-11-11', '2026-11-13'],
      ...['2026-11-16', '2026-11-17', '2026-11-18', '2026-11-19', '2026-11-20'],
    ]);
  });

  test('settles a session half an hour after its last trades', () => {
    expect(new Date(settledAt('2026-11-20')).toISOString()).toBe('2026-11-20T21:45:00.000Z');
    expect(new Date(settledAt('2026-11-27')).toISOString()).toBe('2026-11-27T18:45:00.000Z');
    expect(new Date(settledAt('2026-07-01')).toISOString()).toBe('2026-07-01T20:45:00.000Z');
  });
});

describe('the condition of a session', () => {
  const lookback = computeLookback(Date.parse('2026-11-20T22:00:00Z'));
  const conditions = (
    sealed: readonly [string, 'available' | 'degraded'][],
    empty: readonly string[],
    first: string | undefined,
  ) => computeConditions({ sealed: new Map(sealed), empty: new Set(empty), lookback }, first);

  test('is that of its manifest, or pending, missing or expired without one', () => {
    const found = conditions(
      [
        ['2026-11-03', 'available'],
        ['2026-11-18', 'degraded'],
      ],
      ['2026-11-17'],
      '2026-11-03',
    );
    expect([...found]).toEqual([
      ['2026-11-03', 'available'],
      ['2026-11-04', 'expired'],
      ['2026-11-05', 'expired'],
      ...['2026-11-06', '2026-11-09', '2026-11-10', '2026-11-11', '2026-11-12', '2026-11-13', '2026-11-16'].map(
        (date) => [date, 'pending'],
      ),
      ['2026-11-17', 'missing'],
      ['2026-11-18', 'degraded'],
      ['2026-11-19', 'pending'],
      ['2026-11-20', 'pending'],
    ]);
  });

  test('is no gap before the first known date', () => {
    expect([...conditions([], [], '2026-11-19').keys()]).toEqual(['2026-11-19', '2026-11-20']);
    expect([...conditions([], ['2026-11-19'], undefined)]).toEqual([]);
  });
});
