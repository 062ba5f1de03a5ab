/**
 * The tables of the report and their columns, for the attached files, the page and the PDF. They leave out a table without rows, because an empty file says less than none. Symbols and exposures that the
 * mail shows in several places are one table there, each symbol once. Columns of numbers come from `numbers.ts`.
 */
import { divide } from './amount.ts';
import { buildKeyNumberTable } from './key-numbers.ts';
import type {
  BigTrade,
  ContractFlow,
  Driver,
  ExpirationGex,
  ExpirationVolatility,
  Exposure,
  ExposureSums,
  FlowReport,
  GexSums,
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
import { type AttachedTable, buildTable, type ColumnReader, KIND_OF, kept, shown } from './report-table.ts';
import { nameBasis } from './text/label.ts';

/** @param focus the symbols whose strikes and expirations are listed */
export function listTables(report: FlowReport, focus = report.exposure.focus): readonly AttachedTable[] {
  const { exposure, drivers, headline } = report;
  const build = <Row>(name: string, title: string, rows: readonly Row[], columns: readonly ColumnReader<Row>[]) =>
    buildTable({ name, title, date: report.drop.date }, rows, columns);
  const moved = drivers.top.map((row) => ({ ...row, earnings: findEarnings(report, row.symbol) }));
  const [expiries, moneyness] = headline.trades === 0 ? [[], []] : [report.expiries, report.moneyness];
  const strikes = focus.flatMap(({ symbol, strikes: own }) => own.map((row) => ({ symbol, ...row })));
  const expirations = focus.flatMap(({ symbol, expirations: own }) => own.map((row) => ({ symbol, ...row })));
  const compared = focus.filter(({ marketStructure }) => marketStructure !== null);
  return [
    buildKeyNumberTable(report),
    build('moved', 'What moved the day', moved, DRIVER_COLUMNS),
    build('symbols', 'Premium by symbol', listSymbols(report), SYMBOL_COLUMNS),
    build('unusual-symbols', 'Unusual activity', report.unusual, UNUSUAL_COLUMNS),
    build('half-hours', 'Premium by half hour', report.halfHours, HALF_HOUR_COLUMNS),
    build('expirations', 'Premium by days to expiration', expiries, listPartColumns('Expires')),
    build('moneyness', 'Premium by moneyness', moneyness, listPartColumns('Moneyness')),
    build('biggest-trades', 'Biggest trades', report.biggestTrades, TRADE_COLUMNS),
    build('biggest-sweeps', 'Biggest sweeps', report.biggestSweeps, TRADE_COLUMNS),
    build('contracts', 'Contracts by premium', report.topContracts, CONTRACT_COLUMNS),
    build('volatility', 'Implied volatility', report.volatility, VOLATILITY_COLUMNS),
    build('gex-by-symbol', 'Exposure by symbol', listExposures(exposure), EXPOSURE_COLUMNS),
    build('gex-by-strike', 'GEX by strike', strikes, STRIKE_COLUMNS),
    build('gex-by-expiration', 'GEX by expiration', expirations, EXPIRATION_COLUMNS),
    build('market-structure', 'GEX beside the market-structure endpoint', compared, STRUCTURE_COLUMNS),
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

/** Within ten days; null if none are known. */
function findEarnings({ earnings }: FlowReport, symbol: string): string | null {
  return earnings.find((row) => row.symbol === symbol)?.day ?? null;
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

type ListedSymbol = SymbolFlow & { readonly watched?: boolean };

const SYMBOL = shown<{ readonly symbol: string }>('Symbol', 'symbol', 'text', (row) => row.symbol);

const SYMBOL_COLUMNS: readonly ColumnReader<ListedSymbol>[] = [
  SYMBOL,
  kept('place', 'count', (row) => row.place),
  kept('watched', 'flag', (row) => row.watched ?? false),
  ...PREMIUM_COLUMNS,
];

const HALF_HOUR_COLUMNS: readonly ColumnReader<HalfHour>[] = [
  shown('From', 'start', 'text', (row) => row.start),
  ...PREMIUM_COLUMNS,
];

/** Of a part of the day, by expiration or moneyness. */
function listPartColumns(heading: string): readonly ColumnReader<PremiumPart & { readonly bucket: string }>[] {
  return [shown(heading, 'bucket', 'bucket', ({ bucket }) => bucket), ...listColumns(PART_KEYS)];
}

const UNUSUAL_COLUMNS: readonly ColumnReader<UnusualSymbol>[] = [
  SYMBOL,
  shown('Premium', 'premium', 'dollars', (row) => row.premium),
  shown('Session before', 'previous_premium', 'dollars', (row) => row.previous),
  shown('Mean', 'mean_premium', 'dollars', (row) => row.mean),
  shown('Premium / mean', 'ratio', 'ratio', (row) => row.ratio),
  shown('Sessions traded', 'sessions', 'count', (row) => row.sessions),
  ...listColumns(DIRECTION_KEYS),
];

const DRIVER_COLUMNS: readonly ColumnReader<Driver & { readonly earnings: string | null }>[] = [
  SYMBOL,
  shown('Right', 'right', 'text', (row) => row.right),
  shown('Expires', 'expiration_date', 'date', (row) => row.expirationDate),
  shown('Premium', 'premium', 'dollars', (row) => row.premium),
  shown('Bullish', 'bullish_premium', 'dollars', (row) => row.bullish),
  shown('Bearish', 'bearish_premium', 'dollars', (row) => row.bearish),
  shown('Earnings', 'earnings_date', 'date', (row) => row.earnings),
];

const TRADE_COLUMNS: readonly ColumnReader<BigTrade>[] = [
  shown('Time', 'time', 'text', (row) => row.time),
  kept('id', 'text', (row) => row.id),
  kept('symbol', 'text', (row) => row.symbol),
  shown('Contract', 'contract', 'contract', (row) => row.contract),
  shown('Size', 'size', 'count', (row) => row.size),
  shown('Price', 'price', 'price', (row) => row.price),
  shown('Premium', 'premium', 'dollars', (row) => row.premium),
  shown('Side', 'side', 'code', (row) => row.side),
  shown('Sentiment', 'sentiment', 'code', (row) => row.sentiment),
  shown('Spot', 'spot', 'price', (row) => row.spot),
  shown('OI', 'open_interest', 'count', (row) => row.openInterest),
  shown('IV', 'implied_volatility', 'fraction', (row) => row.impliedVolatility),
  shown('Days', 'days_to_expiration', 'count', (row) => row.days),
  shown('Type', 'option_activity_type', 'code', (row) => row.activityType),
  kept('multi_leg', 'flag', (row) => row.multiLeg),
  kept('sweep', 'flag', (row) => row.sweep),
];

const CONTRACT_COLUMNS: readonly ColumnReader<ContractFlow>[] = [
  kept('symbol', 'text', (row) => row.symbol),
  shown('Contract', 'contract', 'contract', (row) => row.contract),
  shown('Premium', 'premium', 'dollars', (row) => row.premium),
  shown('Trades', 'trades', 'count', (row) => row.trades),
  shown('Volume', 'volume', 'count', (row) => row.volume),
  shown('OI', 'open_interest', 'count', (row) => row.openInterest),
  shown('Volume / OI', 'volume_to_open_interest', 'ratio', (row) => divide(row.volume, row.openInterest)),
  shown('Bullish', 'bullish_premium', 'dollars', (row) => row.bullish),
  shown('Bearish', 'bearish_premium', 'dollars', (row) => row.bearish),
];

const VOLATILITY_COLUMNS: readonly ColumnReader<ExpirationVolatility>[] = [
  SYMBOL,
  shown('Expires', 'expiration_date', 'date', (row) => row.expirationDate),
  shown('Days', 'days', 'count', (row) => row.days),
  shown('IV at the money', 'at_the_money_volatility', 'fraction', (row) => row.atTheMoney),
  shown('Strike', 'at_the_money_strike', 'price', (row) => row.strike),
  shown('25-delta skew', 'skew_25_delta', 'points', (row) => row.skew),
  shown('Expected move', 'expected_move', 'price', (row) => row.expectedMove),
];

const EXPOSURE_COLUMNS: readonly ColumnReader<RankedExposure & Partial<SymbolExposure>>[] = [
  SYMBOL,
  shown('Of', 'basis', 'text', (row) => nameBasis(row)),
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

const GEX_COLUMNS: readonly ColumnReader<GexSums>[] = [
  shown('Call GEX', 'call_gex', 'dollars', (row) => row.callGex),
  shown('Put GEX', 'put_gex', 'dollars', (row) => row.putGex),
  shown('Net GEX', 'net_gex', 'dollars', (row) => row.netGex),
];

const STRIKE_COLUMNS: readonly ColumnReader<StrikeGex & { readonly symbol: string }>[] = [
  SYMBOL,
  shown('Strike', 'strike', 'price', (row) => row.strike),
  ...GEX_COLUMNS,
];

const EXPIRATION_COLUMNS: readonly ColumnReader<ExpirationGex & { readonly symbol: string }>[] = [
  SYMBOL,
  shown('Expiration', 'expiration_date', 'date', (row) => row.expirationDate),
  ...GEX_COLUMNS,
  shown('Share of gamma', 'share_of_gamma', 'fraction', (row) => row.share),
];

/** Our exposure beside that of the market-structure endpoint. */
const STRUCTURE_COLUMNS: readonly ColumnReader<SymbolExposure>[] = [
  SYMBOL,
  shown('Our net GEX', 'net_gex', 'dollars', priced('netGex')),
  shown('Intraday GEX', 'intraday_gex', 'dollars', (row) => row.marketStructure?.intradayGex ?? null),
  shown('Difference', 'difference', 'fraction', (row) => row.marketStructure?.difference ?? null),
];
