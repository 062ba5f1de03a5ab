/** The line that shows how far a run is. What is added up is tested in `test/run/tally.test.ts`. */
import { describe, expect, it } from 'vitest';
import { describeTally, formatProgressLine } from '../../../src/cli/run/progress-line.ts';
import type { Tally } from '../../../src/run/tally.ts';

const TALLY: Tally = {
  date: '2026-11-18',
  phase: 'fetching',
  window: '10:03:07..10:20:20',
  totalRows: 7_000_000,
  rows: 1_234_567,
  share: 0.1763,
  pages: 123,
  pagesLeft: 580,
  splits: 0,
  datesDone: 1,
  datesTotal: 3,
  rowsPerSecond: 9_900,
  leftMs: 586_000,
};
const CALM = { retries: 0, rateLimited: 0 };
const BUSY = { retries: 1, rateLimited: 12 };

describe('the progress line', () => {
  it('says everything where there is room', () => {
    expect(formatProgressLine({ ...TALLY, splits: 2 }, BUSY, 200)).toBe(
      '2026-11-18 (2 of 3)  17 % [===-----------------]  1,234,567 of 7,000,000 rows  9,900 rows/s  580 requests left  9 min 46 s left  10:03:07..10:20:20  2 splits  1 retry  12 x 429',
    );
  });

  it('keeps the window at 120 columns, and gives it up at 80', () => {
    expect(formatProgressLine(TALLY, CALM, 119)).toBe(
      '2026-11-18 2/3  17 % [==----------]  1.23M/7.00M rows  9.90K/s  580 req  9 min 46 s  10:03:07..10:20:20',
    );
    expect(formatProgressLine({ ...TALLY, splits: 2 }, CALM, 79)).toBe(
      '2026-11-18 2/3  17 %  1.23M/7.00M rows  9.90K/s  580 req  9 min 46 s  2 splits',
    );
  });

  it.each([10, 40, 60, 80, 100, 120, 200])('is never wider than %i columns', (columns) => {
    for (const splits of [0, 12_345]) {
      const window = 'BRK.B@09:30:00+00000000-0000-0000-0000-000000000000..';
      const line = formatProgressLine({ ...TALLY, splits, window }, BUSY, columns);
      expect(line.length).toBeLessThanOrEqual(columns);
    }
  });

  it('shows no character that could move the cursor', () => {
    const window = '\u001b[2J\u200b株@09:30:00..';
    expect(formatProgressLine({ ...TALLY, window }, CALM, 200)).toMatch(/ {2}\?\[2J\?\?@09:30:00\.\.$/);
  });

  it('tells what is done beside fetching, and no total where rows are not counted beforehand', () => {
    expect(formatProgressLine({ ...TALLY, phase: 'sealing', leftMs: 0 }, CALM, 119)).toMatch(
      /580 requests left {2}sealing$/,
    );
    expect(describeTally({ ...TALLY, totalRows: 0 }, CALM)).toBe(
      '1,234,567 rows, 9,900 rows/s, 580 requests left, 9 min 46 s left, 10:03:07..10:20:20',
    );
  });
});
