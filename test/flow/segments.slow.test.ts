/**
 * The segments of a trading day, from the source to the store and the report, with either way of dating the evening: each
 * session has its own night and curb, whole days, a half day and the Monday after it. The rule by minutes is what
 * docs/formulas.md says.
 */
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { FlowReport } from '../../src/report/model.ts';
import { useCleanups } from '../support/cleanups.ts';
import { queryDuckDb } from '../support/drop.ts';
import { flowdrop } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { startRawSource, toRaw } from '../support/raw-source.ts';
import { createTrade, type TradeRow } from '../support/trades.ts';

const { folder, keep } = useCleanups();
const engine = await keep(openEmbeddedEngine());

let count = 0;
/** A trade of $100 x size. */
function print(symbol: string, date: string, time: string, size: number, spot = 100): TradeRow {
  count += 1;
  const series = { option_symbol: `${symbol}261218C00100000`, strike: 100, expiration_date: '2026-12-18' };
  const money = { size, price: 1, premium: size * 100, underlying_price: spot, oi: 1000, gamma: 0.05 };
  return createTrade(count, { symbol, put_call: 'CALL', date, time, ...series, ...money });
}

const EVENINGS = { 'own day': true, session: false };

/** $10,000 from the early to the late segment of a whole day, $6,000 of a half day; $500 overnight, $400 in the curb. */
function listSession(date: string, evening: string, close: number, byOwnDay: boolean): readonly TradeRow[] {
  const at = (hour: number, rest: string) => `${date} ${String(hour).padStart(2, '0')}:${rest}`;
  const whole = close === 16;
  return [
    print('SPX', byOwnDay ? evening : date, `${evening} 20:30:00`, 2, 900),
    print('SPX', date, at(3, '00:00'), 2, 900),
    print('SPX', date, at(8, '00:00'), 1, 900),
    print('AAPL', date, at(8, '00:00'), 5),
    print('SPX', date, at(9, '30:00'), 20),
    print('SPX', date, at(12, '59:59'), 20),
    ...(whole ? [print('SPX', date, at(15, '59:59'), 40)] : []),
    print('AAPL', date, at(close, '05:00'), 5),
    print('SPX', date, at(close, '14:59'), 9),
    print('SPY', date, at(close, '15:30'), 1),
    // Too late for a report of its last second.
    print('SPY', date, at(close, '16:00'), 1),
    print('SPX', date, at(close, '15:30'), 2, 900),
    print('SPX', date, at(16, '59:59'), 1, 900),
  ];
}

/** Seals these dates of a source with these rows, by a job whose report watches SPX. */
async function backfill(rows: readonly TradeRow[], from: string, to: string) {
  const source = await keep(startRawSource(engine, rows.map(toRaw), { rowLimit: 1000, now: `${to}T23:15:00Z` }));
  const cwd = await folder();
  const reports = 'reports:\n  - template: flow\n    to: [desk@example.com]\n    symbols: [SPX]';
  const [job, { env }] = [await writeJob(cwd, { reports }), source];
  await flowdrop(['backfill', job, '--from', from, '--to', to], { cwd, env, code: 0 });
  return { cwd, env, job };
}

it.each([
  ['2026-02-06', '2026-02-09', ['overnight', 'overnight', 'regular'], ['overnight', 'overnight', 'curb']],
  ['2026-07-10', '2026-07-13', ['overnight', 'overnight', 'curb'], ['early', 'overnight', 'curb']],
])('a session has the segments that the exchanges had on its date: %s and %s', async (from, to, before, after) => {
  const rows = [from, to].flatMap((date) => [
    ...[print('AAPL', date, `${date} 08:00:00`, 1), print('RUT', date, `${date} 08:00:00`, 1)],
    print('RUT', date, `${date} 16:15:30`, 1),
  ]);
  const { cwd } = await backfill(rows, from, to);
  const found = await queryDuckDb(
    `SELECT segment FROM read_parquet('${cwd}/drops/_flowdrop/trades/session=*/summary.parquet', hive_partitioning = false) WHERE session_date <> '' AND symbol <> '' ORDER BY session_date, symbol, last_trade_second`,
  );
  expect(found.map(({ segment }) => segment)).toEqual([...before, ...after]);
});

it.each(Object.entries(EVENINGS))(
  'a report is of its session, with evenings dated by their %s',
  async (_, byOwnDay) => {
    const rows = [
      ...listSession('2026-11-24', '2026-11-23', 16, byOwnDay),
      ...listSession('2026-11-25', '2026-11-24', 16, byOwnDay),
      ...listSession('2026-11-27', '2026-11-26', 13, byOwnDay),
      ...listSession('2026-11-30', '2026-11-29', 16, byOwnDay),
      print('SPX', byOwnDay ? '2026-11-30' : '2026-12-01', '2026-11-30 17:00:00', 50, 900),
    ];
    const { cwd, env, job } = await backfill(rows, '2026-11-23', '2026-11-30');
    const read = async (date: string) => {
      const args = ['--json', 'report', job, '--date', date, '--preview', join(cwd, 'preview')];
      const preview = await flowdrop(args, { cwd, env, code: 0 });
      const [report] = JSON.parse(preview.stdout) as readonly FlowReport[];
      const { total } = report?.comparison.changes ?? {};
      const spot = report?.watchlist[0]?.exposure?.spot;
      return { ...report?.besides, halfDay: report?.halfDay, before: report?.comparison.previousDate, ...total, spot };
    };
    const besides = { overnight: { trades: 3, premium: 500 }, curb: { trades: 3, premium: 400 }, spot: 100 };
    const whole = { ...besides, halfDay: undefined, latest: 10_000 };
    expect(await read('2026-11-25')).toMatchObject({ ...whole, before: '2026-11-24', previous: 10_000 });
    const halfDay = { ...besides, halfDay: '13:00', latest: 6000, before: '2026-11-25' };
    // Of 6 3/4 hours it has 3 3/4.
    expect(await read('2026-11-27')).toMatchObject({ ...halfDay, previous: expect.closeTo((10_000 * 15) / 27, 6) });
    expect(await read('2026-11-30')).toMatchObject({ ...whole, before: '2026-11-25', previous: 10_000 });

    const summary = `read_parquet('${cwd}/drops/_flowdrop/trades/session=*/summary.parquet', hive_partitioning = false)`;
    const [sums] = await queryDuckDb(
      `SELECT sum(CASE WHEN segment = '' THEN total_premium END) AS whole, sum(CASE WHEN segment <> '' THEN total_premium END) AS parts FROM ${summary} WHERE symbol = ''`,
    );
    expect(sums?.['parts']).toBe(sums?.['whole']);
    const segments = await queryDuckDb(
      `SELECT symbol, segment, sum(trades)::INTEGER AS trades FROM ${summary} WHERE session_date = '2026-11-27' GROUP BY ALL ORDER BY ALL`,
    );
    expect(segments.map((row) => Object.values(row))).toEqual([
      ['', 'curb', 3],
      ['', 'early', 1],
      ['', 'late', 1],
      ['', 'overnight', 3],
      ['', 'regular', 4],
      ['AAPL', 'early', 1],
      ['AAPL', 'late', 1],
      ['SPX', 'curb', 2],
      ['SPX', 'overnight', 3],
      ['SPX', 'regular', 3],
      ['SPY', 'curb', 1],
      ['SPY', 'regular', 1],
    ]);
  },
);
