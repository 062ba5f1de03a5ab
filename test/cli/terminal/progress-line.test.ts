/** The line that shows how far a run is. What is added up is tested in `test/state/totals.test.ts`. */
import { describe, expect, it } from 'vitest';
import { describeTotals, formatProgressLine } from '../../../src/cli/terminal/progress.ts';
import type { Totals } from '../../../src/state/run-events.ts';

const TALLY: Totals = {
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
  it('has the time left, the pace, the requests left and the window at 80 columns', () => {
    expect(formatProgressLine({ ...TALLY, datesTotal: 1, datesDone: 0 }, CALM, 79)).toBe(
      '2026-11-18  17% [=---------]  9.90K/s  580 req  9m46s left  10:03:07..10:20:20',
    );
    expect(formatProgressLine({ ...TALLY, splits: 2 }, CALM, 79)).toBe(
      '2026-11-18 2/3  17%  9.90K/s  580 req  9m46s left  10:03:07..10:20:20  2 splits',
    );
    expect(formatProgressLine(TALLY, CALM, 119)).toBe(
      '2026-11-18 2/3  17% [=---------]  1.23M/7.00M rows  9.90K/s  580 req  9m46s left  10:03:07..10:20:20',
    );
  });

  it('shows the window at 80 columns whatever is usual', () => {
    for (const usual of USUAL) {
      const shown = usual.window.replace(/\+[^.]*/g, '');
      expect(formatProgressLine(usual, CALM, 79)).toContain(`  ${shown}`);
    }
  });

  it('is never wider than its room, and grows by whole parts, the most important first', () => {
    const lines = Array.from({ length: 201 }, (_, columns) =>
      formatProgressLine({ ...TALLY, splits: 2 }, BUSY, columns),
    );
    expect(lines.filter((line, columns) => line.length > columns)).toEqual([]);
    expect([...new Set(lines)]).toEqual([
      '',
      '2026-11-18',
      '2026-11-18  17%',
      '2026-11-18  17%  9m46s left',
      '2026-11-18  17%  9.90K/s  9m46s left',
      '2026-11-18  17%  9.90K/s  580 req  9m46s left',
      '2026-11-18  17%  9.90K/s  580 req  9m46s left  10:03:07..10:20:20',
      '2026-11-18  17%  9.90K/s  580 req  9m46s left  10:03:07..10:20:20  1 retry',
      '2026-11-18  17%  9.90K/s  580 req  9m46s left  10:03:07..10:20:20  1 retry  12 x 429',
      '2026-11-18  17%  9.90K/s  580 req  9m46s left  10:03:07..10:20:20  2 splits  1 retry  12 x 429',
      '2026-11-18 2/3  17%  9.90K/s  580 req  9m46s left  10:03:07..10:20:20  2 splits  1 retry  12 x 429',
      '2026-11-18 2/3  17% [=---------]  9.90K/s  580 req  9m46s left  10:03:07..10:20:20  2 splits  1 retry  12 x 429',
      '2026-11-18 2/3  17% [=---------]  1.23M/7.00M rows  9.90K/s  580 req  9m46s left  10:03:07..10:20:20  2 splits  1 retry  12 x 429',
    ]);
  });

  it('shows no character that could move the cursor', () => {
    const window = '\u001b[2J\u200b株@09:30:00..';
    expect(formatProgressLine({ ...TALLY, window }, CALM, 200)).toMatch(/ {2}\?\[2J\?\?@09:30:00\.\.$/);
    expect(formatProgressLine({ ...TALLY, window }, CALM, 79)).toMatch(/ {2}\?\[2J\?\?@09:30:00\.\.$/);
  });

  it('tells what is done beside fetching, and no total where rows are not counted beforehand', () => {
    expect(formatProgressLine({ ...TALLY, phase: 'sealing', leftMs: 0 }, CALM, 119)).toMatch(/580 req {2}sealing$/);
    expect(describeTotals({ ...TALLY, totalRows: 0 }, CALM)).toBe(
      '1.23M rows, 9.90K/s, 580 req, 9m46s left, 10:03:07..10:20:20',
    );
  });
});

/** Numbers of sessions as they are: up to 12 million rows, and up to a night of work; a bound inside a second has an id. */
const USUAL: readonly Totals[] = [1, 40, 999, 1200].flatMap((pagesLeft) =>
  [0, 950, 7_300_000, 7_199_000, 35_990_000].flatMap((leftMs) =>
    ['10:03:07..10:20:20', 'SPY@10:03:07..SPY@10:20:20', '09:30:00+8d4f6a1c..09:30:00+c0ffee00'].map((window) => ({
      ...TALLY,
      ...{ pagesLeft, leftMs, window },
      rowsPerSecond: pagesLeft * 33.3,
      totalRows: 12_000_000,
    })),
  ),
);
