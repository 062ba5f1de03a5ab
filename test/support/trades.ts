/** Trade rows in the API's shape, made from a few numbers, for the tests of the stage and of the seal. */

import type { Window } from '../../src/calendar/window.ts';
import type { JsonRows } from '../../src/core/json-bytes.ts';
import type { SqlJob } from '../../src/job/job.ts';
import type { Stage } from '../../src/stage/stage.ts';
import { parseSqlJob } from './jobs.ts';

export const DATE = '2026-11-19';

export type TradeRow = Readonly<Record<string, unknown>>;

export function createJob(extra = ''): SqlJob {
  return parseSqlJob('job.yaml', `name: trades\nsource: {api: historical}\ndrop: {to: out, dataset: trades${extra}}\n`);
}

/** Row `k` of a day: 30 rows a second from 09:30:00 on, 400 symbols in no order. */
export function createTrade(k: number, changes: TradeRow = {}): TradeRow {
  const h = Math.imul(k + 1, 2_654_435_761) >>> 0;
  const at = 34_200 + Math.floor(k / 30);
  const two = (value: number) => String(value).padStart(2, '0');
  const time = `${DATE} ${two(Math.floor(at / 3600))}:${two(Math.floor(at / 60) % 60)}:${two(at % 60)}`;
  // One flat literal: tests make hundreds of thousands of these.
  return {
    id: `${h.toString(16).padStart(8, '0')}-${k}`,
    symbol: `SYM${h % 400}`,
    date: DATE,
    time,
    put_call: h % 2 ? 'PUT' : 'CALL',
    strike: (h % 1000) / 2,
    expiration_date: '2026-12-18',
    option_activity_type: 'AUTO',
    underlying_type: h % 7 ? 'STOCK' : '',
    oi: h % 1000,
    size: 1 + (h % 50),
    price: (h % 977) / 100,
    underlying_price: 100.25,
    bid: 1,
    bid_size: 1,
    ask: 1.5,
    ask_size: 3,
    iv: 0.25,
    premium: h % 100_000,
    sentiment: 'NEUTRAL',
    trade_count: 1,
    expiry_days: 29,
    delta: 0.5,
    vega: 0.1,
    theta: -0.1,
    rho: 0.01,
    exchange: 'CBOE',
    daily_volume: 100,
    earning_date: h % 3 ? '' : '2026-12-01',
    updated_timestamp: String(1_795_000_000_000 + k),
    market_cap: h % 5 ? '123456789012' : '',
    option_symbol: `SYM${h % 400}261218C00100000`,
    side: 'MID',
    moneyness: 'ATM',
    gamma: 0.01,
    dex: 1.5,
    dei: 50,
    ...changes,
  };
}

/** The first rows of a day. @param change what is otherwise of row `k` */
export function createTrades(count: number, change: (k: number) => TradeRow = () => ({})): readonly TradeRow[] {
  return Array.from({ length: count }, (_, k) => createTrade(k, change(k)));
}

export function createPage(rows: readonly TradeRow[]): JsonRows {
  return { data: Buffer.from(JSON.stringify(rows)), rows: rows.length, firstRow: rows[0] };
}

/** A window of its own for every page; its bounds mean nothing to the stage. */
export function windowAt(second: number): Window {
  return { date: DATE, from: { second }, to: { second: second + 1 } };
}

/** Stages rows `[0, count)` in pages of 10,000. */
export async function stageTrades(stage: Stage, count: number, pageRows = 10_000): Promise<void> {
  for (let from = 0; from < count; from += pageRows) {
    const rows = Array.from({ length: Math.min(pageRows, count - from) }, (_, i) => createTrade(from + i));
    await stage.put(windowAt(from / pageRows), createPage(rows));
  }
}
