/** Windows of both axes: their texts, their order. Packing and splitting are tested in `test/plan`. */
import { describe, expect, test } from 'vitest';
import {
  type Bound,
  compareBounds,
  DAY_END,
  DAY_START,
  formatWindow,
  isEmptyWindow,
  isOverlapping,
  parseWindow,
  wholeDay,
} from '../../src/calendar/window.ts';

const DATE = '2026-11-19';

describe('the text of a window', () => {
  const ids = ['', '..', '+', '%', '%2E', "o'neil", '"', '\\', 'ü🚀', 'a..b+c%25', '\u0000\n', '/', ' é'.repeat(50)];

  test.each(ids)('is read back with the id "%s" on either side', (id) => {
    for (const window of [
      { date: DATE, from: { second: 34_200, id }, to: { second: 34_201 } },
      { date: DATE, from: { second: 0 }, to: { second: 86_399, id } },
      { date: DATE, from: { second: 5, id: 'x' }, to: { second: 5, id } },
      { date: DATE, from: { symbol: id, second: 5 }, to: { symbol: 'SPY', second: 86_400 } },
      { date: DATE, from: { symbol: 'BRK.B', second: 5, id }, to: { symbol: id, second: 7, id: 'x' } },
    ]) {
      const text = formatWindow(window);
      expect(parseWindow(DATE, text)).toEqual(window);
      expect(text).toMatch(/^[\x20-\x7e]+$/);
      expect(text).not.toMatch(/['"\\]/);
    }
  });

  test('of a whole day is from midnight to midnight', () => {
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

test('bounds with symbols are ordered by symbol first, between the ends of the day', () => {
  const symbols = ['', 'A', 'AA', 'B'].flatMap((symbol) => [0, 5, 86_400].map((second) => ({ symbol, second })));
  const bounds: Bound[] = [DAY_START, ...symbols, DAY_END];
  expect([...bounds].reverse().sort(compareBounds)).toEqual(bounds);
});

test('windows overlap when a row can lie in both, not when they touch', () => {
  const at = (from: number, to: number) => ({ from: { second: from }, to: { second: to } });
  expect(isOverlapping(at(1, 3), at(2, 4))).toBe(true);
  expect(isOverlapping(at(1, 2), at(2, 4))).toBe(false);
  expect(isOverlapping({ from: { second: 2, id: 'm' }, to: { second: 2, id: 'p' } }, at(2, 3))).toBe(true);
});

test('a window without room for a row is empty', () => {
  expect(isEmptyWindow({ from: { second: 2, id: 'b' }, to: { second: 2, id: 'a' } })).toBe(true);
  expect(isEmptyWindow({ from: { second: 2, id: 'b' }, to: { second: 2 } })).toBe(true);
  expect(isEmptyWindow({ from: { second: 2 }, to: { second: 2, id: 'a' } })).toBe(false);
});
