/** What a run's events add up to for the progress bar: pages left, pace, time left. Drawing is the library's. */
import { expect, test } from 'vitest';
import { describeTally, ProgressTally } from '../../src/cli/progress-tally.ts';
import { createFakeClock } from '../support/fake-clock.ts';

test('time left follows the pace of the rows fetched, and staged rows count as done', () => {
  const clock = createFakeClock();
  const tally = new ProgressTally(clock);
  tally.note({ kind: 'planned', dates: ['2026-11-18', '2026-11-19'], rows: 200_000, pages: 20 });
  tally.note({ kind: 'date', date: '2026-11-18', rows: 100_000, staged: 50_000, pages: 10 });
  expect(tally.read()).toMatchObject({ totalRows: 200_000, rows: 50_000, pages: 0, pagesLeft: 15, leftMs: undefined });
  clock.advance(1000);
  tally.note({ kind: 'page', date: '2026-11-18', window: 'w', rows: 10_000 });
  expect(tally.read()).toMatchObject({ rows: 60_000, pages: 1, pagesLeft: 14, rowsPerSecond: 10_000, leftMs: 14_000 });
  expect(describeTally(tally.read())).toBe('60,000 of 200,000 rows, 14 pages left, 10,000 rows/s, 14.0 s left');
});

test('a date that turns out larger than planned makes the total grow', () => {
  const tally = new ProgressTally(createFakeClock());
  tally.note({ kind: 'planned', dates: ['2026-11-18', '2026-11-19'], rows: 200_000, pages: 20 });
  tally.note({ kind: 'date', date: '2026-11-19', rows: 300_000, staged: 0, pages: 30 });
  tally.note({ kind: 'split', date: '2026-11-19', window: 'w', reason: 'truncated' });
  expect(tally.read()).toMatchObject({ totalRows: 400_000, pagesLeft: 40, splits: 1, date: '2026-11-19' });
});
