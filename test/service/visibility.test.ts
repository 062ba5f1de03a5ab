/**
 * Which rows are visible: delay, lookback, earliest date, the latest date, and that no query can tell what the hidden
 * ones hold.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startTestService, type TestService } from './running-service.ts';

const ROWS = 4_000;
const MINUTE_MS = 60_000;
/** 13:00 in New York. */
const MIDDAY = '2026-11-19T18:00:00Z';
const HIDDEN = "time > '2026-11-19 12:45:59'";

let service: TestService;

beforeAll(async () => {
  // At midday the last closed session is the 18th; the generator is asked in the evening, and the clock moved back.
  service = await startTestService({ generateSessions: 14, generateRows: ROWS, seed: 3 });
  service.advance(Date.parse(MIDDAY) - Date.parse('2026-11-19T23:15:00Z'));
});
afterAll(() => service.stop());

async function readFirst(sql: string): Promise<Record<string, unknown>> {
  const reply = await service.ask(sql);
  expect(reply.status, reply.text.slice(0, 300)).toBe(200);
  return reply.body.data[0];
}

describe('visible rows', () => {
  test('are at least 15 minutes old, and no older than that', async () => {
    const { last } = await readFirst('SELECT max(time) AS last FROM RawOptionTrades');
    expect(last).toMatch(/^2026-11-19 12:4[45]:/);
  });

  test('reach back 15 days to the second', async () => {
    const { first, dates } = await readFirst(
      'SELECT min(time) AS first, uniqExact(date) AS dates FROM RawOptionTrades',
    );
    expect(first).toMatch(/^2026-11-04 13:0\d:/);
    expect(dates).toBe(12);
  });

  test('of the latest-date view are those of the latest visible date', async () => {
    const { first, last, trades } = await readFirst(
      'SELECT min(date) AS first, max(date) AS last, count() AS trades FROM RawOptionTradesMaxDateOnlyMV',
    );
    const { expected } = await readFirst("SELECT count() AS expected FROM RawOptionTrades WHERE date = '2026-11-19'");
    expect([first, last, trades]).toEqual(['2026-11-19', '2026-11-19', expected]);
  });

  test('are those of the day before until the first trade of the day is 15 minutes old', async () => {
    const toMorning = -(3 * 60 + 20) * MINUTE_MS;
    service.advance(toMorning);
    const { last } = await readFirst('SELECT max(date) AS last FROM RawOptionTradesMaxDateOnlyMV');
    expect(last).toBe('2026-11-18');
    service.advance(10 * MINUTE_MS);
    const { last: next } = await readFirst('SELECT max(date) AS last FROM RawOptionTradesMaxDateOnlyMV');
    expect(next).toBe('2026-11-19');
    service.advance(-10 * MINUTE_MS - toMorning);
  });
});

/** Each of these fails on a hidden row, if it is ever evaluated on one. */
const TRAPS: readonly string[] = [
  `toInt32(if(${HIDDEN}, 'boom', '1')) = 1`,
  `toInt32(if(${HIDDEN} AND size > 3, 'boom', '1')) = 1`,
  `intDiv(1, NOT (${HIDDEN})) = 1`,
  `toDate(concat(if(${HIDDEN}, 'b', '2016-01-01'), '')) > '2010-01-01'`,
  `length(range(toUInt64(if(${HIDDEN}, 100000000000, 1)))) = 1`,
];
const CONDITIONS: readonly string[] = [
  "date = '2026-11-19'",
  "symbol = 'SPY'",
  "put_call = 'PUT'",
  'size > 3',
  "side = 'ASK'",
];

describe('hidden rows', () => {
  test.each(TRAPS)('are not told apart by a failing expression: %s', async (trap) => {
    for (let taken = 0; taken <= CONDITIONS.length; taken += 1) {
      for (const table of ['RawOptionTrades', 'RawOptionTradesMaxDateOnlyMV']) {
        const filter = [...CONDITIONS.slice(0, taken), trap].join(' AND ');
        const reply = await service.ask(`SELECT count(), sum(size), max(price) FROM ${table} WHERE ${filter}`);
        expect([filter, reply.status]).toEqual([filter, 200]);
      }
    }
  });

  test('are not there for joins, subqueries, aggregates, windows and functions of the boundaries redefined', async () => {
    for (const sql of [
      ...['lessOrEquals', 'greaterOrEquals', 'and'].map(
        (name) => `WITH (a, b) -> 1 AS ${name} SELECT countIf(${HIDDEN}) AS n FROM RawOptionTrades`,
      ),
      `SELECT count() AS n FROM RawOptionTrades a JOIN RawOptionTrades b ON a.id = b.id WHERE b.${HIDDEN}`,
      `SELECT count() AS n FROM RawOptionTrades WHERE id IN (SELECT id FROM RawOptionTrades WHERE ${HIDDEN})`,
      `SELECT countIf(${HIDDEN}) AS n FROM RawOptionTrades`,
      `SELECT max(c) AS n FROM (SELECT countIf(${HIDDEN}) OVER () AS c FROM RawOptionTrades)`,
    ]) {
      expect((await readFirst(sql))['n'], sql).toBe(0);
    }
  });
});
