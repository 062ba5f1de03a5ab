/** What earlier sessions tell of the end of a session. With commands: `test/flow/lagging-source.slow.test.ts`. */
import { describe, expect, it } from 'vitest';
import { parseSecond } from '../../src/calendar/wall-clock.ts';
import {
  judgeSymbols,
  judgeTimes,
  type SymbolTimes,
  shapeTimes,
  type TimeShape,
} from '../../src/plan/session-habit.ts';

const cells = (from: string, to: string, rows: number) =>
  Array.from({ length: parseSecond(to) - parseSecond(from) }, (_, k) => ({ second: parseSecond(from) + k, rows }));
const shape = (...parts: readonly (readonly { second: number; rows: number }[])[]) =>
  shapeTimes(parts.flat()) as TimeShape; // It has rows.
/** Options on indices trade on until 16:15. */
const market = (rows: number, to = '16:15:00') =>
  shape(cells('09:30:00', '16:00:00', 10 * rows), cells('16:00:00', to, rows));
const LIKE = [2, 3, 4, 3, 2].map((rows) => market(rows));

describe('the end of a session beside like sessions', () => {
  it.each([
    ['a whole day', market(3), 'ended'],
    ['a quiet day', market(1), 'ended'],
    ['a day of five times the rows', market(15), 'ended'],
    [
      'a day whose afternoon is quiet',
      shape(cells('09:30:00', '11:00:00', 90), cells('11:00:00', '16:00:00', 10), cells('16:00:00', '16:15:00', 1)),
      'ended',
    ],
    ['rows until 16:10:30', market(3, '16:10:30'), /^0 rows from 16:10:30 on/],
    ['rows until 16:00:30', market(3, '16:00:30'), /^0 rows from 16:00:30 on/],
    [
      'half a day and one row at the close',
      shape(cells('09:30:00', '12:00:00', 30), [{ second: parseSecond('16:14:59'), rows: 1 }]),
      /^1 rows from 12:00:00 on/,
    ],
    ['a source behind since the opening', shape(cells('09:30:00', '09:50:00', 30)), /^0 rows from 09:50:00 on/],
    [
      'the first seconds alone',
      shape(cells('09:30:00', '09:30:20', 1)),
      /^20 rows, where .* before have 4\d{5} or more/,
    ],
    [
      'the first seconds and one row at the close',
      shape(cells('09:30:00', '09:30:20', 1), [{ second: parseSecond('16:14:59'), rows: 1 }]),
      /^21 rows, where/,
    ],
  ])('of %s', (_, today, found) => {
    const verdict = judgeTimes(today, LIKE);
    if (found instanceof RegExp) expect(verdict).toMatchObject({ says: expect.stringMatching(found) });
    else expect(verdict).toBe(found);
  });

  it('is shown by late trades of stock options where like sessions have no more', () => {
    const late = (to: string) => shape(cells('09:30:00', '16:00:00', 10), cells('16:00:00', to, 3));
    expect(judgeTimes(late('16:03:20'), [late('16:03:00'), late('16:04:10'), late('16:03:30')])).toBe('ended');
  });

  it('is told of a thin day by where its rows lie', () => {
    const spread = (count: number, to: string) => {
      const first = parseSecond('09:30:05');
      const secondOf = (k: number) => first + Math.floor((k * (parseSecond(to) - first)) / (count - 1));
      return shape(Array.from({ length: count }, (_, k) => ({ second: secondOf(k), rows: 1 })));
    };
    const like = [400, 380, 420].map((count) => spread(count, '15:59:50'));
    expect(judgeTimes(spread(22, '15:59:50'), like)).toBe('ended');
    const stray = shape(cells('09:30:00', '09:30:21', 1), [{ second: parseSecond('15:59:50'), rows: 1 }]);
    expect(judgeTimes(stray, like)).toMatchObject({ says: expect.stringMatching(/^1 rows from 09:30:\d0 on/) });
    expect(judgeTimes(spread(22, '12:00:00'), like)).toMatchObject({ found: 0 });
  });

  it('is not told where sessions have a few rows', () => {
    const thin = (to: string) => shape(cells('09:30:00', to, 1).filter(({ second }) => second % 1800 === 0));
    const like = [1, 2, 3].map(() => thin('15:31:00'));
    expect(judgeTimes(thin('11:00:00'), like)).toBeUndefined();
    expect(judgeTimes(thin('15:31:00'), like)).toBe('ended');
  });

  it('is not told by two sessions, and one odd session of five hides nothing', () => {
    expect(judgeTimes(market(3, '16:00:30'), LIKE.slice(0, 2))).toBeUndefined();
    const odd = [...LIKE.slice(1), market(3, '16:00:10')];
    expect(judgeTimes(market(3, '16:00:30'), odd)).toMatchObject({ found: 0 });
  });

  it('lacks symbols where one in ten or more stopped, not where a rare one did', () => {
    const timesOf = (each: number, last: string): SymbolTimes => {
      const halfHours = [...Array.from({ length: 13 }, () => each), 0];
      return { trades: 13 * each, lastTrade: parseSecond(last), halfHours };
    };
    const [times, rare] = [timesOf(30, '15:59:50'), timesOf(1, '15:50:00')];
    const names = Array.from({ length: 20 }, (_, k) => `S${k}`);
    const like = [1, 2, 3].map(() => new Map([...names.map((name) => [name, times] as const), ['RARE', rare]]));
    const today = (stopped: number) => {
      const early = { rows: 300, last: parseSecond('14:30:00') };
      const late = { rows: 390, last: parseSecond('15:59:00') };
      const others = names.map((name, k) => [name, k < stopped ? early : late] as const);
      return new Map([...others, ['RARE', { rows: 5, last: parseSecond('11:00:00') }]]);
    };
    expect(judgeSymbols(today(1), like, parseSecond('16:15:00'))).toBeUndefined();
    expect(judgeSymbols(today(10), like, parseSecond('16:15:00'))?.says).toMatch(
      /^10 of 20 symbols have no rows after 14:30:00 .*: S0, S1, S2, …$/,
    );
    expect(judgeSymbols(today(10), like.slice(1), parseSecond('16:15:00'))).toBeUndefined();
  });
});
