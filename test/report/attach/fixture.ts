/** Flow reports of fixed days for the tests of the attachments, made from `model-fixture.ts`: what their files are to show. */

import type { SymbolExposure } from '../../../src/report/exposure-model.ts';
import type { BigTrade, FlowReport, SymbolFlow } from '../../../src/report/model.ts';
import { pickDay } from '../days.ts';
import {
  createPremium,
  createSymbolExposure,
  createSymbolFlow,
  createTrade,
  createUnusual,
  createReport as createUsualReport,
} from '../model-fixture.ts';

/** Texts that a spreadsheet, a parser of CSV, or a page could stumble over. */
export const HOSTILE_TEXTS = [
  "=cmd()|' /C calc'!A0",
  '+1+1',
  '-2+3',
  '@SUM(A1:A9)',
  '\t=1+1',
  '\r=1+1',
  'a;=HYPERLINK("http://example.com")',
  'two\r\nlines, "quoted"',
  ' ＝1+1',
  'Ünï日本😀',
  '<script>alert(1)</script>',
  'nul\0inside',
  '\u202egnp.exe',
  'x'.repeat(300),
  '"',
  '',
] as const;

function createFlow(symbol: string, place: number): SymbolFlow {
  const total = 1_000_000_000 / place + 0.1;
  const mix = { calls: 0.62, bullish: 0.41, bearish: 0.27, trades: Math.round(total / 1000) };
  return createSymbolFlow(symbol, place, { total, ...mix });
}

function createExposure(symbol: string): SymbolExposure {
  const strikes = Array.from({ length: 60 }, (_, index) => ({
    strike: 570 + index + (index % 2) / 2,
    callGex: 1e8 + index * 1e6,
    putGex: -9e7 - index * 2e6,
    netGex: 1e7 - index * 1e6,
    netGexAfter: 5e6,
  }));
  return createSymbolExposure(symbol, {
    ...{ spot: 601.37, zeroGamma: 598.25, callWall: 610, putWall: 590, absoluteGammaStrike: 600, strikes },
    ...{ callGex: 1.2e10, putGex: -1.5e10, netGex: -3e9, callDex: 4e10, putDex: -2.5e10, netDex: 1.5e10 },
    marketStructure: { intradayGex: -2.8e9, difference: 0.0667, explanation: '' },
  });
}

function createBigTrade(index: number, symbol: string): BigTrade {
  return createTrade({
    ...{ id: `90071992547409930${index}`, time: '15:59:59', symbol, contract: `${symbol} 2026-11-20 600 C` },
    ...{ size: 5000 + index, price: 12.35, premium: 6_175_000 + index, side: 'ASK', sentiment: 'BULLISH' },
    ...{ openInterest: 12_000, days: 1, activityType: 'ISOI', multiLeg: index % 2 === 1, sweep: true },
    ...(index === 0 ? { spot: null, impliedVolatility: null } : {}),
  });
}

/** @param symbols underlyings of the day, largest first */
export function createReport(symbols: readonly string[] = ['SPY', 'QQQ', 'NVDA']): FlowReport {
  const flows = symbols.map((symbol, index) => createFlow(symbol, index + 1));
  const [lead = ''] = symbols;
  const exposure = createExposure(lead);
  const usual = createUsualReport({ headline: createPremium({ total: 1_240_000_000.25, trades: 1_240_000 }) });
  return {
    ...usual,
    createdAt: '2026-11-19T22:45:10.123Z',
    drop: {
      ...usual.drop,
      revision: 2,
      rows: 1_234_567,
      min_time: '2026-11-19 09:30:02',
      max_time: '2026-11-19 16:14:59',
      sha256: 'ab'.repeat(32),
    },
    topSymbols: flows,
    mostBullish: flows.slice(0, 2),
    mostBearish: [createFlow('TLT', 40)],
    unusual: [createUnusual(lead, 2.857142857142857, 1e9, 3)],
    biggestTrades: Array.from({ length: 10 }, (_, index) =>
      createBigTrade(index, symbols[index % symbols.length] ?? ''),
    ),
    exposure: {
      total: exposure,
      unpricedSymbols: 3,
      top: [exposure, { ...createExposure('VIX'), spot: null }],
      focus: [exposure],
      lead: exposure,
    },
    watchlist: [
      { symbol: 'IWM', flow: createFlow('IWM', 12), exposure: null, unusual: null },
      { symbol: 'NONE', flow: null, exposure: null, unusual: null },
    ],
    rebuildQueries: [
      { table: 'Headline', sql: "SELECT count(*) AS trades,\n  sum(premium)\nFROM 'trades.parquet'" },
      { table: 'Symbols', sql: "SELECT symbol, sum(premium)\nFROM 'trades.parquet' GROUP BY symbol ORDER BY 2 DESC" },
    ],
  };
}

/** A day as a real one, with a watchlist of five and a note: every table is as long as it becomes. */
export function createLongReport(): FlowReport {
  const watched = ['SPX', 'SPY', 'QQQ', 'NVDA', 'TSLA'];
  const dates = Array.from({ length: 12 }, (_, index) => `2026-12-${index + 10}`);
  const {
    expirations: [expiration],
    pains: [pain],
    ...one
  } = createExposure('SPX');
  if (expiration === undefined || pain === undefined) throw new RangeError('an exposure has expirations');
  const focus = watched.map((symbol) => ({
    ...{ ...one, symbol, isWholeChain: true },
    expirations: dates.map((expirationDate) => ({ ...expiration, expirationDate })),
    pains: dates.map((expirationDate) => ({ ...pain, expirationDate, charm: 8e5 })),
  }));
  const report = createUsualReport({
    exposure: { total: one, unpricedSymbols: 0, top: focus, focus, lead: focus[0] ?? null },
  });
  const trades = Array.from({ length: 10 }, (_, index) => createBigTrade(index, 'SPX'));
  const volatility = { days: 9, atTheMoney: 0.162, strike: 600, skew: 0.012, expectedMove: 12.5 };
  const contract = { premium: 9e6, trades: 12, volume: 4_000, openInterest: 43, bullish: 8e6, bearish: 1e6 };
  const opened = { premium: 9e6, volume: 4_000, before: 43, after: 3_900 };
  const contracts = trades.map((trade) => ({ symbol: trade.symbol, contract: trade.contract }));
  return {
    ...report,
    biggestTrades: trades,
    biggestSweeps: trades,
    biggestLeftOut: trades.map((trade) => ({ record: 'late report', ...trade })),
    topContracts: contracts.map((names) => ({ ...names, ...contract })),
    opened: contracts.map((names) => ({ ...names, ...opened })),
    volatility: focus.flatMap(({ symbol }) =>
      dates.map((expirationDate) => ({ symbol, expirationDate, ...volatility })),
    ),
  };
}

export function createHostileReport(): FlowReport {
  const report = createReport(HOSTILE_TEXTS);
  return {
    ...report,
    drop: { ...report.drop, location: `s3://${'bucket'.repeat(60)}/\r\n\u202etrades.parquet` },
    rebuildQueries: [{ table: '=1+1', sql: `SELECT '${'long'.repeat(100)}',\r\n\t'\u0007\u202e' FROM drop` }],
  };
}

export function createEmptyReport(): FlowReport {
  const { drop } = createReport();
  return {
    ...pickDay('no-trades').report,
    drop: { ...drop, condition: 'degraded', rows: 0, min_time: null, max_time: null },
    drivers: { bullish: null, bearish: null, top: [] },
    biggestSweeps: [],
    biggestLeftOut: [],
    watchlist: [],
    rebuildQueries: [],
  };
}
