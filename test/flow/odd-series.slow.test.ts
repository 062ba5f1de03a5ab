/**
 * One record does not decide a symbol, from the source to the report: prints without an id beside cancel messages of
 * others, prices and series that are odd, and index series that settled at the opening. On random days:
 * `test/report/naive.slow.test.ts`.
 */
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { FlowReport } from '../../src/report/model.ts';
import { useCleanups } from '../support/cleanups.ts';
import { flowdrop } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { startRawSource, toRaw } from '../support/raw-source.ts';
import { createTrade, type TradeRow } from '../support/trades.ts';

/** A monthly expiration. */
const DAY = '2026-11-20';
const SPOT = 75.5;
const GEX = 0.05 * 1000 * 100 * SPOT ** 2 * 0.01;

const { folder, keep } = useCleanups();
const engine = await keep(openEmbeddedEngine());

let count = 0;
function print(symbol: string, clock: string, changes: TradeRow = {}): TradeRow {
  count += 1;
  const standard = { put_call: 'CALL', strike: 20, oi: 1000, size: 10, price: 2, premium: 2000, gamma: 0.05 };
  const series = { option_symbol: `${symbol}261218C00020000`, underlying_price: SPOT };
  return createTrade(count, { symbol, date: DAY, time: `${DAY} ${clock}`, ...standard, ...series, ...changes });
}

it('counts each contract by its key, its usual records and its settlement', async () => {
  const seven = (symbol: string, price: number) =>
    Array.from({ length: 7 }, () => print(symbol, '10:00:00', { id: '', price, premium: price * 1000 }));
  const cancelled = { strike: 20.100000000000005, option_symbol: 'PAD   261218C00020100' };
  const expiring = { expiration_date: DAY };
  const rows = [
    ...seven('IDA', 2.5),
    ...seven('IDB', 2.6),
    print('OTHER', '11:00:00', { price: 2.6, premium: 2600 }),
    print('OTHER', '11:00:03', { price: 2.6, premium: 2600, option_activity_type: 'CANC' }),
    print('PAD', '12:00:00', { strike: 20.1, option_symbol: 'PAD261218C00020100' }),
    print('PAD', '12:00:01', { ...cancelled, option_activity_type: 'CANC' }),
    print('PAD', '13:00:00'),
    print('SDS', '12:00:00'),
    print('SDS', '15:59:58', { option_symbol: 'SDS1261218C00020000', underlying_price: SPOT / 5 }),
    ...['10:00:00', '12:00:00', '14:00:00'].map((clock) => print('QSTM', clock)),
    print('QSTM', '16:14:00', { underlying_price: 10 * SPOT, gamma: 5, oi: 900_000 }),
    print('FEW', '12:00:00', { premium: 500 }),
    print('SPX', '12:00:00', { ...expiring, option_symbol: 'SPX261120C00020000', oi: 1_000_000 }),
    print('SPX', '12:00:00', { ...expiring, option_symbol: 'SPXW261120C00020000' }),
  ];
  const source = await keep(startRawSource(engine, rows.map(toRaw), { rowLimit: 1000, now: `${DAY}T23:15:00Z` }));
  const cwd = await folder();
  const symbols = ['IDA', 'IDB', 'PAD', 'SDS', 'QSTM', 'FEW', 'SPX'];
  const job = await writeJob(cwd, {
    reports: `reports:\n  - template: flow\n    to: [desk@example.com]\n    symbols: [${symbols.join(', ')}]`,
  });
  await flowdrop(['run', job], { cwd, env: source.env, code: 0 });
  const preview = await flowdrop(['--json', 'report', job, '--preview', join(cwd, 'preview')], {
    cwd,
    env: source.env,
  });
  const [report] = JSON.parse(preview.stdout) as FlowReport[];
  const watched = new Map(report?.watchlist.map((row) => [row.symbol, row]));
  expect(watched.get('IDA')?.flow?.total).toBe(17_500);
  expect(watched.get('IDB')?.flow?.total).toBe(18_200);
  expect(watched.get('PAD')?.flow?.trades).toBe(1);
  for (const symbol of ['SDS', 'QSTM', 'SPX']) expect(watched.get(symbol)?.exposure?.netGex).toBeCloseTo(GEX, 4);
  expect(watched.get('FEW')?.exposure?.netGex).toBeCloseTo(GEX / 4, 4);
  expect(report?.exposure.oddPrices).toEqual({ records: 1, symbols: ['QSTM'] });
  expect(report?.expiries.find(({ bucket }) => bucket === '0DTE')?.trades).toBe(1);
}, 240_000);
