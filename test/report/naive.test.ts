/**
 * The report's numbers against a second implementation in plain loops, over random days; and the printed query, run by
 * DuckDB over the same file. Seeds are fixed, so that a failure can be looked at again.
 */
import { DuckDBInstance } from '@duckdb/node-api';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import type { SealedDrop } from '../../src/report/drop.ts';
import { buildFlowReport, type FlowReport } from '../../src/report/flow.ts';
import { readPremium } from '../../src/report/premium.ts';
import { createDropFolder, createTrade, type Trade, writeDrop } from './drop-file.ts';

const options = { symbols: ['S0', 'S14', 'NONE'], now: new Date('2026-11-19T22:32:00Z'), job: 'nightly-trades' };

describe.each([1, 2, 3])('random day %i', (seed) => {
  const trades = createRandomDay(seed, 4000);
  let engine: Engine;
  let folder: Awaited<ReturnType<typeof createDropFolder>>;
  let drop: SealedDrop;
  let report: FlowReport;

  beforeAll(async () => {
    engine = await openEmbeddedEngine();
    folder = await createDropFolder();
    drop = await writeDrop(engine, folder.path, `day-${seed}`, trades);
    report = await buildFlowReport(engine, drop, options);
  });
  afterAll(async () => {
    await engine.close();
    await folder.remove();
  });

  it('premium by calls, puts and sentiment agrees with plain loops', () => {
    expectPremium(report.headline, trades);
  });

  it('the half hours agree with plain loops', () => {
    for (const slot of report.halfHours) {
      expectPremium(
        slot,
        trades.filter((trade) => startOf(trade.time) === slot.start),
      );
    }
    expect(report.halfHours.reduce((sum, slot) => sum + slot.trades, 0)).toBe(trades.length);
  });

  it('the top symbols agree with plain loops, in order', () => {
    const bySymbol = groupBy(trades, (trade) => trade.symbol);
    const sums = [...bySymbol].map(([symbol, own]) => ({ symbol, own, total: sum(own, (trade) => trade.premium) }));
    sums.sort((a, b) => b.total - a.total);
    expect(report.topSymbols.map((flow) => flow.symbol)).toEqual(sums.slice(0, 10).map((entry) => entry.symbol));
    for (const flow of report.topSymbols) expectPremium(flow, bySymbol.get(flow.symbol) ?? []);
    expect(report.symbolCount).toBe(bySymbol.size);
  });

  it('the watchlist has its symbols in the order asked for', () => {
    expect(report.watchlist.map((watched) => watched.symbol)).toEqual(options.symbols);
    expectPremium(
      report.watchlist[1]?.flow,
      trades.filter((trade) => trade.symbol === 'S14'),
    );
    expect(report.watchlist[2]).toEqual({ symbol: 'NONE', flow: null, gex: null });
  });

  it('the biggest trades are the ten largest by premium', () => {
    const sorted = [...trades].sort((a, b) => b.premium - a.premium || compare(a.time, b.time) || compare(a.id, b.id));
    expect(report.biggestTrades.map((trade) => trade.id)).toEqual(sorted.slice(0, 10).map((trade) => trade.id));
  });

  it('GEX per symbol and in total agrees with plain loops', () => {
    const naive = computeGex(trades);
    for (const row of [...report.gex.top, ...report.gex.focus]) {
      const own = naive.get(row.symbol);
      expectClose(row.call, own?.call ?? Number.NaN);
      expectClose(row.put, own?.put ?? Number.NaN);
      expect(row.contracts).toBe(own?.contracts);
    }
    expectClose(
      report.gex.total.net,
      sum([...naive.values()], (own) => own.call + own.put),
      1e-8,
    );
    const largest = [...naive].sort(([, a], [, b]) => Math.abs(b.call + b.put) - Math.abs(a.call + a.put));
    expect(report.gex.top.map((row) => row.symbol)).toEqual(largest.slice(0, 10).map(([symbol]) => symbol));
  });

  it('the printed query in DuckDB gives the headline numbers', async () => {
    const instance = await DuckDBInstance.create(':memory:');
    const connection = await instance.connect();
    try {
      await connection.run(`SET file_search_path = '${folder.path}'`);
      const [row] = (await connection.runAndReadAll(report.rebuildQuery)).getRowObjects();
      expectSame(readPremium(toNumbers(row)), report.headline);
    } finally {
      connection.closeSync();
      instance.closeSync();
    }
  });

  it('the printed query in ClickHouse gives the headline numbers', async () => {
    const here = report.rebuildQuery.replace(`"day-${seed}.parquet"`, `"${drop.path}"`).replace(/;$/, '');
    const [row] = await engine.rows<Parameters<typeof readPremium>[0] & object>(here);
    expectSame(readPremium(row), report.headline);
  });
});

type Sums = FlowReport['headline'];

function expectPremium(actual: Sums | null | undefined, trades: readonly Trade[]): void {
  const premium = (of: (trade: Trade) => boolean) => sum(trades.filter(of), (trade) => trade.premium);
  const volume = (of: (trade: Trade) => boolean) => sum(trades.filter(of), (trade) => trade.size);
  const isCall = (trade: Trade) => trade.put_call === 'CALL';
  const isPut = (trade: Trade) => trade.put_call === 'PUT';
  const isCancel = (trade: Trade) => trade.option_activity_type === 'CANC';
  expect(actual).not.toBeNull();
  expectSame(actual as Sums, {
    trades: trades.length,
    contracts: volume(() => true),
    callContracts: volume(isCall),
    putContracts: volume(isPut),
    total: premium(() => true),
    calls: premium(isCall),
    puts: premium(isPut),
    bullish: premium((trade) => trade.sentiment === 'BULLISH'),
    bearish: premium((trade) => trade.sentiment === 'BEARISH'),
    neutral: premium((trade) => !['BULLISH', 'BEARISH'].includes(trade.sentiment)),
    putCallByPremium: trades.some(isCall) ? premium(isPut) / premium(isCall) : null,
    putCallByVolume: trades.some(isCall) ? volume(isPut) / volume(isCall) : null,
    cancels: trades.filter(isCancel).length,
    cancelled: premium(isCancel),
  });
}

function expectSame(actual: Sums, expected: Sums): void {
  for (const [name, value] of Object.entries(expected)) {
    const own = actual[name as keyof Sums];
    if (value === null || own === null) expect(own, name).toBe(value);
    else expectClose(own, value);
  }
}

/** Relative, as sums of doubles depend on their order. */
function expectClose(actual: number, expected: number, tolerance = 1e-9): void {
  expect(Math.abs(actual - expected)).toBeLessThanOrEqual(tolerance * Math.max(1, Math.abs(expected)));
}

function computeGex(trades: readonly Trade[]): Map<string, { call: number; put: number; contracts: number }> {
  const ordered = [...trades].sort((a, b) => compare(a.time, b.time) || compare(a.id, b.id));
  const spots = new Map<string, number>();
  const latest = new Map<string, Trade>();
  for (const trade of ordered) {
    if (trade.underlying_price > 0) spots.set(trade.symbol, trade.underlying_price);
    latest.set(trade.option_symbol, trade);
  }
  const exposures = new Map<string, { call: number; put: number; contracts: number }>();
  for (const { symbol, gamma, oi, put_call } of latest.values()) {
    const own = exposures.get(symbol) ?? { call: 0, put: 0, contracts: 0 };
    const dollars = gamma * oi * 100 * (spots.get(symbol) ?? 0) ** 2 * 0.01;
    if (put_call === 'CALL') own.call += dollars;
    else own.put -= dollars;
    own.contracts += 1;
    exposures.set(symbol, own);
  }
  return exposures;
}

function createRandomDay(seed: number, count: number): readonly Trade[] {
  const random = createRandom(seed);
  const pick = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T;
  return Array.from({ length: count }, (_, index) => {
    const symbol = `S${Math.floor(random() * random() * 20)}`;
    const call = random() < 0.6;
    const strike = 50 + Math.floor(random() * 12) * 2.5;
    const size = 1 + Math.floor(random() * 300);
    const price = Math.round(random() * 2000) / 100;
    // Whole minutes, so that many records of a contract share their time.
    const seconds = 34_200 + Math.floor(random() * random() * 405) * 60;
    return createTrade({
      // Ids of different lengths, so that their order as texts matters.
      id: String(Math.floor(random() * 1e6) * count + index),
      symbol,
      time: `2026-11-19 ${clock(seconds)}`,
      put_call: call ? 'CALL' : 'PUT',
      strike,
      option_symbol: `${symbol}261120${call ? 'C' : 'P'}${String(strike * 1000).padStart(8, '0')}`,
      option_activity_type: pick(['AUTO', 'SLAN', 'MLET', 'CANC']),
      oi: Math.floor(random() * 50_000),
      size,
      price,
      premium: price * size * 100,
      underlying_price: random() < 0.05 ? 0 : 40 + random() * 60,
      gamma: random() * 0.1,
      sentiment: pick(['BULLISH', 'BEARISH', 'NEUTRAL', '']),
    });
  });
}

/** A small generator of numbers in [0, 1) (mulberry32). */
function createRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

function clock(seconds: number): string {
  return new Date(seconds * 1000).toISOString().slice(11, 19);
}

function startOf(time: string): string {
  return `${time.slice(11, 13)}:${Number(time.slice(14, 16)) < 30 ? '00' : '30'}`;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function sum<T>(values: readonly T[], of: (value: T) => number): number {
  return values.reduce((total, value) => total + of(value), 0);
}

function groupBy(trades: readonly Trade[], key: (trade: Trade) => string): Map<string, Trade[]> {
  const groups = new Map<string, Trade[]>();
  for (const trade of trades) groups.set(key(trade), [...(groups.get(key(trade)) ?? []), trade]);
  return groups;
}

function toNumbers(row: Readonly<Record<string, unknown>> | undefined): Parameters<typeof readPremium>[0] {
  const numbers = Object.entries(row ?? {}).map(([name, value]) => [name, Number(value)]);
  return Object.fromEntries(numbers) as Parameters<typeof readPremium>[0];
}
