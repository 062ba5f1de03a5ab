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
  it('says everything where there is room', () => {
    expect(formatProgressLine({ ...TALLY, splits: 2 }, BUSY, 200)).toBe(
      '2026-11-18 2/3  17% [===-----------------]  1.23M/7.00M rows  9.90K/s  580 req  9m46s left  10:03:07..10:20:20  2 splits  1 retry  12 x 429',
    );
  });

  it('has the time left, the pace, the requests left and the window at 80 columns', () => {
    expect(formatProgressLine({ ...TALLY, datesTotal: 1, datesDone: 0 }, CALM, 79)).toBe(
      '2026-11-18  17% [=----------]  9.90K/s  580 req  9m46s left  10:03:07..10:20:20',
    );
    expect(formatProgressLine({ ...TALLY, splits: 2 }, CALM, 79)).toBe(
      '2026-11-18 2/3  17%  9.90K/s  580 req  9m46s left  10:03:07..10:20:20  2 splits',
    );
    expect(formatProgressLine({ ...TALLY, splits: 2 }, BUSY, 79)).toBe(
      '2026-11-18 2/3  17%  9.90K/s  580 req  9m46s left  10:03:07..10:20:20  1 retry',
    );
    expect(formatProgressLine(TALLY, CALM, 119)).toBe(
      '2026-11-18 2/3  17% [===-----------------]  1.23M/7.00M rows  9.90K/s  580 req  9m46s left  10:03:07..10:20:20',
    );
  });

  it('shows the window at 80 columns whatever is usual', () => {
    for (const usual of USUAL) {
      const shown = usual.window.replace(/\+[^.]*/g, '');
      expect(formatProgressLine(usual, CALM, 79)).toContain(`  ${shown}`);
    }
  });

  it('is never wider than its room, and no part of it is cut, at 20 to 200 columns', () => {
    const wrong: string[] = [];
    let drawn = 0;
    for (const totals of [...USUAL, ...UNUSUAL]) {
      for (const stats of [CALM, BUSY, { retries: 123_456, rateLimited: 99_999 }]) {
        const whole = new Set(split(formatProgressLine(totals, stats, 500)).slice(1));
        for (let columns = 20; columns <= 200; columns += 1) {
          const line = formatProgressLine(totals, stats, columns);
          const [head = '', ...parts] = split(line);
          const isWhole = HEAD.test(head) && parts.every((part) => whole.has(part));
          if (!isWhole || line.length > columns) wrong.push(`${columns}: ${line}`);
          drawn += 1;
        }
      }
    }
    expect(wrong).toEqual([]);
    expect(drawn).toBeGreaterThan(30_000);
  });

  it('leaves out the least of worth first: where a part is missing, no lesser one takes its room', () => {
    const order = [/ left\b/, /\/s\b/, / req\b/, /10:03:07\.\.10:20:20/, /1 retry/, /12 x 429/, /2 splits/];
    for (let columns = 20; columns <= 110; columns += 1) {
      const line = formatProgressLine({ ...TALLY, splits: 2 }, BUSY, columns);
      const missing = order.findIndex((part) => !part.test(line));
      // A lesser part is there only when the one that is missing is wider than it and what is left of the line.
      const spare = columns - line.length;
      const widths = [12, 9, 9, 20, 9, 10, 10];
      if (missing >= 0) expect(spare, line).toBeLessThan(widths[missing] ?? 0);
    }
  });

  it('says only what is whole on a terminal of a few columns', () => {
    expect(formatProgressLine(TALLY, CALM, 12)).toBe('2026-11-18');
    expect(formatProgressLine(TALLY, CALM, 9)).toBe('');
    expect(formatProgressLine(TALLY, CALM, 0)).toBe('');
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

/** Its date, place among the dates, percentage and bar. */
const HEAD = /^2026-11-18( \d+\/\d+)? {1,3}\d{1,3}%( \[[=-]{6,20}\])?$/;

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

const UNUSUAL: readonly Totals[] = [
  { ...TALLY, window: '', leftMs: undefined, datesTotal: 0, datesDone: 0, share: 0, rows: 0, totalRows: 0 },
  { ...TALLY, window: 'BRK%2EB@09:30:00+00000000-0000-0000-0000-000000000000..VERYLONG@15:59:59', splits: 12_345 },
  { ...TALLY, share: 1, phase: 'recounting', pagesLeft: 0, splits: 1, datesTotal: 1_000, datesDone: 1_000 },
  { ...TALLY, pagesLeft: 123_456_789, rowsPerSecond: 1e12, leftMs: 1e12, totalRows: 1e13, rows: 9e12 },
];

/** Two spaces part what is said; one digit's percentage has three before it. */
function split(line: string): readonly string[] {
  const [, head = '', rest = ''] = /^(.*?%(?: \[[=-]*\])?)(?: {2}(.*))?$/.exec(line) ?? [];
  return [head, ...(rest === '' ? [] : rest.split('  '))];
}
