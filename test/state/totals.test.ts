/** What a run's events add up to: pages left, pace, time left. How it is shown is tested in `test/cli`. */
import { expect, test } from 'vitest';
import { createTotals } from '../../src/state/run-events.ts';
import { createFakeClock } from '../support/fake-clock.ts';

test('time left follows the pace of the rows fetched, and staged rows count as done', () => {
  const clock = createFakeClock();
  const totals = createTotals(clock);
  totals.note({ kind: 'planned', dates: ['2026-11-18', '2026-11-19'], rows: 200_000, pages: 20 });
  totals.note({ kind: 'date', date: '2026-11-18', rows: 100_000, staged: 50_000, pages: 10 });
  expect(totals.read()).toMatchObject({ totalRows: 200_000, rows: 50_000, pages: 0, pagesLeft: 15, leftMs: undefined });
  clock.advance(1000);
  totals.note({ kind: 'page', date: '2026-11-18', window: 'w', rows: 10_000 });
  expect(totals.read()).toMatchObject({ rows: 60_000, pages: 1, pagesLeft: 14, rowsPerSecond: 10_000, leftMs: 14_000 });
});

test('a date that turns out larger than planned makes the total grow', () => {
  const totals = createTotals(createFakeClock());
  totals.note({ kind: 'planned', dates: ['2026-11-18', '2026-11-19'], rows: 200_000, pages: 20 });
  totals.note({ kind: 'date', date: '2026-11-19', rows: 300_000, staged: 0, pages: 30 });
  totals.note({ kind: 'split', date: '2026-11-19', window: 'w', reason: 'truncated' });
  expect(totals.read()).toMatchObject({ totalRows: 400_000, pagesLeft: 40, splits: 1, date: '2026-11-19' });
});

test('sealing costs no pace, and what a failed date lacks is no longer waited for', () => {
  const clock = createFakeClock();
  const totals = createTotals(clock);
  totals.note({ kind: 'phase', date: '', phase: 'planning' });
  totals.note({ kind: 'planned', dates: ['2026-11-18', '2026-11-19'], rows: 20_000, pages: 20 });
  expect(totals.read()).toMatchObject({ phase: 'planning', datesDone: 0, datesTotal: 2, date: '', share: 0 });
  totals.note({ kind: 'date', date: '2026-11-18', rows: 10_000, staged: 0, pages: 10 });
  clock.advance(1000);
  totals.note({ kind: 'page', date: '2026-11-18', window: '09:30:00..09:31:00', rows: 1_000 });
  totals.note({ kind: 'phase', date: '2026-11-18', phase: 'sealing' });
  clock.advance(60_000);
  expect(totals.read()).toMatchObject({ phase: 'sealing', rowsPerSecond: 1_000, window: '09:30:00..09:31:00' });
  totals.note({ kind: 'failed', date: '2026-11-18', reason: 'down' });
  expect(totals.read()).toMatchObject({ totalRows: 11_000, rows: 1_000, pagesLeft: 10, datesDone: 1, leftMs: 10_000 });
});

test('without a count beforehand the time left follows the pages', () => {
  const clock = createFakeClock();
  const totals = createTotals(clock);
  totals.note({ kind: 'planned', dates: ['2026-11-18'], rows: undefined, pages: 4 });
  totals.note({ kind: 'date', date: '2026-11-18', rows: undefined, staged: 0, pages: 4 });
  clock.advance(1000);
  totals.note({ kind: 'page', date: '2026-11-18', window: 'SPY', rows: 7_000 });
  expect(totals.read()).toMatchObject({ totalRows: 0, rows: 7_000, share: 0.25, pagesLeft: 3, leftMs: 3_000 });
});
