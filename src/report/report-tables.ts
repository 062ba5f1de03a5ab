/**
 * The tables of the report and their columns, for the attached files, the page and the PDF. They leave out a table without rows, because an empty file says less than none. Symbols and exposures that the
 * mail shows in several places are one table there, each symbol once. Columns of numbers come from `numbers.ts`.
 */

import type { LevelChange } from './changes.ts';
import {
  EXPIRATION_COLUMNS,
  type Exposure,
  type ExposureLevels,
  type ExposureSums,
  PAIN_COLUMNS,
  type RankedExposure,
  STRIKE_COLUMNS,
  type SymbolExposure,
  VOLATILITY_COLUMNS,
  type ZeroGamma,
} from './exposure-model.ts';
import { buildKeyNumberTable, readChange } from './key-numbers.ts';
import {
  BIG_TRADE_COLUMNS,
  CONTRACT_COLUMNS,
  DRIVER_COLUMNS,
  type FlowReport,
  LEFT_OUT_COLUMNS,
  OPENED_COLUMNS,
  SYMBOL,
  UNUSUAL_COLUMNS,
} from './model.ts';
import { DIRECTION_KEYS, KEY_NUMBERS, PART_KEYS, PREMIUM_NUMBERS, type Premium } from './numbers.ts';
import { type AttachedTable, buildTable, type ColumnReader, field, KIND_OF, maybe, shown } from './report-table.ts';
import { nameBasis } from './text/label.ts';
import { DAY_STATES, WEEK_EXPIRED_COLUMNS, WEEK_OPENED_COLUMNS, type Week, type WeekDay } from './week-model.ts';

/** @param focus the symbols whose strikes, expirations and levels are listed */
export function listTables(report: FlowReport, focus = report.exposure.focus): readonly AttachedTable[] {
  const { exposure, drivers, headline } = report;
  const build = <Row>(name: string, title: string, rows: readonly Row[], columns: readonly ColumnReader<Row>[]) =>
    buildTable({ name, title, date: report.drop.date }, rows, columns);
  const moved = drivers.top.map((row) => ({ ...row, earnings: findEarnings(report, row.symbol) }));
  const [expiries, moneyness] = headline.trades === 0 ? [[], []] : [report.expiries, report.moneyness];
  const isOfFocus = (row: { readonly symbol: string }) => focus.some(({ symbol }) => symbol === row.symbol);
  const strikes = focus.flatMap(({ symbol, strikes: own }) => own.map((row) => ({ symbol, ...row })));
  const expirations = focus.flatMap(({ symbol, expirations: own }) => own.map((row) => ({ symbol, ...row })));
  const pains = focus.flatMap(({ symbol, pains: own }) => own.map((row) => ({ symbol, ...row })));
  // Where there is one, the table of exposure has it.
  const zeros = focus
    .filter(({ zeroGammas }) => zeroGammas.some(({ place }) => place > 1))
    .flatMap(({ symbol, zeroGammas }) => zeroGammas.map((row) => ({ symbol, ...row })));
  const compared = focus.filter(({ marketStructure }) => marketStructure !== null);
  return [
    ...(report.week === undefined ? [] : listWeekTables(report.week, build)),
    buildKeyNumberTable(report),
    build('moved', 'What moved the day', moved, [
      ...DRIVER_COLUMNS,
      maybe('Earnings', 'earnings', 'date', 'earnings_date'),
    ]),
    build('symbols', 'Premium by symbol', listSymbols(report), SYMBOL_COLUMNS),
    build('unusual-symbols', 'Unusual activity', report.unusual, [...UNUSUAL_COLUMNS, ...listColumns(DIRECTION_KEYS)]),
    build('half-hours', 'Premium by half hour', report.halfHours, HALF_HOUR_COLUMNS),
    build('expirations', 'Premium by days to expiration', expiries, listPartColumns('Expires')),
    build('moneyness', 'Premium by moneyness', moneyness, listPartColumns('Moneyness')),
    build('biggest-trades', 'Biggest trades', report.biggestTrades, BIG_TRADE_COLUMNS),
    build('biggest-sweeps', 'Biggest sweeps', report.biggestSweeps, BIG_TRADE_COLUMNS),
    build('left-out-trades', 'Largest trades left out', report.biggestLeftOut, LEFT_OUT_COLUMNS),
    build('contracts', 'Contracts by premium', report.topContracts, CONTRACT_COLUMNS),
    build('opened-contracts', 'Opened or closed since the session before', report.opened, OPENED_COLUMNS),
    build('volatility', 'Implied volatility', report.volatility.filter(isOfFocus), VOLATILITY_COLUMNS),
    build(
      'exposure-changes',
      'Exposure and volatility since the session before',
      report.comparison.levels.filter(isOfFocus),
      CHANGE_COLUMNS,
    ),
    build('gex-by-symbol', 'Exposure by symbol', listExposures(exposure), EXPOSURE_COLUMNS),
    build('zero-gamma', 'Every zero gamma', zeros, ZERO_COLUMNS),
    build('gex-by-strike', 'GEX by strike', strikes, [SYMBOL, ...STRIKE_COLUMNS]),
    build('gex-by-expiration', 'GEX by expiration', expirations, [SYMBOL, ...EXPIRATION_COLUMNS]),
    build('max-pain', 'Max pain, vanna and charm', pains, [SYMBOL, ...PAIN_COLUMNS]),
    build('market-structure', 'GEX beside the market-structure endpoint', compared, STRUCTURE_COLUMNS),
  ].filter(({ rows }) => rows.length > 0);
}

type BuildTable = <Row>(
  name: string,
  title: string,
  rows: readonly Row[],
  columns: readonly ColumnReader<Row>[],
) => AttachedTable;

function listWeekTables({ days, before, expiredSymbols, opened }: Week, build: BuildTable): readonly AttachedTable[] {
  const all = [...days, ...before.flat().toReversed()].toSorted((a, b) => (a.date < b.date ? 1 : -1));
  return [
    build('days', 'Each day of these weeks', all, DAY_COLUMNS),
    build('expired-in-the-week', 'What expired in the week', expiredSymbols, WEEK_EXPIRED_COLUMNS),
    build('opened-in-the-week', 'What was opened in the week', opened, WEEK_OPENED_COLUMNS),
  ];
}

/** Symbols of the ranking, of both sentiment lists and of the watchlist, by their place of the day. */
function listSymbols(report: FlowReport) {
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

const PREMIUM_COLUMNS = PREMIUM_NUMBERS.map(({ key, name, unit, heading = null }) =>
  maybe(heading, key, KIND_OF[unit], name),
);

/** Numbers as columns that people also see. */
function listColumns<Key extends keyof Premium>(keys: readonly Key[]) {
  return keys.flatMap((key) =>
    PREMIUM_NUMBERS.filter((number) => number.key === key).map(({ name, unit, label, heading = label }) =>
      maybe(heading, key, KIND_OF[unit], name),
    ),
  );
}

const SYMBOL_COLUMNS = [SYMBOL, field(null, 'place', 'count'), field(null, 'watched', 'flag'), ...PREMIUM_COLUMNS];

const HALF_HOUR_COLUMNS = [field('From', 'start', 'text'), ...PREMIUM_COLUMNS];

/** Of a part of the day, by expiration or moneyness. */
function listPartColumns(heading: string) {
  return [field(heading, 'bucket', 'bucket'), ...listColumns(PART_KEYS)];
}

const EXPOSURE_COLUMNS: readonly ColumnReader<RankedExposure & Partial<SymbolExposure>>[] = [
  SYMBOL,
  shown('Of', 'basis', 'text', (row) => nameBasis(row)),
  maybe('Spot', 'spot', 'price'),
  shown('Net GEX', 'net_gex', 'dollars', priced('netGex')),
  shown(null, 'net_gex_after_expiration', 'dollars', priced('netGexAfter')),
  shown('Calls', 'call_gex', 'dollars', priced('callGex')),
  shown('Puts', 'put_gex', 'dollars', priced('putGex')),
  shown('Net delta', 'net_dex', 'dollars', priced('netDex')),
  shown(null, 'net_dex_after_expiration', 'dollars', priced('netDexAfter')),
  shown(null, 'call_dex', 'dollars', priced('callDex')),
  shown(null, 'put_dex', 'dollars', priced('putDex')),
  field(null, 'contracts', 'count'),
  field(null, 'endedContracts', 'count', 'expiring_contracts'),
  level('Zero gamma', 'zero_gamma', 'zeroGamma'),
  level(null, 'zero_gamma_after_expiration', 'zeroGammaAfter'),
  level('Call wall', 'call_wall', 'callWall'),
  level(null, 'call_wall_after_expiration', 'callWallAfter'),
  level('Put wall', 'put_wall', 'putWall'),
  level(null, 'put_wall_after_expiration', 'putWallAfter'),
  level('Abs. gamma', 'absolute_gamma_strike', 'absoluteGammaStrike'),
  shown(null, 'market_structure_gex', 'dollars', (row) => row.marketStructure?.intradayGex ?? null),
  shown(null, 'market_structure_difference', 'fraction', (row) => row.marketStructure?.difference ?? null),
];

const CHANGE_COLUMNS: readonly ColumnReader<LevelChange>[] = [
  SYMBOL,
  field('Number', 'label', 'text', 'name'),
  field(null, 'unit', 'text'),
  maybe('Latest', 'latest', 'measure'),
  maybe('Session before', 'previous', 'measure'),
  shown('Change', 'change', 'change', readChange),
  maybe('Median', 'median', 'measure'),
  shown('Above', 'sessions_above', 'count', ({ place }) => place?.above ?? null),
  shown('Of sessions', 'sessions', 'count', ({ place }) => place?.sessions ?? null),
];

const DAY_COLUMNS: readonly ColumnReader<WeekDay>[] = [
  field('Day', 'date', 'date', 'day'),
  shown('State', 'state', 'text', ({ state }) => DAY_STATES[state]),
  field(null, 'reason', 'text'),
  // A page has no room for all: the others are in files.
  ...KEY_NUMBERS.map(({ key, name, unit, mailName }) =>
    shown(
      unit === 'share' || key === 'volumeAboveOpenInterest' ? null : mailName,
      name,
      KIND_OF[unit],
      ({ numbers }: WeekDay) => numbers?.[key] ?? null,
    ),
  ),
];

/** Of symbols with details only. */
function level(heading: string | null, name: string, key: keyof ExposureLevels) {
  return shown(heading, name, 'price', (row: Partial<ExposureLevels>) => row[key] ?? null);
}

const ZERO_COLUMNS: readonly ColumnReader<ZeroGamma & { readonly symbol: string }>[] = [
  SYMBOL,
  shown('Of', 'contracts', 'text', ({ isAfter }) => (isAfter ? 'after expiration' : 'at the close')),
  field('Zero gamma', 'zeroGamma', 'price'),
  field('From the spot', 'place', 'count'),
];

/** Our exposure beside that of the market-structure endpoint. */
const STRUCTURE_COLUMNS: readonly ColumnReader<SymbolExposure>[] = [
  SYMBOL,
  shown('Our net GEX', 'net_gex', 'dollars', priced('netGex')),
  shown('Intraday GEX', 'intraday_gex', 'dollars', (row) => row.marketStructure?.intradayGex ?? null),
  shown('Difference', 'difference', 'fraction', (row) => row.marketStructure?.difference ?? null),
];
