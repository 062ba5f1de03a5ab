/**
 * Report models of fixed days, for everything that shows a report: typed, plausible, and the same in every run. What
 * the engine computes from a sealed file is tested in `flow.test.ts`; here only the shape and the consistency of the
 * model's sums count.
 */

import { type Change, compareLevels, readLevels } from '../../src/report/changes.ts';
import type { Exposure, StrikeGex } from '../../src/report/exposure-model.ts';
import type {
  BigTrade,
  Comparison,
  Exclusions,
  ExpiryBucket,
  FlowReport,
  HalfHour,
  MoneynessBucket,
  SymbolFlow,
  UnusualSymbol,
} from '../../src/report/model.ts';
import { readKeyNumbers } from '../../src/report/number-values.ts';
import { forCompared, type PremiumPart } from '../../src/report/numbers.ts';
import { type KnownExposure, type KnownGex, type KnownPremium, known } from './known.ts';

/** What makes the sums of one day or symbol: the total in dollars, the rest fractions of it. */
interface Mix {
  readonly total: number;
  readonly calls: number;
  readonly bullish: number;
  readonly bearish: number;
  readonly trades: number;
}

export function createPremium(mix: Partial<Mix> = {}): KnownPremium {
  const { total, calls, bullish, bearish, trades } = {
    ...{ total: 1_240_000_000, calls: 0.62, bullish: 0.31, bearish: 0.22, trades: 812_345 },
    ...mix,
  };
  const contracts = Math.round(total / 190);
  const callContracts = Math.round(contracts * (calls * 0.9 + 0.03));
  const [callDollars, putDollars] = [total * calls, total * (1 - calls)];
  return {
    trades,
    unpriced: 0,
    unsized: 0,
    contracts,
    callContracts,
    putContracts: contracts - callContracts,
    total,
    calls: callDollars,
    puts: putDollars,
    netCalls: callDollars * (bullish - bearish) * 0.8,
    netPuts: putDollars * (bearish - bullish) * 0.6,
    bullish: total * bullish,
    bearish: total * bearish,
    neutral: total * (1 - bullish - bearish),
    putCallByPremium: callDollars > 0 ? putDollars / callDollars : null,
    putCallByVolume: callContracts > 0 ? (contracts - callContracts) / callContracts : null,
    zeroDte: total * 0.382,
    multiLeg: total * 0.213,
    sweep: total * 0.147,
  };
}

export const NO_PREMIUM: KnownPremium = {
  ...createPremium({ total: 0, calls: 0, trades: 0 }),
  putCallByPremium: null,
  putCallByVolume: null,
};

export function createSymbolFlow(symbol: string, place: number, mix: Partial<Mix> = {}): SymbolFlow & KnownPremium {
  return { symbol, place, ...createPremium(mix) };
}

/** Premium through the day: much at the open and at the close; `weights` says how much. */
export function createHalfHours(day: KnownPremium, lean = 0.1): readonly HalfHour[] {
  const weights = [18, 9, 7, 6, 5, 4, 4, 5, 6, 6, 8, 9, 12, 1];
  const sum = weights.reduce((a, b) => a + b, 0);
  return weights.map((weight, index) => {
    const minutes = 9 * 60 + 30 + index * 30;
    const start = `${String(Math.floor(minutes / 60)).padStart(2, '0')}:${String(minutes % 60).padStart(2, '0')}`;
    const sway = lean * Math.sin(index * 1.3);
    const mix = {
      total: (day.total * weight) / sum,
      calls: day.calls / day.total,
      bullish: day.bullish / day.total + sway,
      bearish: day.bearish / day.total - sway,
      trades: Math.round((day.trades * weight) / sum),
    };
    return { start, ...createPremium(mix) };
  });
}

/** Gamma by strike: calls above the spot, puts below, the largest at the walls. */
export function createStrikes(spot: number, size: number, options: { step?: number; callPart?: number } = {}) {
  const { step = 5, callPart = 1 } = options;
  const middle = Math.round(spot / step) * step;
  const strikes: (StrikeGex & KnownGex)[] = [];
  for (let index = -20; index <= 20; index += 1) {
    const strike = middle + index * step;
    const round = (strike / step) % 5 === 0 ? 1.8 : 1;
    const callGex = size * Math.exp(-(((index - 4) / 7) ** 2)) * round * callPart;
    const putGex = -size * Math.exp(-(((index + 4) / 7) ** 2)) * round * 0.9;
    strikes.push({ strike, callGex, putGex, netGex: callGex + putGex, netGexAfter: (callGex + putGex) * 0.7 });
  }
  return strikes;
}

export function createSymbolExposure(
  symbol: string,
  changes: Partial<KnownExposure> & {
    readonly size?: number;
    readonly callPart?: number;
    readonly step?: number;
  } = {},
): KnownExposure {
  const { size = 42_000_000, callPart = 1, step = 5, ...rest } = changes;
  const spot = rest.spot ?? 601.5;
  const strikes = createStrikes(spot, size, { step, callPart });
  const callGex = strikes.reduce((sum, strike) => sum + strike.callGex, 0);
  const putGex = strikes.reduce((sum, strike) => sum + strike.putGex, 0);
  const netGex = callGex + putGex;
  const zeroGamma = netGex > 0 ? spot * 0.991 : spot * 1.012;
  const most = (of: (strike: StrikeGex & KnownGex) => number) =>
    strikes.reduce((best, strike) => (of(strike) > of(best) ? strike : best)).strike;
  const dates = ['2026-11-19', '2026-11-20', '2026-11-23', '2026-11-27', '2026-12-18', '2027-01-15'];
  return {
    symbol,
    spot,
    callGex,
    putGex,
    netGex,
    callDex: callGex * 38,
    putDex: putGex * 31,
    netDex: callGex * 38 + putGex * 31,
    // A third of the gamma expires this day.
    netGexAfter: netGex * 0.66,
    netDexAfter: (callGex * 38 + putGex * 31) * 0.66,
    endedContracts: 212,
    contracts: 4_312,
    adjustedContracts: 0,
    isWholeChain: false,
    unknownContracts: 0,
    zeroGamma,
    zeroGammaAfter: zeroGamma * 0.998,
    pains: [{ expirationDate: '2026-11-20', maxPain: 600, vanna: -1.31e6, charm: null }],
    zeroGammas: [
      { isAfter: false, zeroGamma, place: 1 },
      { isAfter: false, zeroGamma: zeroGamma * 1.1, place: 2 },
    ],
    callWall: most((strike) => strike.callGex),
    putWall: most((strike) => -strike.putGex),
    absoluteGammaStrike: most((strike) => strike.callGex - strike.putGex),
    callWallAfter: most((strike) => strike.callGex),
    putWallAfter: most((strike) => -strike.putGex),
    strikes,
    expirations: dates.map((expirationDate, index) => {
      const part = [0.34, 0.24, 0.08, 0.16, 0.12, 0.06][index] ?? 0;
      return { expirationDate, callGex: callGex * part, putGex: putGex * part, netGex: netGex * part, share: part };
    }),
    marketStructure: null,
    ...rest,
  };
}

function withStructure(exposure: KnownExposure, intradayGex: number, explanation: string): KnownExposure {
  const larger = Math.max(Math.abs(exposure.netGex), Math.abs(intradayGex));
  return {
    ...exposure,
    marketStructure: { intradayGex, difference: (exposure.netGex - intradayGex) / larger, explanation },
  };
}

export function createExposure(focus: readonly KnownExposure[], unpricedSymbols = 3): Exposure {
  const sum = (of: (exposure: KnownExposure) => number) => focus.reduce((total, row) => total + of(row), 0);
  return {
    total: {
      callGex: sum((row) => row.callGex),
      putGex: sum((row) => row.putGex),
      netGex: sum((row) => row.netGex),
      callDex: sum((row) => row.callDex),
      putDex: sum((row) => row.putDex),
      netDex: sum((row) => row.netDex),
      netGexAfter: sum((row) => row.netGexAfter),
      netDexAfter: sum((row) => row.netDexAfter),
      endedContracts: sum((row) => row.endedContracts),
      contracts: sum((row) => row.contracts),
      adjustedContracts: 0,
      unknownContracts: 0,
    },
    unpricedSymbols,
    top: [...focus].sort((a, b) => Math.abs(b.netGex) - Math.abs(a.netGex)).slice(0, 10),
    focus,
    lead: focus[0] ?? null,
  };
}

/** @param factors the previous session's and the median's size, as parts of today's */
export function createComparison(
  headline: KnownPremium,
  factors: { previous: number; median: number } | null,
): Comparison {
  const latest = readKeyNumbers(headline, headline.total * 0.31);
  const changes = forCompared<Change>(({ key: name }, index) => {
    const value = latest[name];
    if (factors === null) return { latest: value, previous: null, median: null, place: null };
    // Calls and puts of the past differ in share as well as in size, or the sentences would have nothing to say.
    const drift =
      name === 'calls' || name === 'callShare'
        ? 0.94
        : name === 'puts' || name === 'putShare'
          ? 1.1
          : name === 'total'
            ? 1
            : 1 + ((index % 5) - 2) * 0.03;
    const past = (factor: number) => {
      const whole = name.endsWith('Share') || name.startsWith('putCall') ? 1 : factor;
      return value === null ? headline.total : value * whole * drift;
    };
    const place = value === null ? null : { above: value > past(factors.median) ? 4 : 1, sessions: 5 };
    return { latest: value, previous: past(factors.previous), median: past(factors.median), place };
  });
  return {
    previousDate: factors === null ? null : '2026-11-18',
    missingDates: [],
    dates: factors === null ? [] : ['2026-11-18', '2026-11-17', '2026-11-16', '2026-11-13', '2026-11-12'],
    degradedDates: [],
    levels: [],
    changes,
  };
}

/** Of five sessions, each with numbers a little larger than today's. */
function createLevels(exposure: Exposure): Comparison['levels'] {
  const today = { exposure, volatility: [] };
  const before = [1.02, 1.01, 1.03, 0.97, 1.04].map((factor) => {
    const levels = [...readLevels(today)].map(([symbol, { isWholeChain, values }]) => {
      const larger = Object.entries(values).map(([name, value]) => [name, value === null ? null : value * factor]);
      return [symbol, { isWholeChain, values: Object.fromEntries(larger) as typeof values }] as const; // The same names.
    });
    return new Map(levels);
  });
  return compareLevels(today, before);
}

export function createTrade(changes: Partial<BigTrade> = {}): BigTrade {
  return {
    id: '1',
    time: '10:42:17',
    symbol: 'SPY',
    contract: 'SPY 2026-11-20 600 C',
    size: 5000,
    price: 12.4,
    premium: 6_200_000,
    side: 'ASK',
    sentiment: 'BULLISH',
    spot: 601.5,
    openInterest: 18_230,
    impliedVolatility: 0.184,
    days: 1,
    activityType: 'SLAI',
    multiLeg: false,
    sweep: true,
    ...changes,
  };
}

export function createUnusual(symbol: string, ratio: number, premium: number, sessions = 5): UnusualSymbol {
  return {
    symbol,
    premium,
    previous: premium / (ratio * 1.1),
    median: premium / ratio,
    ratio,
    sessions,
    netCalls: premium * 0.12,
    netPuts: premium * -0.03,
    bullish: premium * 0.41,
    bearish: premium * 0.2,
  };
}

function createParts(day: KnownPremium, parts: readonly number[]): readonly PremiumPart[] {
  return parts.map((part) => ({
    trades: Math.round(day.trades * part),
    contracts: Math.round(day.contracts * part),
    total: day.total * part,
    calls: day.calls * part,
    puts: day.puts * part,
  }));
}

export function createExpiries(day: KnownPremium, parts = [0.382, 0.241, 0.19, 0.187]): readonly ExpiryBucket[] {
  const names = ['0DTE', 'week', 'month', 'later'] as const;
  return createParts(day, parts).map((part, index) => ({ bucket: names[index] ?? 'later', ...part }));
}

export function createMoneyness(day: KnownPremium, parts = [0.34, 0.22, 0.439, 0.001]): readonly MoneynessBucket[] {
  const names = ['ITM', 'ATM', 'OTM', 'unknown'] as const;
  return createParts(day, parts).map((part, index) => ({ bucket: names[index] ?? 'unknown', ...part }));
}

const NO_EXCLUSIONS: Exclusions = {
  cancelMessages: { trades: 0, premium: 0 },
  cancelledPrints: { trades: 0, premium: 0, bullish: 0, bearish: 0 },
  unmatchedCancels: 0,
  lateReports: { trades: 0, premium: 0, bullish: 0, bearish: 0 },
  otherHours: { trades: 0, premium: 0 },
  recorded: { trades: 0, premium: 0 },
  unknownCodes: [],
};

export function createExclusions(counted: KnownPremium, changes: Partial<Exclusions> = {}): Exclusions {
  const left = { ...NO_EXCLUSIONS, ...changes };
  const parts = [left.cancelMessages, left.cancelledPrints, left.lateReports, left.otherHours];
  const recorded = parts.reduce(
    (sum, tally) => ({ trades: sum.trades + tally.trades, premium: known(sum.premium) + known(tally.premium) }),
    { trades: counted.trades, premium: counted.total },
  );
  return { ...left, recorded };
}

const QUERY = `SELECT count(*) AS trades, sum(size) AS contracts, sum(premium) AS total_premium,
  sum(CASE WHEN put_call = 'CALL' THEN premium ELSE 0 END) AS call_premium,
  sum(CASE WHEN put_call = 'PUT' THEN premium ELSE 0 END) AS put_premium,
  sum(CASE WHEN sentiment = 'BULLISH' THEN premium ELSE 0 END) AS bullish,
  sum(CASE WHEN sentiment = 'BEARISH' THEN premium ELSE 0 END) AS bearish
FROM "trades.parquet"
WHERE option_activity_type NOT IN ('CANC', 'CNCL', 'LATE');`;

export const QUERIES = ['Headline', 'Symbols', 'Half hours', 'Expirations', 'Moneyness', 'GEX by symbol'].map(
  (table) => ({ table, sql: QUERY }),
);

export const SYMBOLS = ['SPX', 'SPY', 'NVDA', 'QQQ', 'TSLA', 'AAPL', 'META', 'MSTR', 'AMD', 'COIN'] as const;

/** An ordinary session of the whole market; `changes` make it what the test is about. */
export function createReport(changes: Partial<FlowReport> & { readonly headline?: KnownPremium } = {}): FlowReport {
  const headline = changes.headline ?? createPremium();
  const leans = [0.02, -0.05, 0.14, -0.02, 0.09, 0.03, -0.08, 0.2, -0.12, 0.01];
  const topSymbols = SYMBOLS.map((symbol, index) =>
    createSymbolFlow(symbol, index + 1, {
      total: headline.total * (0.29 / (1 + index * 0.9)),
      calls: 0.62 + (leans[index] ?? 0),
      bullish: 0.3 + (leans[index] ?? 0),
      bearish: 0.26 - (leans[index] ?? 0) / 2,
      trades: Math.round(headline.trades * (0.2 / (1 + index))),
    }),
  );
  const lean = (flow: KnownPremium) => flow.bullish - flow.bearish;
  const byLean = [...topSymbols].sort((a, b) => lean(b) - lean(a));
  const focus = [
    withStructure(createSymbolExposure('SPY'), 66_200_000, ''),
    withStructure(
      createSymbolExposure('QQQ', { spot: 517.2, size: 19_000_000, callPart: 0.7 }),
      61_000_000,
      'Ours weighs the open interest of contracts that traded this day, the endpoint their volume: a day of heavy call buying can turn the sign.',
    ),
    createSymbolExposure('NVDA', { spot: 182.4, size: 8_000_000, step: 2.5 }),
  ];
  const exposure = changes.exposure ?? createExposure(focus);
  const unusual = changes.unusual ?? [
    createUnusual('MSTR', 4.3, headline.total * 0.0397),
    createUnusual('COIN', 2.9, headline.total * 0.0319),
    createUnusual('PLTR', 2.2, headline.total * 0.0172, 4),
  ];
  const trades = [
    createTrade(),
    createTrade({
      ...{ id: '2', time: '15:58:03', symbol: 'SPX', contract: 'SPX 2026-12-18 6000 P', side: 'BID' },
      spot: 6021.4,
      days: 29,
    }),
    createTrade({
      ...{ id: '3', symbol: 'NVDA', contract: 'NVDA 2027-01-15 190 C', time: '09:31:44', sentiment: 'BEARISH' },
      ...{ premium: 4_310_000, size: 2900, price: 14.86, days: 57, multiLeg: true, sweep: false, activityType: 'MLET' },
      spot: 182.4,
    }),
    createTrade({
      ...{ id: '4', symbol: 'VIX', contract: 'VIX 2026-12-16 22 C', spot: null, impliedVolatility: null, side: 'MID' },
      ...{ premium: 2_980_000, sentiment: 'NEUTRAL', sweep: false, activityType: 'AUTO', days: 27, openInterest: 0 },
    }),
  ];
  return {
    kind: 'flow',
    job: 'nightly-trades',
    createdAt: '2026-11-19T22:32:00.000Z',
    drop: {
      dataset: 'trades',
      date: '2026-11-19',
      revision: 1,
      condition: 'available',
      rows: headline.trades,
      min_time: '2026-11-19 09:30:00.000',
      max_time: '2026-11-19 16:14:57.000',
      sealed_at: '2026-11-19T22:31:07.000Z',
      sha256: 'c0ffee1234567890'.repeat(4),
      location: 's3://quant-drops/options/trades/session=2026-11-19/trades.parquet',
    },
    headline,
    exclusions: createExclusions(headline, {
      cancelMessages: { trades: 41, premium: 1_310_000 },
      cancelledPrints: { trades: 39, premium: 1_290_000, bullish: 600_000, bearish: 550_000 },
      unmatchedCancels: 2,
      lateReports: { trades: 118, premium: 4_020_000, bullish: 2_900_000, bearish: 800_000 },
    }),
    besides: { overnight: { trades: 0, premium: 0 }, curb: { trades: 0, premium: 0 } },
    volumeAboveOpenInterest: { series: 9_312, ofSeries: 41_870, unknownSeries: 0, premium: headline.total * 0.31 },
    comparison: { ...createComparison(headline, { previous: 0.89, median: 0.94 }), levels: createLevels(exposure) },
    expiries: createExpiries(headline),
    moneyness: createMoneyness(headline),
    halfHours: headline.total > 0 ? createHalfHours(headline) : [],
    symbolCount: 4_127,
    topSymbols,
    mostBullish: byLean.filter((flow) => lean(flow) > 0).slice(0, 5),
    mostBearish: byLean
      .filter((flow) => lean(flow) < 0)
      .reverse()
      .slice(0, 5),
    unusual,
    drivers: changes.drivers ?? createDrivers(headline.total),
    movers: changes.movers ?? [{ symbol: 'NVDA', premium: headline.total * 0.11, previous: headline.total * 0.03 }],
    earnings: [
      { symbol: 'TSLA', day: '2026-11-25' },
      { symbol: 'NVDA', day: '2026-11-29' },
    ],
    biggestTrades: trades,
    biggestSweeps: trades.filter(({ sweep }) => sweep),
    biggestLeftOut: trades.slice(0, 2).map((trade) => ({ record: 'late report', ...trade })),
    exposure,
    watchlist: ['SPY', 'QQQ', 'NVDA', 'IWM'].map((symbol) => ({
      symbol,
      flow: topSymbols.find((flow) => flow.symbol === symbol) ?? null,
      exposure: exposure.focus.find((row) => row.symbol === symbol) ?? null,
      unusual: unusual.find((row) => row.symbol === symbol) ?? null,
    })),
    watchlistLeftOut: 0,
    topContracts: [],
    opened: [],
    volatility: [],
    chainLocation: null,
    structureLocation: null,
    rebuildQueries: QUERIES,
    ...changes,
  };
}

export function createDrivers(total: number): FlowReport['drivers'] {
  const driver = (
    symbol: string,
    right: 'calls' | 'puts',
    expirationDate: string | null,
    bull: number,
    bear: number,
  ) => ({
    ...{
      symbol,
      right,
      expirationDate,
      premium: total * (bull + bear) * 1.3,
      bullish: total * bull,
      bearish: total * bear,
    },
  });
  return {
    bullish: driver('TSLA', 'calls', null, 0.07, 0.01),
    bearish: driver('SPX', 'puts', '2027-01-15', 0.01, 0.1),
    top: [
      driver('SPX', 'puts', '2027-01-15', 0.01, 0.1),
      driver('TSLA', 'calls', '2026-11-20', 0.05, 0.005),
      driver('NVDA', 'calls', '2026-12-18', 0.03, 0.004),
      driver('SPY', 'puts', '2026-11-19', 0.01, 0.03),
      driver('QQQ', 'calls', '2026-11-19', 0.02, 0.008),
    ],
  };
}
