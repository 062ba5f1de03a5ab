/**
 * The tables of the report and their columns, for the attached files, the PDF, and the mail's HTML and text. Files and
 * the PDF leave out a table without rows, because an empty file says less than none. Symbols and exposures that the
 * mail shows in several places are one table there, each symbol once. Columns of numbers come from `numbers.ts`.
 */
import { formatCount, formatDollars, formatSignedDollars } from '../core/units.ts';
import { type Amount, leanOf } from './amount.ts';
import { buildKeyNumberTable } from './key-numbers.ts';
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
  type InMail,
  KIND_OF,
  kept,
  layOut,
  type MailColumn,
  type MailTable,
  shown,
} from './report-table.ts';
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

/** Symbols of the ranking, of both sentiment lists and of the watchlist, by their place of the day. */
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

/** The detailed symbols first, then the rest of the ranking. */
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

/** Numbers as columns that people also see. */
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

/** Bullish minus bearish premium, and which of the two is larger. */
const LEAN: readonly MailColumn<Pick<Premium, 'bullish' | 'bearish'>>[] = [
  { name: 'lean', heading: 'Net bullish', textHeading: 'Bull-bear', print: (row) => formatSignedDollars(leanOf(row)) },
  { name: 'tone', heading: '', print: (row) => toneOf(leanOf(row)) },
];

type ListedSymbol = SymbolFlow & { readonly watched?: boolean };

const SYMBOL = shown<{ readonly symbol: string }>('Symbol', 'symbol', 'text', (row) => row.symbol, {
  print: ({ symbol }) => nameSymbol(symbol),
});

const SYMBOL_COLUMNS: readonly ColumnReader<ListedSymbol>[] = [
  SYMBOL,
  kept('place', 'count', (row) => row.place),
  kept('watched', 'flag', (row) => row.watched ?? false),
  ...PREMIUM_COLUMNS,
];

const SYMBOLS: MailTable<ListedSymbol> = {
  columns: SYMBOL_COLUMNS,
  html: {
    symbol: '',
    premium: '',
    call_premium: 'wide',
    put_premium: 'wide',
    bullish_premium: 'bullish',
    neutral_premium: 'wide',
    bearish_premium: 'bearish',
    trades: 'wide',
  },
  text: {
    symbol: 12,
    premium: 9,
    call_premium: 9,
    put_premium: 9,
    bullish_premium: 9,
    bearish_premium: 9,
    neutral_premium: 9,
    trades: 9,
  },
};

/** The most bullish and the most bearish. */
export const LEANING: MailTable<SymbolFlow> = {
  columns: [...SYMBOL_COLUMNS, ...LEAN],
  html: { symbol: '', lean: 'tone bold', premium: '', put_call_by_premium: '' },
  text: { symbol: 14, lean: 11, premium: 10, put_call_by_premium: 10 },
};

/** The largest symbols of a dataset, in a digest. */
const DIGEST_SYMBOLS: MailTable<SymbolFlow> = {
  columns: LEANING.columns,
  html: { symbol: '', premium: '', lean: 'tone', put_call_by_premium: 'wide' },
  text: { symbol: 12, premium: 9, lean: 11, put_call_by_premium: 10 },
};

const HALF_HOUR_COLUMNS: readonly ColumnReader<HalfHour>[] = [
  shown('From', 'start', 'text', (row) => row.start),
  ...PREMIUM_COLUMNS,
];

const PART_COLUMNS = listColumns(PART_KEYS);

/** By expiration or by moneyness. */
export const PARTS: MailTable<PremiumPart & { readonly title: string; readonly share: Amount }> = {
  columns: [
    { name: 'title', heading: '', print: ({ title }) => title },
    { name: 'share', heading: 'Share', print: ({ share }) => formatPart(share) },
    ...PART_COLUMNS,
  ],
  html: { title: '', premium: '', share: 'bold', call_premium: '', put_premium: '', trades: 'wide' },
  text: { title: 18, premium: 9, share: 8, call_premium: 9, put_premium: 9, trades: 9 },
};

const UNUSUAL_COLUMNS: readonly ColumnReader<UnusualSymbol>[] = [
  SYMBOL,
  shown('Premium', 'premium', 'dollars', (row) => row.premium),
  shown('Session before', 'previous_premium', 'dollars', (row) => row.previous, {
    mailHeading: 'Previous',
    print: ({ previous }) => (previous === null ? NONE : formatDollars(previous)),
  }),
  shown('Mean', 'mean_premium', 'dollars', (row) => row.mean, { mailHeading: 'Its mean' }),
  shown('Premium / mean', 'ratio', 'ratio', (row) => row.ratio, {
    mailHeading: 'Times',
    print: ({ ratio }) => formatTimes(ratio),
  }),
  shown('Sessions', 'sessions', 'count', (row) => row.sessions),
  ...listColumns(DIRECTION_KEYS),
];

export const UNUSUAL: MailTable<UnusualSymbol & { readonly meanSessions: number }> = {
  columns: [
    ...UNUSUAL_COLUMNS,
    ...LEAN,
    {
      name: 'sessions',
      heading: 'Sessions',
      print: (row) => `${formatCount(row.sessions)} of ${formatCount(row.meanSessions)}`,
    },
  ],
  html: { symbol: '', premium: '', previous_premium: 'wide', mean_premium: '', ratio: 'bold', lean: 'wide tone' },
  text: { symbol: 12, premium: 9, previous_premium: 10, mean_premium: 10, ratio: 9, sessions: 10, lean: 11 },
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
  SYMBOL,
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
  gexColumn('Call GEX', 'call_gex', 'callGex', { mailHeading: 'Calls' }),
  gexColumn('Put GEX', 'put_gex', 'putGex', { mailHeading: 'Puts' }),
  gexColumn('Net GEX', 'net_gex', 'netGex', { mailHeading: 'Net', textHeading: 'Net GEX' }),
];

function gexColumn(heading: string, name: string, sum: keyof GexSums, inMail: InMail<GexSums>): ColumnReader<GexSums> {
  return {
    name,
    kind: 'dollars',
    heading,
    read: (row) => row[sum],
    print: (row) => formatSignedDollars(row[sum]),
    ...inMail,
  };
}

const STRIKE_COLUMNS: readonly ColumnReader<StrikeGex & { readonly symbol: string }>[] = [
  SYMBOL,
  shown('Strike', 'strike', 'price', (row) => row.strike),
  ...GEX_COLUMNS,
];

const EXPIRATION_COLUMNS: readonly ColumnReader<ExpirationGex & { readonly symbol: string }>[] = [
  SYMBOL,
  shown('Expiration', 'expiration_date', 'date', (row) => row.expirationDate),
  ...GEX_COLUMNS,
];

/** Expirations of the lead symbol; the last row sums the later ones, without calls and puts. */
export const EXPIRATIONS: MailTable<GexSums & { readonly title: string }> = {
  columns: [{ name: 'title', heading: 'Expiration', print: ({ title }) => title }, ...GEX_COLUMNS],
  html: { title: '', call_gex: '', put_gex: '', net_gex: 'bold' },
  text: { title: 24, call_gex: 9, put_gex: 9, net_gex: 9 },
};

/** Layouts for the templates. */
export const MAIL_TABLES = {
  symbols: layOut(SYMBOLS),
  leaning: layOut(LEANING),
  digest: layOut(DIGEST_SYMBOLS),
  unusual: layOut(UNUSUAL),
  parts: layOut(PARTS),
  expirations: layOut(EXPIRATIONS),
};
