/**
 * Exposure and implied volatility: what the files of `sql` are filled in with. The report computes its tables with the text that
 * it prints; two steps before them have a second, faster form for ClickHouse (`series-state.ts`). A series whose contracts are
 * not 100 shares counts as 0, and one that settled at the opening; a value that is impossible for a long option counts as 0 in
 * its own series and affects nothing else. Pure.
 */
import type { Families } from '../../api-contract/family.ts';
import {
  BUSINESS_DAYS_PER_YEAR,
  countWeekdays,
  DAYS_PER_WEEK,
  PRICE_LEVELS,
  WEEKDAYS,
} from '../../exposure/gamma-exposure.ts';
import { buildChainTable, hasAdjustedRoot, isSettledOn, writeColumns } from '../records.ts';
import { type Opening, selectOpened } from './opened.ts';
import { buildSpots } from './series-state.ts';
import { fillSql, type SqlValues } from './sql.ts';

/** The number of strikes that a chart in a mail can show as separate bars. */
export const NEAR_STRIKES = 60;
/** Rows of the expiration table, for a phone's screen. */
export const FIRST_EXPIRATIONS = 12;
/** Expirations of a symbol whose volatility is listed: the term structure from days to about a year. */
export const EXPIRATIONS = 12;
/** How far the strike at the money may be from the spot, as a part of it: contracts that traded have gaps. */
export const NEAR_MONEY = 0.05;

/** What exposure and volatility are computed from. */
export const CHAIN_COLUMNS: readonly string[] = [
  ...['symbol', 'option_symbol', 'expiration_date', 'put_call', 'strike'],
  ...['open_interest', 'iv', 'delta', 'gamma'],
];

export interface ExposureScope {
  /** Trading date, YYYY-MM-DD. */
  readonly date: string;
  /** Symbols that are shown as one. */
  readonly families: Families;
}

/** The condition of the report: of the parameter `shown`. */
export const IS_SHOWN = 'has({shown:Array(String)}, symbol)';

const [LOWEST = 0, HIGHEST = 0] = [PRICE_LEVELS[0], PRICE_LEVELS.at(-1)];

/** A Monday. */
const FIRST_DAY = "DATE '1970-01-05'";
const DAYS_TO = `date_diff('day', ${FIRST_DAY}, expiration_date)`;

const FIXED: SqlValues = {
  nearStrikes: NEAR_STRIKES,
  firstExpirations: FIRST_EXPIRATIONS,
  expirations: EXPIRATIONS,
  isMiddle: `place = 1 AND abs(strike - spot) <= ${NEAR_MONEY} * spot`,
  // The delta of the skew, and how far from it a contract may be.
  ...{ skewDelta: 0.25, skewReach: 0.1 },
  // Calendar days of a year, as for an implied volatility that is quoted per year.
  yearDays: 365,
  // Below this (0.0001%), volatility is practically 0: all gamma is between two prices of the profile.
  leastVolatility: 1e-6,
  ...{ lowest: LOWEST, span: (HIGHEST - LOWEST).toFixed(1), lastLevel: PRICE_LEVELS.length - 1 },
  businessDays: BUSINESS_DAYS_PER_YEAR,
  // Weekdays from a Monday to an expiration, as in `exposure/gamma-exposure.ts`.
  weekdaysTo: `floor(${DAYS_TO} / ${DAYS_PER_WEEK}) * ${WEEKDAYS} + least(${DAYS_TO} % ${DAYS_PER_WEEK}, ${WEEKDAYS})`,
};

/** The tables of the symbols with details, by their file. */
export const DETAILS = {
  walls: 'Walls',
  'gex-by-strike': 'GEX by strike',
  'gex-by-expiration': 'GEX by expiration',
  'max-pain': 'Max pain, vanna and charm',
  'market-structure': 'Market structure',
  'zero-gamma': 'Zero gamma',
  volatility: 'Implied volatility',
} as const;

/**
 * One of these tables, from `series` and `spots`, without its `WITH`.
 * @param isShown condition on `symbol` @param structure the market-structure drop, for a FROM clause
 */
export function selectDetails(
  file: keyof typeof DETAILS,
  isShown: string,
  { date }: ExposureScope,
  structure = '',
): string {
  return fillSql(file, {
    ...FIXED,
    ...{ date, isShown, structure },
    isSeriesShown: isShown.replace('symbol', 'series.symbol'),
    weekdays: countWeekdays(date),
  });
}

/** A chain drop under the symbols of families, for a FROM clause. */
export function nameChain(chain: string, families: Families): string {
  return `(SELECT ${writeColumns(false, families)} FROM ${chain})`;
}

/**
 * All series of the symbols that traded: those that traded, or the whole chain of a symbol that has one, from `states`.
 * @param chain the table of `nameChain`
 */
export function selectSeries(chain: string | null, { date, families }: ExposureScope): string {
  if (chain === null) return fillSql('series');
  return fillSql('series-of-chain', {
    chain,
    members: Object.values(families)
      .flat()
      .map((name) => `'${name}'`)
      .join(', '),
    chainTable: buildChainTable(chain, CHAIN_COLUMNS),
    isSettled: isSettledOn(date),
    hasAdjustedRoot: hasAdjustedRoot('option_symbol'),
  });
}

/** What readers rebuild: the symbols with details, and the contracts that the session before may have opened. */
export interface RebuiltExposure extends ExposureScope {
  readonly focus: readonly string[];
  readonly openings: readonly Opening[];
}

/**
 * The queries for readers. @param with_ how a query begins, with `states`
 * @param tables for FROM clauses: the counted records, the chain and the market-structure drop; null without one
 */
export function buildExposureQueries(
  with_: string,
  tables: { readonly counted: string; readonly chain: string | null; readonly structure: string | null },
  scope: RebuiltExposure,
): readonly (readonly [table: string, sql: string])[] {
  const { counted, chain, structure } = tables;
  const state = `${with_},\n${buildSpots(counted)},\nseries AS (\n${selectSeries(chain, scope)}\n),\n`;
  const symbols = scope.focus.filter(isQuotable).map((symbol) => `'${symbol.replaceAll("'", "''")}'`);
  const files = (Object.keys(DETAILS) as (keyof typeof DETAILS)[]) // `Object.keys` loses the key type.
    .filter((file) => symbols.length > 0 && (structure !== null || file !== 'market-structure'));
  const isShown = `symbol IN (${symbols.join(', ')})`;
  return [
    ['GEX by symbol', `${state}${fillSql('ranked', { date: scope.date })}\nSELECT * FROM ranked ORDER BY place`],
    ...(scope.openings.length === 0 ? [] : [['Opened or closed', `${state}${selectOpened(scope.openings)}`] as const]),
    ...files.map((file) => [DETAILS[file], `${state}${selectDetails(file, isShown, scope, structure ?? '')}`] as const),
  ];
}

/** The two readers disagree on a backslash in a text. */
function isQuotable(symbol: string): boolean {
  return !/[\\\p{C}]/u.test(symbol);
}
