/** What a run's events add up to: pages left, pace, time left. How it is shown is tested in `test/cli`. */
import { expect, test } from 'vitest';
import { ProgressTally } from '../../src/state/totals.ts';
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
});

test('a date that turns out larger than planned makes the total grow', () => {
  const tally = new ProgressTally(createFakeClock());
  tally.note({ kind: 'planned', dates: ['2026-11-18', '2026-11-19'], rows: 200_000, pages: 20 });
  tally.note({ kind: 'date', date: '2026-11-19', rows: 300_000, staged: 0, pages: 30 });
  tally.note({ kind: 'split', date: '2026-11-19', window: 'w', reason: 'truncated' });
  expect(tally.read()).toMatchObject({ totalRows: 400_000, pagesLeft: 40, splits: 1, date: '2026-11-19' });
});

test('sealing costs no pace, and what a failed date lacks is no longer waited for', () => {
  const clock = createFakeClock();
  const tally = new ProgressTally(clock);
  tally.note({ kind: 'phase', date: '', phase: 'planning' });
  tally.note({ kind: 'planned', dates: ['2026-11-18', '2026-11-19'], rows: 20_000, pages: 20 });
  expect(tally.read()).toMatchObject({ phase: 'planning', datesDone: 0, datesTotal: 2, date: '', share: 0 });
  tally.note({ kind: 'date', date: '2026-11-18', rows: 10_000, staged: 0, pages: 10 });
  clock.advance(1000);
  tally.note({ kind: 'page', date: '2026-11-18', window: '09:30:00..09:31:00', rows: 1_000 });
  tally.note({ kind: 'phase', date: '2026-11-18', phase: 'sealing' });
  clock.advance(60_000);
  expect(tally.read()).toMatchObject({ phase: 'sealing', rowsPerSecond: 1_000, window: '09:30:00..09:31:00' });
  tally.note({ kind: 'failed', date: '2026-11-18', reason: 'down' });
  expect(tally.read()).toMatchObject({ totalRows: 11_000, rows: 1_000, pagesLeft: 10, datesDone: 1, leftMs: 10_000 });
});

test('without a count beforehand the time left follows the pages', () => {
  const clock = createFakeClock();
  const tally = new ProgressTally(clock);
  tally.note({ kind: 'planned', dates: ['2026-11-18'], rows: undefined, pages: 4 });
  tally.note({ kind: 'date', date: '2026-11-18', rows: undefined, staged: 0, pages: 4 });
  clock.advance(1000);
  tally.note({ kind: 'page', date: '2026-11-18', window: 'SPY', rows: 7_000 });
  expect(tally.read()).toMatchObject({ totalRows: 0, rows: 7_000, share: 0.25, pagesLeft: 3, leftMs: 3_000 });
});
