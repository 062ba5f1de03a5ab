/** The fixed days that the mail is rendered for, looked at in a browser, and compared with `test/golden/`. */

import type { Comparison, FlowReport } from '../../src/report/model.ts';
import { type RenderedReport, type RenderOptions, renderReport } from '../../src/report/render.ts';
import { addSampleWeek } from '../../src/report/sample-day.ts';
import type { DigestPart } from '../../src/report/text/mail-view.ts';
import { TEMPLATES } from './drop-file.ts';
import {
  createComparison,
  createExclusions,
  createExpiries,
  createExposure,
  createHalfHours,
  createMoneyness,
  createPremium,
  createReport,
  createSymbolExposure,
  createSymbolFlow,
  createTrade,
  createUnusual,
  NO_PREMIUM,
  QUERIES,
} from './model-fixture.ts';

export interface Day {
  readonly name: string;
  readonly report: FlowReport;
  readonly options: RenderOptions;
}

export const OPTIONS: RenderOptions = {
  templatesDir: TEMPLATES,
  timezone: 'America/New_York',
  link: {
    url: `https://quant-drops.s3.amazonaws.com/options/trades/date%3D2026-11-19/trades.parquet?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Expires=604800&X-Amz-Signature=${'0af'.repeat(21)}`,
    expiresAt: '2026-11-26T22:32:00.000Z',
  },
  late: false,
  correction: null,
};

/** Texts that would be markup, a formula, another direction of reading, or too wide. */
export const HOSTILE = [
  '<script>alert(1)</script>',
  '=cmd()',
  '"><img src=x onerror=alert(1)>\r\nBcc: all@example.com',
  'שלום עולם \u202Eevil\u202C',
  '🚀🌕 TO THE MOON 🚀🌕🚀🌕🚀🌕',
  'AVERYLONGNAMEWITHOUTANYBREAKINITFORTYANDMORE',
  '</mj-text><mj-raw><b>',
  '{{7*7}} <%= process.exit() %>',
  'X\r\nBcc: a\u2028Bcc: b',
] as const;

export async function renderFlowReport(report: FlowReport, options: RenderOptions): Promise<RenderedReport> {
  return await renderReport('flow', [{ title: report.drop.dataset, report }], options);
}

export async function renderDigest(parts: readonly DigestPart[], options: RenderOptions): Promise<RenderedReport> {
  return await renderReport('digest', parts, options);
}

const normal = createReport();

function createHostile(): FlowReport {
  const headline = createPremium({ total: 40e9 });
  const flows = HOSTILE.map((symbol, index) =>
    createSymbolFlow(symbol, index + 1, { total: 9e9 / (index + 1), trades: 1000 }),
  );
  const focus = HOSTILE.slice(0, 4).map((symbol) => createSymbolExposure(symbol));
  const trades = HOSTILE.map((text, index) =>
    createTrade({ id: String(index), symbol: text, contract: text, side: text, sentiment: text, activityType: text }),
  );
  return createReport({
    headline,
    comparison: createComparison(headline, { previous: 0.9, median: 0.95 }),
    job: '<b>job</b>',
    drop: { ...normal.drop, dataset: '<i>set</i>', location: 's3://x/"><script>alert(2)</script>\n/trades.parquet' },
    topSymbols: flows,
    mostBullish: flows.slice(0, 5),
    mostBearish: flows.slice(3),
    unusual: HOSTILE.map((symbol) => createUnusual(symbol, 3, 1e6)),
    biggestTrades: trades,
    exposure: createExposure(focus),
    watchlist: HOSTILE.map((symbol, index) => ({
      symbol,
      flow: flows[index] ?? null,
      exposure: focus[index] ?? null,
      unusual: null,
    })),
    rebuildQueries: [{ table: 'Headline', sql: `SELECT '</pre><script>alert(3)</script>' FROM "x";` }, ...QUERIES],
  });
}

function createQuiet(): FlowReport {
  const headline = createPremium({ total: 96_400_000, calls: 0.513, bullish: 0.24, bearish: 0.24, trades: 61_204 });
  return createReport({
    headline,
    comparison: createComparison(headline, { previous: 0.98, median: 1.62 }),
    unusual: [],
    exclusions: createExclusions(headline),
    mostBearish: [],
    watchlist: [],
  });
}

/** One symbol with 90% of premium, and gamma exposure that is negative everywhere. */
function createExtreme(): FlowReport {
  const headline = createPremium({
    total: 8_730_000_000,
    calls: 0.21,
    bullish: 0.08,
    bearish: 0.71,
    trades: 2_912_004,
  });
  const flows = ['TSLA', 'SPY', 'NVDA', 'QQQ'].map((symbol, index) =>
    createSymbolFlow(symbol, index + 1, {
      total: headline.total * (index === 0 ? 0.9 : 0.03 / index),
      ...{ calls: 0.2, bullish: 0.07, bearish: 0.72, trades: index === 0 ? 2_400_000 : 90_000 },
    }),
  );
  const focus = [
    createSymbolExposure('TSLA', { spot: 218.6, size: 310_000_000, callPart: 0.02, step: 2.5, zeroGamma: null }),
    createSymbolExposure('SPY', { spot: 561.1, size: 120_000_000, callPart: 0.1 }),
    createSymbolExposure('QQQ', { spot: 470.3, size: 60_000_000, callPart: 0.1 }),
  ];
  const unusual = [createUnusual('TSLA', 11.6, headline.total * 0.9)];
  return createReport({
    headline,
    comparison: createComparison(headline, { previous: 0.31, median: 0.28 }),
    halfHours: createHalfHours(headline, 0.02),
    expiries: createExpiries(headline, [0.81, 0.12, 0.05, 0.02]),
    moneyness: createMoneyness(headline, [0.71, 0.19, 0.1, 0]),
    symbolCount: 3_866,
    topSymbols: flows,
    mostBullish: [],
    mostBearish: flows,
    unusual,
    exposure: createExposure(focus, 0),
    watchlist: ['TSLA', 'SPY', 'QQQ'].map((symbol) => ({
      symbol,
      flow: flows.find((flow) => flow.symbol === symbol) ?? null,
      exposure: focus.find((row) => row.symbol === symbol) ?? null,
      unusual: unusual.find((row) => row.symbol === symbol) ?? null,
    })),
  });
}

function withVolume(comparison: Comparison, latest: number): Comparison {
  const changes = {
    ...comparison.changes,
    volumeAboveOpenInterest: { latest, previous: null, median: null, place: null },
  };
  return { ...comparison, changes };
}

/** One trade, one symbol, nothing before it. */
function createSingle(): FlowReport {
  const headline = {
    ...createPremium({ total: 1250, calls: 1, bullish: 1, bearish: 0, trades: 1 }),
    ...{ contracts: 10, callContracts: 10, putContracts: 0, zeroDte: 0, multiLeg: 0, sweep: 0, netCalls: 1250 },
    ...{ netPuts: 0, putCallByPremium: 0, putCallByVolume: 0 },
  };
  const flow = { symbol: 'SPY', place: 1, ...headline };
  const gex = { callGex: 72_000, putGex: 0, netGex: 72_000, netGexAfter: 72_000 };
  const lead = createSymbolExposure('SPY', {
    ...gex,
    ...{ callDex: 30_075_000, putDex: 0, netDex: 30_075_000, netDexAfter: 30_075_000 },
    ...{ contracts: 1, endedContracts: 0, zeroGamma: null, zeroGammaAfter: null, zeroGammas: [], pains: [] },
    ...{ callWall: 600, putWall: null, absoluteGammaStrike: 600, strikes: [{ strike: 600, ...gex }] },
    expirations: [{ expirationDate: '2026-11-20', share: 1, ...gex }],
  });
  return createReport({
    headline,
    comparison: withVolume(createComparison(headline, null), 0),
    drop: { ...normal.drop, rows: 1, min_time: '2026-11-19 09:30:02', max_time: '2026-11-19 09:30:02' },
    exclusions: createExclusions(headline),
    volumeAboveOpenInterest: { series: 0, ofSeries: 1, unknownSeries: 0, premium: 0 },
    expiries: createExpiries(headline, [0, 1, 0, 0]),
    moneyness: createMoneyness(headline, [1, 0, 0, 0]),
    halfHours: [{ start: '09:30', ...headline }],
    symbolCount: 1,
    topSymbols: [flow],
    mostBullish: [flow],
    mostBearish: [],
    unusual: [],
    biggestTrades: [createTrade({ time: '09:30:02', size: 10, price: 1.25, premium: 1250, openInterest: 1000 })],
    exposure: createExposure([lead], 0),
    watchlist: [],
  });
}

function createEmpty(): FlowReport {
  return createReport({
    headline: NO_PREMIUM,
    comparison: createComparison(NO_PREMIUM, null),
    drop: { ...normal.drop, rows: 0, min_time: null, max_time: null },
    exclusions: createExclusions(NO_PREMIUM),
    volumeAboveOpenInterest: { series: 0, ofSeries: 0, unknownSeries: 0, premium: 0 },
    expiries: createExpiries(NO_PREMIUM),
    moneyness: createMoneyness(NO_PREMIUM),
    halfHours: [],
    symbolCount: 0,
    topSymbols: [],
    mostBullish: [],
    mostBearish: [],
    unusual: [],
    biggestTrades: [],
    biggestLeftOut: [],
    exposure: createExposure([], 0),
    watchlist: [{ symbol: 'SPY', flow: null, exposure: null, unusual: null }],
  });
}

/** The first sealed day: nothing to compare with. */
const firstDay = createReport({ comparison: createComparison(createPremium(), null), unusual: [] });
const degraded = createReport({ drop: { ...normal.drop, condition: 'degraded', revision: 2 } });
const restated = createReport({ drop: { ...normal.drop, revision: 2 } });

export const DAYS: readonly Day[] = [
  { name: 'quiet', report: createQuiet(), options: OPTIONS },
  { name: 'normal', report: normal, options: OPTIONS },
  { name: 'extreme', report: createExtreme(), options: OPTIONS },
  { name: 'single-trade', report: createSingle(), options: { ...OPTIONS, link: null } },
  { name: 'no-trades', report: createEmpty(), options: { ...OPTIONS, link: null } },
  { name: 'hostile', report: createHostile(), options: OPTIONS },
  { name: 'first-day', report: firstDay, options: { ...OPTIONS, timezone: 'Europe/Berlin' } },
  { name: 'degraded', report: degraded, options: OPTIONS },
  { name: 'late', report: normal, options: { ...OPTIONS, late: true } },
  {
    name: 'correction',
    report: restated,
    options: {
      ...OPTIONS,
      correction: {
        fromRevision: 1,
        changes: [
          { name: 'Premium', before: '$1.21B', after: '$1.24B' },
          { name: 'Net GEX', before: '+$188M', after: '+$211M' },
        ],
      },
    },
  },
];

/** Three datasets of one night: one whole, one degraded and large, one not sealed yet. */
/** The usual day as the last one of a week in which another day is pending. */
export const WEEK: readonly DigestPart[] = [
  {
    title: 'trades',
    report: addSampleWeek({
      ...normal,
      drop: { ...normal.drop, date: '2026-01-15', sealed_at: '2026-01-15T22:31:07.000Z' },
    }),
  },
];

export const DIGEST: readonly DigestPart[] = [
  { title: 'All U.S. options', report: normal },
  { title: 'Index options', report: { ...createExtreme(), drop: { ...normal.drop, condition: 'degraded' } } },
  { title: 'European-style <b>', pending: '2026-11-19' },
];

export function pickDay(name: string): Day {
  const day = DAYS.find((candidate) => candidate.name === name);
  if (day === undefined) throw new RangeError(`no day named ${name}`);
  return day;
}
