/**
 * The tables of the report: which there are, and their columns, for the files that leave with the mail, the PDF, and the
 * mail's HTML and text. In files, a table without rows is left out: an empty file says less than none. Symbols and exposures
 * that the mail shows in several places are one table there, each symbol once. The columns of numbers are those of
 * `numbers.ts`.
 */
import { formatCount, formatDollars, formatSignedDollars } from '../core/units.ts';
import { type Amount, leanOf } from './amount.ts';
import { buildKeyNumberTable } from './attach/key-numbers.ts';
import type {
  BigTrade,
  ExpirationGex,
  Exposure,
  ExposureSums,
  FlowReport,
  HalfHour,
  RankedExposure,
  StrikeGex,
  SymbolExposure,
  SymbolFlow,
  UnusualSymbol,
} from './model.ts';
import {
  DIRECTION_KEYS,
  PART_KEYS,
  PREMIUM_NUMBERS,
  type Premium,
  type PremiumNumber,
  type PremiumPart,
} from './numbers.ts';
import {
  type AttachedTable,
  buildTable,
  type ColumnReader,
  KIND_OF,
  kept,
  type MailColumn,
  type MailTable,
  shown,
} from './table.ts';
import { toneOf } from './text/bar.ts';
import { formatPart, formatTimes, NONE, nameSymbol } from './text/label.ts';

/** @param focus the symbols whose strikes and expirations are listed */
export function listTables(report: FlowReport, focus = report.exposure.focus): readonly AttachedTable[] {
  const { date } = report.drop;
  const { exposure } = report;
  const strikes = focus.flatMap(({ symbol, strikes }) => strikes.map((row) => ({ symbol, ...row })));
  const expirations = focus.flatMap(({ symbol, expirations }) => expirations.map((row) => ({ symbol, ...row })));
  return [
    buildKeyNumberTable(report),
    buildTable({ name: 'symbols', title: 'Premium by symbol', date }, listSymbols(report), SYMBOL_COLUMNS),
    buildTable({ name: 'unusual-symbols', title: 'Unusual activity', date }, report.unusual, UNUSUAL_COLUMNS),
    buildTable({ name: 'half-hours', title: 'Premium by half hour', date }, report.halfHours, HALF_HOUR_COLUMNS),
    buildTable(
      { name: 'expirations', title: 'Premium by days to expiration', date },
      report.headline.trades === 0 ? [] : report.expiries,
      [shown<(typeof report.expiries)[number]>('Expires', 'bucket', 'text', ({ bucket }) => bucket), ...PART_COLUMNS],
    ),
    buildTable(
      { name: 'moneyness', title: 'Premium by moneyness', date },
      report.headline.trades === 0 ? [] : report.moneyness,
      [
        shown<(typeof report.moneyness)[number]>('Moneyness', 'bucket', 'text', ({ bucket }) => bucket),
        ...PART_COLUMNS,
      ],
    ),
    buildTable({ name: 'biggest-trades', title: 'Biggest trades', date }, report.biggestTrades, TRADE_COLUMNS),
    buildTable({ name: 'gex-by-symbol', title: 'Exposure by symbol', date }, listExposures(exposure), EXPOSURE_COLUMNS),
    buildTable({ name: 'gex-by-strike', title: 'GEX by strike', date }, strikes, STRIKE_COLUMNS),
    buildTable({ name: 'gex-by-expiration', title: 'GEX by expiration', date }, expirations, EXPIRATION_COLUMNS),
  ].filter(({ rows }) => rows.length > 0);
}

/** Those of the ranking, of both lists of sentiment and of the watchlist, by their place of the day. */
function listSymbols(report: FlowReport): readonly ListedSymbol[] {
  const watched = new Set(report.watchlist.map(({ symbol }) => symbol));
  const flows = [
    ...report.topSymbols,
    ...report.mostBullish,
    ...report.mostBearish,
    ...report.watchlist.flatMap(({ flow }) => (flow === null ? [] : [flow])),
  ];
  return [...new Map(flows.map((flow) => [flow.symbol, flow])).values()]
    .toSorted((a, b) => a.place - b.place)
    .map((flow) => ({ ...flow, watched: watched.has(flow.symbol) }));
}

/** The symbols in full first, then the rest of the ranking. */
function listExposures({ focus, top }: Exposure): readonly (RankedExposure & Partial<SymbolExposure>)[] {
  const known = new Set(focus.map(({ symbol }) => symbol));
  return [...focus, ...top.filter(({ symbol }) => !known.has(symbol))];
}

/** Without a price of the underlying the sums are 0 and mean nothing. */
function priced(sum: Exclude<keyof ExposureSums, 'contracts'>): (row: RankedExposure) => number | null {
  return (row) => (row.spot === null ? null : row[sum]);
}

const PREMIUM_COLUMNS: readonly ColumnReader<Premium>[] = PREMIUM_NUMBERS.map((number) => ({
  ...readColumn(number),
  heading: number.heading ?? null,
}));

/** Numbers as columns that people read too. */
function listColumns<Key extends keyof Premium>(keys: readonly Key[]): readonly ColumnReader<Pick<Premium, Key>>[] {
  return keys.flatMap((key) =>
    PREMIUM_NUMBERS.filter((number) => number.key === key).map((number) => readColumn({ ...number, key })),
  );
}

function readColumn<Key extends keyof Premium>({
  key,
  name,
  unit,
  label,
  heading = label,
}: Omit<PremiumNumber, 'key'> & { readonly key: Key }): ColumnReader<Pick<Premium, Key>> {
  return { name, kind: KIND_OF[unit], heading, read: (row) => row[key] };
}

/** Bullish less bearish premium, and which of the two it is. */
const LEAN: readonly MailColumn<Pick<Premium, 'bullish' | 'bearish'>>[] = [
  { name: 'lean', print: (row) => formatSignedDollars(leanOf(row)) },
  { name: 'tone', print: (row) => toneOf(leanOf(row)) },
];

type ListedSymbol = SymbolFlow & { readonly watched?: boolean };

const SYMBOL_COLUMNS: readonly ColumnReader<ListedSymbol>[] = [
  shown(
    'Symbol',
    'symbol',
    'text',
    (row) => row.symbol,
    ({ symbol }) => nameSymbol(symbol),
  ),
  kept('place', 'count', (row) => row.place),
  kept('watched', 'flag', (row) => row.watched ?? false),
  ...PREMIUM_COLUMNS,
];

const SYMBOLS: MailTable<ListedSymbol> = {
  columns: SYMBOL_COLUMNS,
  html: [
    ['symbol', 'Symbol'],
    ['premium', 'Premium'],
    ['call_premium', 'Calls', 'wide'],
    ['put_premium', 'Puts', 'wide'],
    ['bullish_premium', 'Bullish', 'bullish'],
    ['neutral_premium', 'Neutral', 'wide'],
    ['bearish_premium', 'Bearish', 'bearish'],
    ['trades', 'Trades', 'wide'],
  ],
  text: [
    ['symbol', 'Symbol', 12],
    ['premium', 'Premium', 9],
    ['call_premium', 'Calls', 9],
    ['put_premium', 'Puts', 9],
    ['bullish_premium', 'Bullish', 9],
    ['bearish_premium', 'Bearish', 9],
    ['neutral_premium', 'Neutral', 9],
    ['trades', 'Trades', 9],
  ],
};

/** The most bullish and the most bearish. */
export const LEANING: MailTable<SymbolFlow> = {
  columns: [...SYMBOL_COLUMNS, ...LEAN],
  html: [
    ['symbol', 'Symbol'],
    ['lean', 'Net bullish', 'tone', 'bold'],
    ['premium', 'Premium'],
    ['put_call_by_premium', 'Put/call'],
  ],
  text: [
    ['symbol', '', 14],
    ['lean', 'Bull-bear', 11],
    ['premium', 'Premium', 10],
    ['put_call_by_premium', 'Put/call', 10],
  ],
};

/** The largest of a dataset, in a digest. */
const DIGEST_SYMBOLS: Pick<MailTable<SymbolFlow>, 'html' | 'text'> = {
  html: [
    ['symbol', 'Symbol'],
    ['premium', 'Premium'],
    ['lean', 'Net bullish', 'tone'],
    ['put_call_by_premium', 'Put/call', 'wide'],
  ],
  text: [
    ['symbol', 'Symbol', 12],
    ['premium', 'Premium', 9],
    ['lean', 'Bull-bear', 11],
    ['put_call_by_premium', 'Put/call', 10],
  ],
};

const HALF_HOUR_COLUMNS: readonly ColumnReader<HalfHour>[] = [
  shown('From', 'start', 'text', (row) => row.start),
  ...PREMIUM_COLUMNS,
];

const PART_COLUMNS = listColumns(PART_KEYS);

/** By expiration or by moneyness. */
export const PARTS: MailTable<PremiumPart & { readonly title: string; readonly share: Amount }> = {
  columns: [
    { name: 'title', print: ({ title }) => title },
    { name: 'share', print: ({ share }) => formatPart(share) },
    ...PART_COLUMNS,
  ],
  html: [
    ['title', ''],
    ['premium', 'Premium'],
    ['share', 'Share', 'bold'],
    ['call_premium', 'Calls'],
    ['put_premium', 'Puts'],
    ['trades', 'Trades', 'wide'],
  ],
  text: [
    ['title', '', 18],
    ['premium', 'Premium', 9],
    ['share', 'Share', 8],
    ['call_premium', 'Calls', 9],
    ['put_premium', 'Puts', 9],
    ['trades', 'Trades', 9],
  ],
};

const UNUSUAL_COLUMNS: readonly ColumnReader<UnusualSymbol>[] = [
  shown(
    'Symbol',
    'symbol',
    'text',
    (row) => row.symbol,
    ({ symbol }) => nameSymbol(symbol),
  ),
  shown('Premium', 'premium', 'dollars', (row) => row.premium),
  shown(
    'Session before',
    'previous_premium',
    'dollars',
    (row) => row.previous,
    ({ previous }) => (previous === null ? NONE : formatDollars(previous)),
  ),
  shown('Mean', 'mean_premium', 'dollars', (row) => row.mean),
  shown(
    'Premium / mean',
    'ratio',
    'ratio',
    (row) => row.ratio,
    ({ ratio }) => formatTimes(ratio),
  ),
  shown('Sessions', 'sessions', 'count', (row) => row.sessions),
  ...listColumns(DIRECTION_KEYS),
];

export const UNUSUAL: MailTable<UnusualSymbol & { readonly meanSessions: number }> = {
  columns: [
    ...UNUSUAL_COLUMNS,
    ...LEAN,
    { name: 'sessions', print: (row) => `${formatCount(row.sessions)} of ${formatCount(row.meanSessions)}` },
  ],
  html: [
    ['symbol', 'Symbol'],
    ['premium', 'Premium'],
    ['previous_premium', 'Previous', 'wide'],
    ['mean_premium', 'Its mean'],
    ['ratio', 'Times', 'bold'],
    ['lean', 'Net bullish', 'wide', 'tone'],
  ],
  text: [
    ['symbol', 'Symbol', 12],
    ['premium', 'Premium', 9],
    ['previous_premium', 'Previous', 10],
    ['mean_premium', 'Its mean', 10],
    ['ratio', 'Times', 9],
    ['sessions', 'Sessions', 10],
    ['lean', 'Bull-bear', 11],
  ],
};

const TRADE_COLUMNS: readonly ColumnReader<BigTrade>[] = [
  shown('Time', 'time', 'text', (row) => row.time),
  kept('id', 'text', (row) => row.id),
  kept('symbol', 'text', (row) => row.symbol),
  shown('Contract', 'contract', 'text', (row) => row.contract),
  shown('Size', 'size', 'count', (row) => row.size),
  shown('Price', 'price', 'price', (row) => row.price),
  shown('Premium', 'premium', 'dollars', (row) => row.premium),
  shown('Side', 'side', 'text', (row) => row.side),
  shown('Sentiment', 'sentiment', 'text', (row) => row.sentiment),
  shown('Spot', 'spot', 'price', (row) => row.spot),
  shown('OI', 'open_interest', 'count', (row) => row.openInterest),
  shown('IV', 'implied_volatility', 'fraction', (row) => row.impliedVolatility),
  shown('Days', 'days_to_expiration', 'count', (row) => row.days),
  shown('Type', 'option_activity_type', 'text', (row) => row.activityType),
  kept('multi_leg', 'flag', (row) => row.multiLeg),
  kept('sweep', 'flag', (row) => row.sweep),
];

const EXPOSURE_COLUMNS: readonly ColumnReader<RankedExposure & Partial<SymbolExposure>>[] = [
  shown('Symbol', 'symbol', 'text', (row) => row.symbol),
  shown('Spot', 'spot', 'price', (row) => row.spot),
  shown('Net GEX', 'net_gex', 'dollars', priced('netGex')),
  shown('Calls', 'call_gex', 'dollars', priced('callGex')),
  shown('Puts', 'put_gex', 'dollars', priced('putGex')),
  shown('Net delta', 'net_dex', 'dollars', priced('netDex')),
  kept('call_dex', 'dollars', priced('callDex')),
  kept('put_dex', 'dollars', priced('putDex')),
  kept('contracts', 'count', (row) => row.contracts),
  shown('Zero gamma', 'zero_gamma', 'price', (row) => row.zeroGamma ?? null),
  shown('Call wall', 'call_wall', 'price', (row) => row.callWall ?? null),
  shown('Put wall', 'put_wall', 'price', (row) => row.putWall ?? null),
  shown('Abs. gamma', 'absolute_gamma_strike', 'price', (row) => row.absoluteGammaStrike ?? null),
  kept('market_structure_gex', 'dollars', (row) => row.marketStructure?.intradayGex ?? null),
  kept('market_structure_difference', 'fraction', (row) => row.marketStructure?.difference ?? null),
];

type GexSums = Pick<StrikeGex, 'callGex' | 'putGex' | 'netGex'>;

const GEX_COLUMNS: readonly ColumnReader<GexSums>[] = [
  shown(
    'Call GEX',
    'call_gex',
    'dollars',
    (row) => row.callGex,
    ({ callGex }) => formatSignedDollars(callGex),
  ),
  shown(
    'Put GEX',
    'put_gex',
    'dollars',
    (row) => row.putGex,
    ({ putGex }) => formatSignedDollars(putGex),
  ),
  shown(
    'Net GEX',
    'net_gex',
    'dollars',
    (row) => row.netGex,
    ({ netGex }) => formatSignedDollars(netGex),
  ),
];

const STRIKE_COLUMNS: readonly ColumnReader<StrikeGex & { readonly symbol: string }>[] = [
  shown('Symbol', 'symbol', 'text', (row) => row.symbol),
  shown('Strike', 'strike', 'price', (row) => row.strike),
  ...GEX_COLUMNS,
];

const EXPIRATION_COLUMNS: readonly ColumnReader<ExpirationGex & { readonly symbol: string }>[] = [
  shown('Symbol', 'symbol', 'text', (row) => row.symbol),
  shown('Expiration', 'expiration_date', 'date', (row) => row.expirationDate),
  ...GEX_COLUMNS,
];

/** Of the lead symbol; its later expirations together are a row without parts. */
export const EXPIRATIONS: MailTable<GexSums & { readonly title: string }> = {
  columns: [{ name: 'title', print: ({ title }) => title }, ...GEX_COLUMNS],
  html: [
    ['title', 'Expiration'],
    ['call_gex', 'Calls'],
    ['put_gex', 'Puts'],
    ['net_gex', 'Net', 'bold'],
  ],
  text: [
    ['title', '', 24],
    ['call_gex', 'Calls', 9],
    ['put_gex', 'Puts', 9],
    ['net_gex', 'Net GEX', 9],
  ],
};

/** For the templates. */
export const MAIL_TABLES = {
  symbols: SYMBOLS,
  leaning: LEANING,
  digest: DIGEST_SYMBOLS,
  unusual: UNUSUAL,
  parts: PARTS,
  expirations: EXPIRATIONS,
} as const;
