/**
 * The report's numbers against published totals of one real session, and at the edges: no trades, one trade, records
 * without prices, a file that is not the sealed one. Random days against a second implementation: `naive.test.ts`.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { buildFlowReport, type FlowReport } from '../../src/report/flow.ts';
import { TRADE_COLUMNS } from '../../src/wire/trade.ts';
import { createDropFolder, createTrade, hasVixDay, readVixDay, VIX_MISSING, writeDrop } from './drop-file.ts';

const options = { symbols: [], now: new Date('2026-11-19T22:32:00Z'), job: 'nightly-trades' };
let engine: Engine;
let folder: Awaited<ReturnType<typeof createDropFolder>>;

beforeAll(async () => {
  engine = await openEmbeddedEngine();
  folder = await createDropFolder();
});
afterAll(async () => {
  await engine.close();
  await folder.remove();
});

// Skipped only where the real day is not at hand; the title then says so.
describe.skipIf(!hasVixDay)(hasVixDay ? 'a real session of VIX options' : VIX_MISSING, () => {
  let report: FlowReport;
  beforeAll(async () => {
    const drop = await writeDrop(engine, folder.path, 'vix', readVixDay());
    report = await buildFlowReport(engine, drop, { ...options, symbols: ['VIX', 'SPY'] });
  });

  it('has the published premium totals', () => {
    const { headline } = report;
    expect(headline).toMatchObject({ trades: 2295, contracts: 306_679 });
    expect(headline.total).toBeCloseTo(22_724_231, 2);
    expect(headline.calls).toBeCloseTo(13_397_856, 2);
    expect(headline.puts).toBeCloseTo(9_326_375, 2);
    expect(headline.bullish).toBeCloseTo(4_678_012, 2);
    expect(headline.bearish).toBeCloseTo(3_674_655, 2);
    expect(headline.neutral).toBeCloseTo(14_371_564, 2);
    expect(headline.putCallByPremium).toBeCloseTo(9_326_375 / 13_397_856, 12);
  });

  it('counts the one cancel message and its premium', () => {
    expect(report.headline).toMatchObject({ cancels: 1, cancelled: 39_600 });
  });

  it('covers the session in half hours without a hole', () => {
    expect(report.halfHours.map((slot) => slot.start)).toEqual([
      ...['09:30', '10:00', '10:30', '11:00', '11:30', '12:00', '12:30', '13:00'],
      ...['13:30', '14:00', '14:30', '15:00', '15:30', '16:00'],
    ]);
    expect(report.halfHours.reduce((sum, slot) => sum + slot.total, 0)).toBeCloseTo(22_724_231, 2);
  });

  it('prices GEX at the last positive price of the underlying', () => {
    expect(report.gex.top).toHaveLength(1);
    expect(report.gex.top[0]).toMatchObject({ symbol: 'VIX', contracts: 230 });
    expect(report.gex.top[0]?.spot).toBeGreaterThan(14);
    expect(report.gex.total.net).toBe(report.gex.total.call + report.gex.total.put);
  });

  it('shows a watched symbol that did not trade as such', () => {
    expect(report.watchlist.map(({ symbol, flow }) => [symbol, flow?.place ?? null])).toEqual([
      ['VIX', 1],
      ['SPY', null],
    ]);
  });

  it('is plain JSON and names no local path', () => {
    expect(JSON.parse(JSON.stringify(report))).toEqual(report);
    expect(JSON.stringify(report)).not.toContain(folder.path);
  });
});

describe('the edges of a day', () => {
  it('an empty day has zeros, no ratios and no rows', async () => {
    const report = await buildFlowReport(engine, await writeDrop(engine, folder.path, 'empty', []), options);
    expect(report.headline).toMatchObject({ trades: 0, total: 0, neutral: 0, putCallByPremium: null });
    expect(report).toMatchObject({ halfHours: [], topSymbols: [], biggestTrades: [], symbolCount: 0 });
    expect(report.gex).toMatchObject({ top: [], total: { call: 0, put: 0, net: 0, contracts: 0 } });
  });

  it('a single trade is readable as a contract, with its exposure by the formula', async () => {
    const drop = await writeDrop(engine, folder.path, 'single', [createTrade()]);
    const report = await buildFlowReport(engine, drop, options);
    expect(report.biggestTrades).toMatchObject([{ contract: 'SPY 2026-11-20 600 C', time: '09:30:02', size: 10 }]);
    expect(report.gex.total.net).toBeCloseTo(0.02 * 1000 * 100 * 601.5 ** 2 * 0.01, 6);
    expect(report.headline.putCallByVolume).toBe(0);
  });

  it('a symbol without any price of the underlying is left out of GEX and counted', async () => {
    const trades = [createTrade(), createTrade({ id: '2', symbol: 'XYZ', underlying_price: 0, bid: 0, ask: 0 })];
    const drop = await writeDrop(engine, folder.path, 'unpriced', trades);
    const report = await buildFlowReport(engine, drop, { ...options, symbols: ['XYZ'] });
    expect(report.gex.unpricedSymbols).toBe(1);
    expect(report.gex.top.map((row) => row.symbol)).toEqual(['SPY']);
    expect(report.watchlist[0]?.gex).toMatchObject({ spot: null, net: 0 });
  });

  it('of one second, the record with the greater id is the latest', async () => {
    const [nine, ten] = [createTrade({ id: '9', oi: 7 }), createTrade({ id: '10', oi: 5 })];
    for (const [name, trades] of [['tie', [nine, ten]] as const, ['tie-reversed', [ten, nine]] as const]) {
      const report = await buildFlowReport(engine, await writeDrop(engine, folder.path, name, trades), options);
      expect(report.gex.total.call).toBeCloseTo(0.02 * 7 * 601.5 ** 2, 6);
    }
  });

  it('a symbol with quotes and backslashes can be watched', async () => {
    const symbol = `A'b\\c"--`;
    const drop = await writeDrop(engine, folder.path, 'quotes', [createTrade({ symbol })]);
    const report = await buildFlowReport(engine, drop, { ...options, symbols: [symbol] });
    expect(report.watchlist[0]?.flow?.total).toBe(1250);
  });
});

describe('a file that the report refuses', () => {
  it('with other rows than were sealed', async () => {
    const drop = await writeDrop(engine, folder.path, 'differs', [createTrade()]);
    await expect(buildFlowReport(engine, { ...drop, rows: 2 }, options)).rejects.toMatchObject({
      code: 'REPORT_DROP_DIFFERS',
    });
  });

  it('without a column that it needs, naming it', async () => {
    const columns = TRADE_COLUMNS.filter((column) => column.name !== 'gamma');
    const drop = await writeDrop(engine, folder.path, 'narrow', [createTrade()], columns);
    await expect(buildFlowReport(engine, drop, options)).rejects.toMatchObject({
      code: 'REPORT_COLUMNS_MISSING',
      kind: 'usage',
      message: expect.stringContaining('gamma'),
    });
  });
});
