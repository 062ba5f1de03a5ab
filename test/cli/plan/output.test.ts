/** The tables of `flowdrop plan`. What is planned and priced is tested in `plan` and `flow`. */
import { describe, expect, it } from 'vitest';
import { describePlan, describePlans, priceDates, totalDates } from '../../../src/cli/plan.ts';
import { createStyle, measureWidth } from '../../../src/cli/terminal/text.ts';
import type { PlanDocument } from '../../../src/state/documents.ts';

const NOW = Date.parse('2026-11-20T22:00:00Z');
const HOUR_MS = 3_600_000;

/** The busiest plan that the columns must hold: ten million rows a date, at one request a second. */
function planOf(expiresInMs: readonly number[]): PlanDocument {
  const work = expiresInMs.map((ms, index) => ({
    date: `2026-11-${String(10 + index)}`,
    rows: 10_000_000,
    pages: 1000,
    counts: index === 0 ? [] : undefined,
    expiresAtMs: NOW + ms,
  }));
  const dates = [...priceDates(work, { nowMs: NOW, waitMs: 0, intervalMs: 1000, countRequests: 1, rowBytes: 700 })];
  return {
    job: 'nightly-trades',
    server_time: new Date(NOW).toISOString(),
    lookback_edge: '2026-11-06 17:00:00',
    earliest_date: '2026-11-07',
    row_limit: 10_000,
    sealed: 1,
    in_part: [],
    dates,
    total: totalDates(dates),
    without_rows: ['2026-11-02', '2026-11-03', '2026-11-04', '2026-11-05', '2026-11-06'],
    held: [],
  };
}

describe('a plan', () => {
  const plan = planOf([HOUR_MS, HOUR_MS / 2, Number.POSITIVE_INFINITY]);

  it('says of each date when it is done, one after the other, and what it takes of its budget', () => {
    expect(plan.dates.map((date) => [date.requests, date.done_at, date.share_of_budget])).toEqual([
      [1001, '2026-11-20T22:16:41.000Z', 1001 / 3600],
      [1002, '2026-11-20T22:33:23.000Z', 2003 / 1800],
      [1002, '2026-11-20T22:50:05.000Z', null],
    ]);
  });

  it('has totals: the last to be done, the tightest budget, and how many are too late', () => {
    expect(plan.total).toEqual({
      dates: 3,
      rows: 30_000_000,
      estimated: true,
      requests: 3005,
      seconds: 3005,
      bytes: 21_000_000_000,
      done_at: '2026-11-20T22:50:05.000Z',
      share_of_budget: 2003 / 1800,
      too_late: 1,
    });
    expect(describePlan(plan)).toMatch(/^total +~30,000,000 +3,005 +50:05 +17:50 +1 LATE$/m);
  });

  it('marks what would expire before its turn in words, and in red where there are colours', () => {
    const text = describePlan(plan);
    expect(text).toMatch(/^2026-11-11 .* TOO LATE +in 30 min$/m);
    expect(text).toMatch(/^2026-11-10 .* 28% +in 1 h$/m);
    expect(text).toMatch(/^2026-11-12 .* never$/m);
    expect(text).toContain('TOO LATE: 1 date would begin to expire');
    expect(describePlan(plan, createStyle(true))).toContain('\u001b[31mTOO LATE\u001b[39m');
  });

  it('fits into 80 cells, also when it takes days, and no line ends in spaces', () => {
    const long = planOf(Array.from({ length: 10 }, () => 400 * HOUR_MS));
    for (const text of [describePlan(long), describePlan(plan), describePlans([long, plan], plan.total)]) {
      const table = text.split('\n').filter((line) => /^(date|job|total|nightly|-|\d{4})/.test(line));
      expect(table.length).toBeGreaterThan(3);
      for (const line of table) expect(measureWidth(line)).toBeLessThanOrEqual(80);
      expect(text).not.toMatch(/ $/m);
    }
  });

  it('of nothing says so', () => {
    const none = { ...plan, dates: [], total: totalDates([]) };
    expect(describePlan(none)).toContain('Nothing to fetch.');
    expect(none.total).toMatchObject({ dates: 0, done_at: null, too_late: 0 });
    expect(describePlans([none, plan], plan.total)).toMatch(/^nightly-trades +0 +0 +0:00$/m);
  });
});
