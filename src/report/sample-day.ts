/**
 * A made-up day, for checking a job's own templates without data. Pure. Its symbol looks like markup: a template that prints
 * it unescaped is found.
 */
import type { Exposure, SymbolExposure } from './exposure-model.ts';
import type { BigTrade, Driver, FlowReport, SymbolFlow } from './model.ts';
import { forCompared, PREMIUM_NUMBERS, type Premium } from './numbers.ts';
import type { WeekDay } from './week-model.ts';

/** An element that no template has. */
export const SAMPLE_MARKUP = '<sample-markup>';

/** The part of the market that the sample of a filtered day has. */
export const SAMPLE_FILTER = 'sample_filter = 1';

/** What is unlike other days in that sample. */
export const SAMPLE_DOUBT = 'a sample of a doubt';

/** The net GEX of the sample, as it is printed. */
export const SAMPLE_GEX = '$50.0M';

const SYMBOL = `SPX${SAMPLE_MARKUP}`;
const DATE = '2026-01-15';
const BEFORE = '2026-01-14';

/** A day that was sealed whole; with every table. */
export function buildSampleDay(dataset: string): FlowReport {
  const day = samplePremium(1_240_000_000, 812_345);
  const flow: SymbolFlow = { symbol: SYMBOL, place: 1, ...samplePremium(310_000_000, 90_000) };
  const exposure = sampleExposure();
  const unusual = {
    ...{ symbol: SYMBOL, premium: flow.total ?? 0, previous: 1e8, median: 1e8, ratio: 3.1, sessions: 5 },
    ...{ netCalls: 4e7, netPuts: -1e7, bullish: 1.2e8, bearish: 9e7 },
  };
  const driver: Driver = {
    ...{ symbol: SYMBOL, right: 'puts', expirationDate: '2026-01-16', premium: 2e8, bullish: 2e7, bearish: 1.4e8 },
  };
  const tally = { trades: 41, premium: 1_310_000 };
  const sided = { ...tally, bullish: 900_000, bearish: 100_000 };
  return {
    ...{ kind: 'flow', job: 'sample', createdAt: `${DATE}T21:32:00.000Z` },
    drop: {
      ...{ dataset, date: DATE, revision: 1, condition: 'available', rows: 812_345 },
      ...{ min_time: `${DATE} 09:30:00.000`, max_time: `${DATE} 16:14:57.000`, sealed_at: `${DATE}T21:31:07.000Z` },
      ...{ sha256: '0'.repeat(64), location: `s3://sample/${dataset}.parquet` },
    },
    headline: day,
    exclusions: {
      ...{ cancelMessages: tally, cancelledPrints: sided, unmatchedCancels: 2, lateReports: sided, otherHours: tally },
      ...{ recorded: { trades: 812_468, premium: 1_243_930_000 }, unknownCodes: [] },
    },
    besides: { overnight: tally, curb: tally },
    volumeAboveOpenInterest: { series: 9_312, ofSeries: 41_870, unknownSeries: 0, premium: 3.8e8 },
    comparison: {
      ...{ previousDate: BEFORE, dates: [BEFORE, '2026-01-13', '2026-01-12'], missingDates: [], degradedDates: [] },
      levels: [],
      changes: forCompared(() => ({ latest: 3e8, previous: 2.5e8, median: 2.8e8, place: { above: 2, sessions: 3 } })),
    },
    expiries: (['0DTE', 'week', 'month', 'later', 'unknown'] as const).map((bucket) => ({ bucket, ...day })),
    moneyness: (['ITM', 'ATM', 'OTM', 'unknown'] as const).map((bucket) => ({ bucket, ...day })),
    halfHours: ['09:30', '10:00', '15:30'].map((start) => ({ start, ...samplePremium(4e8, 200_000) })),
    ...{ symbolCount: 4_127, topSymbols: [flow], mostBullish: [flow], mostBearish: [flow], unusual: [unusual] },
    drivers: { bullish: driver, bearish: driver, top: [driver] },
    movers: [{ symbol: SYMBOL, premium: 3e8, previous: 1e8 }],
    earnings: [{ symbol: SYMBOL, day: '2026-01-21' }],
    biggestTrades: [sampleTrade()],
    biggestSweeps: [sampleTrade()],
    biggestLeftOut: [{ record: 'late report', ...sampleTrade() }],
    topContracts: [
      {
        ...{ symbol: SYMBOL, contract: `${SYMBOL} 2026-01-16 600 C`, trades: 12, volume: 5_000, openInterest: 4_000 },
        ...{ premium: 6.2e6, bullish: 4e6, bearish: 1e6 },
      },
    ],
    opened: [
      {
        ...{ symbol: SYMBOL, contract: `${SYMBOL} 2026-01-16 600 C`, premium: 6.2e6, volume: 5_000 },
        ...{ before: 4_000, after: 7_500 },
      },
    ],
    volatility: [
      {
        symbol: SYMBOL,
        expirationDate: '2026-01-16',
        days: 1,
        strike: 600,
        atTheMoney: 0.18,
        skew: 0.04,
        expectedMove: 42.5,
      },
    ],
    exposure,
    watchlist: [
      { symbol: SYMBOL, flow, exposure: exposure.lead, unusual },
      { symbol: 'IDLE', flow: null, exposure: null, unusual: null },
    ],
    ...{
      watchlistLeftOut: 3,
      chainLocation: null,
      structureLocation: null,
      rebuildQueries: [{ table: 'Headline', sql: 'SELECT 1 < 2' }],
    },
  };
}

/** The same day, of a part of the market, and not known to be complete. */
export function buildDoubtfulDay(dataset: string): FlowReport {
  const day = buildSampleDay(dataset);
  const drop = { ...day.drop, revision: 2, degraded_reason: 'a sample', filter: SAMPLE_FILTER };
  return { ...day, drop: { ...drop, condition: 'degraded', doubts: [SAMPLE_DOUBT] } };
}

/** A day without a trade. */
export function buildEmptyDay(dataset: string): FlowReport {
  const day = buildSampleDay(dataset);
  const empty = clear(day);
  return {
    ...empty,
    drop: { ...day.drop, rows: 0, min_time: null, max_time: null },
    comparison: {
      ...{ ...empty.comparison, previousDate: null },
      levels: [],
      changes: forCompared(() => ({ latest: 0, previous: null, median: null, place: null })),
    },
    drivers: { bullish: null, bearish: null, top: [] },
    exposure: { ...empty.exposure, lead: null },
    rebuildQueries: day.rebuildQueries,
  };
}

/** The day as the last one of its week, in the state of the day. */
export function addSampleWeek(report: FlowReport): FlowReport {
  const { drop, headline, comparison } = report;
  const numbers = forCompared(({ key }) => comparison.changes[key].latest);
  const reason = [drop.degraded_reason, ...(drop.doubts ?? [])].filter(Boolean).join('; ');
  const whole: WeekDay = { date: BEFORE, state: 'complete', reason: '', length: 0.5, numbers };
  const own: WeekDay = { ...whole, date: DATE, state: drop.condition === 'degraded' ? 'degraded' : 'complete', reason };
  const lost: WeekDay = { date: '2026-01-13', state: 'lost', reason: 'a sample', length: 1, numbers: null };
  const expired = { premium: headline.puts, openInterest: 4_000, series: 70 };
  const opened = { symbol: SYMBOL, contract: `${SYMBOL} 2026-02-20 600 C`, before: 700, after: 4_200, premium: 6.2e6 };
  return {
    ...report,
    week: {
      ...{ days: [lost, whole, own], sums: headline },
      before: ['2026-01-07', '2025-12-31', '2025-12-23'].map((date) => [{ ...whole, date }]),
      // No change of a week may read like the GEX of the day.
      changes: forCompared(({ key }) => ({ ...comparison.changes[key], previous: (numbers[key] ?? 0) * 0.9 })),
      ...{ expired, expiredSymbols: [{ symbol: SYMBOL, ...expired }], opened: [opened], openedSeries: 1 },
    },
  };
}

/** The same with every number 0 and every list empty. */
function clear<Value>(value: Value): Value {
  const cleared = () => {
    if (typeof value === 'number') return 0;
    if (Array.isArray(value)) return [];
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, clear(part as unknown)]));
  };
  return cleared() as Value; // Of the same shape.
}

/** Every number of a premium, of a plausible size for its unit. */
function samplePremium(total: number, trades: number): Premium {
  const values = PREMIUM_NUMBERS.map(({ key, unit }) => [
    key,
    unit === 'ratio' ? 0.62 : unit === 'count' ? 0 : total / 3,
  ]);
  return {
    ...(Object.fromEntries(values) as unknown as Premium),
    trades,
    contracts: trades * 8,
    total,
    calls: total * 0.6,
  };
}

function sampleExposure(): Exposure {
  const sums = {
    callGex: 9e7,
    putGex: -4e7,
    netGex: 5e7,
    callDex: 3e9,
    putDex: -2e9,
    netDex: 1e9,
    netGexAfter: 2e7,
    netDexAfter: 8e8,
  };
  const strikes = [590, 600, 610].map((strike) => ({
    strike,
    callGex: 3e7,
    putGex: -1e7,
    netGex: 2e7,
    netGexAfter: 1e7,
  }));
  const lead: SymbolExposure = {
    ...sums,
    ...{ symbol: SYMBOL, spot: 601.5, isWholeChain: false },
    ...{ contracts: 900, endedContracts: 90, adjustedContracts: 0, unknownContracts: 0 },
    ...{ zeroGamma: 596.09, callWall: 610, putWall: 590, absoluteGammaStrike: 600, strikes },
    ...{ zeroGammaAfter: 598, callWallAfter: 610, putWallAfter: 590 },
    zeroGammas: [{ isAfter: false, zeroGamma: 596.09, place: 1 }],
    pains: [],
    expirations: [{ expirationDate: '2026-01-16', callGex: 9e7, putGex: -4e7, netGex: 5e7, share: 0.31 }],
    marketStructure: { intradayGex: 6e7, difference: -0.16, explanation: 'A sample.' },
  };
  return { total: { ...lead }, unpricedSymbols: 3, top: [lead], focus: [lead], lead };
}

function sampleTrade(): BigTrade {
  return {
    ...{ id: '1', time: '10:42:17', symbol: SYMBOL, contract: `${SYMBOL} 2026-01-16 600 C`, size: 5000, price: 12.4 },
    ...{ premium: 6.2e6, side: 'ASK', sentiment: 'BULLISH', spot: 601.5, openInterest: 18_230, days: 1 },
    ...{ impliedVolatility: 0.184, activityType: 'AUTO', multiLeg: false, sweep: true },
  };
}
