/** Which last rows show that a session is over: whole days, half days, index options, thin tables, odd times. */
import { describe, expect, it } from 'vitest';
import { parseSecond } from '../../src/calendar/wall-clock.ts';
import type { DayCounts } from '../../src/plan/counts.ts';
import { readLastRows, showsEnd } from '../../src/plan/session-end.ts';
import { parseSqlJob } from '../support/jobs.ts';
import { createJob } from '../support/trades.ts';

const DATE = '2026-11-20';
const HALF_DAY = '2026-11-27';
const TRADES = createJob();

/** So many rows in every second from 09:30 to a time, both included. */
function until(time: string, rows: number, everySeconds = 1): DayCounts {
  const cells = [];
  for (let at = parseSecond('09:30:00'); at <= parseSecond(time); at += everySeconds) {
    cells.push({ second: at, rows, ids: rows, mark: '' });
  }
  return cells;
}
function isShown(counts: DayCounts, { date = DATE, isWholeTable = false, job = TRADES } = {}): boolean | undefined {
  const rows = readLastRows(job, date, counts);
  return rows && showsEnd(date, rows, isWholeTable);
}

describe('the end of a session', () => {
  it.each([
    ['the whole market, with index options', until('16:14:59', 300), true],
    ['stock options alone', until('15:59:59', 300), true],
    [
      'stock options and some late reports',
      [...until('15:59:59', 300), { second: parseSecond('16:03:00'), rows: 40, ids: 40, mark: '' }],
      true,
    ],
    ['a market whose index options are still to come', until('16:04:59', 300), false],
    ['the middle of the day', until('11:45:00', 300), false],
    ['minutes before the close', until('15:55:00', 300), false],
    ['a symbol that traded seldom', until('15:40:00', 1, 600), false],
    ['nothing', [], false],
  ])('as %s show it', (_, counts, shown) => {
    expect(isShown(counts)).toBe(shown);
  });

  it('on a half day is three hours earlier', () => {
    expect(isShown(until('13:14:59', 300), { date: HALF_DAY })).toBe(true);
    expect(isShown(until('12:59:59', 300), { date: HALF_DAY })).toBe(true);
    expect(isShown(until('12:30:00', 300), { date: HALF_DAY })).toBe(false);
    expect(isShown(until('13:14:59', 300))).toBe(false);
  });

  it('of a whole table with few rows is shown by any row of its last quarter of an hour', () => {
    const thin = until('15:50:00', 1, 300);
    expect(isShown(thin, { isWholeTable: true })).toBe(true);
    expect(isShown(thin)).toBe(false);
    expect(isShown(until('15:50:00', 300), { isWholeTable: true })).toBe(false);
  });

  it('is not shown by a row whose time no trade can have', () => {
    const odd = { second: parseSecond('23:59:59'), rows: 1, ids: 1, mark: '' };
    expect(isShown([...until('11:45:00', 300), odd])).toBe(false);
  });

  it('cannot be told from counts by symbol, or by groups as long as a day', () => {
    expect(isShown([{ symbol: 'SPY', second: 0, rows: 1, ids: 1, mark: '' }])).toBeUndefined();
    const daily = parseSqlJob(
      'job.yaml',
      'name: d\nsource:\n  api: historical\n  sql: SELECT symbol, date AS day, count() AS n FROM RawOptionTrades WHERE {window} GROUP BY symbol, day\n  grain: day\n  time: day\n  split: [symbol]\n  types: {n: int64}\ndrop: {to: out, dataset: d}\n',
    );
    expect(isShown([{ second: 0, rows: 1, ids: 1, mark: '' }], { job: daily })).toBeUndefined();
  });
});
