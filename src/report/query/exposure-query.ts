/**
 * The SQL of gamma and delta exposure: in one pass over the counted records, the engine computes the latest state of
 * every series, the sums of every symbol, and the details of a few symbols. Invariants: the result is bounded
 * (`TOP_EXPOSURES` and the `focus` symbols, each with at most `NEAR_STRIKES` strikes and `FIRST_EXPIRATIONS`
 * expirations). A series whose contracts are not 100 shares counts as 0, and one that settled at the opening. A value that is impossible for a long option (a gamma below 0, a call's delta outside 0..1, a put's
 * outside -1..0, a negative open interest, infinity or NaN) counts as 0 in its own series and affects nothing else.
 * `exposure.ts` defines the numbers.
 */

import { quoteString } from '../../engine/literal.ts';
import { MOVE, SHARES_PER_CONTRACT } from '../../exposure/gamma-exposure.ts';
import {
  BUSINESS_DAYS_PER_YEAR,
  countWeekdays,
  DAYS_PER_WEEK,
  FIRST_MONDAY,
  PRICE_LEVELS,
  WEEKDAYS,
} from '../../exposure/zero-gamma.ts';
import type { EngineNumber } from '../amount.ts';
import { hasAdjustedRoot, isSettledOn, SERIES_HASH, STRIKE } from '../records.ts';
import { RECENT_RECORDS, SIGN, selectSeries, selectSpots } from './series-state.ts';

/** Symbols of the ranking: few enough to read at a glance. */
export const TOP_EXPOSURES = 10;
/** Symbols with odd prices that are named. */
const ODD_SYMBOLS = 5;
/** The number of strikes that a chart in a mail can show as separate bars. */
export const NEAR_STRIKES = 60;
/** Rows of the expiration table, for a phone's screen; later expirations are one row. */
export const FIRST_EXPIRATIONS = 12;

/**
 * Below this (0.0001%), volatility is practically 0: all gamma is between two prices of the profile, and d1 overflows.
 */
export const LEAST_VOLATILITY = 1e-6;

/** One symbol; the arrays are empty unless its details were requested. */
export interface ExposureRow {
  readonly symbol: string;
  /** 0 if no record had a price. */
  readonly spot: number;
  readonly series: number;
  /** Series whose contracts are not 100 shares: they count as 0. */
  readonly adjusted: number;
  /** Other series without a gamma or an open interest. */
  readonly unknown: number;
  readonly call_gex: EngineNumber;
  readonly put_gex: EngineNumber;
  readonly call_dex: EngineNumber;
  readonly put_dex: EngineNumber;
  /** 1 = the largest absolute net GEX; symbols without a price come last. */
  readonly place: number;
  readonly all_series: number;
  readonly all_adjusted: number;
  readonly all_unknown: number;
  readonly all_call_gex: EngineNumber;
  readonly all_put_gex: EngineNumber;
  readonly all_call_dex: EngineNumber;
  readonly all_put_dex: EngineNumber;
  readonly unpriced: number;
  /** Records left out of the prices because they are odd, and the first of their symbols. */
  readonly all_odd_prices: number;
  readonly odd_symbols: readonly string[];
  /** 1 if its series are those of the chain. */
  readonly is_chain: number;
  /** Strike, call GEX, put GEX; nearest to the spot first. */
  readonly near_strikes: readonly (readonly [number, EngineNumber, EngineNumber])[];
  /** Date, call GEX, put GEX; ascending. */
  readonly first_expirations: readonly (readonly [string, EngineNumber, EngineNumber])[];
  readonly later_count: number;
  readonly later_net: EngineNumber;
  /** Strikes; null if no series has such exposure. */
  readonly call_wall: number | null;
  readonly put_wall: number | null;
  readonly absolute_gamma: number | null;
  /** The sums for `scaleGammaProfile`. */
  readonly profile: readonly EngineNumber[];
}

export interface ExposureScope {
  /** Trading date, YYYY-MM-DD. */
  readonly date: string;
  /** The chain drop of the date, as a FROM clause takes it, and its symbols: their series are the chain's. Null without one. */
  readonly chain: {
    readonly table: string;
    readonly symbols: readonly string[];
    readonly isDegraded?: boolean | undefined;
  } | null;
  /** Whether zero gamma counts contracts that expire this date, with a time of 1/262. */
  readonly keepsExpiring: boolean;
}

/**
 * Rows are ordered by place: those up to `TOP_EXPOSURES`, and the symbols of the parameter `focus` (Array(String)). The
 * symbols of `focus` and the first of the ranking have details.
 * @param table the counted records, for the FROM clause
 */
export function buildExposureQuery(table: string, { date, chain, keepsExpiring }: ExposureScope): string {
  return `WITH
    traded AS (${selectSeries(table, date)}),
    series AS (${chain === null ? 'SELECT *, 1 AS is_series, 0 AS of_chain FROM traded' : joinChain(chain, date)}),
    symbols AS (${selectSymbols()}),
    ranked AS (
      SELECT *, row_number() OVER (ORDER BY spot > 0 DESC, abs(call_gex + put_gex) DESC, symbol) AS place,
        sum(series) OVER () AS all_series, sum(call_gex) OVER () AS all_call_gex, sum(put_gex) OVER () AS all_put_gex,
        sum(call_dex) OVER () AS all_call_dex, sum(put_dex) OVER () AS all_put_dex, countIf(spot = 0) OVER () AS unpriced, sum(unknown) OVER () AS all_unknown, sum(adjusted) OVER () AS all_adjusted,
        sum(odd_prices) OVER () AS all_odd_prices, arraySlice(arraySort(groupArrayIf(symbol, odd_prices > 0) OVER ()), 1, ${ODD_SYMBOLS}) AS odd_symbols
      FROM symbols
    ),
    details AS (${selectDetails(date, keepsExpiring)})
    SELECT * EXCEPT (strikes, expirations),
      arraySlice(arraySort(s -> (abs(s.1 - spot), s.1), strikes), 1, ${NEAR_STRIKES}) AS near_strikes,
      arrayMap(e -> (toString(e.1), e.2, e.3), arraySlice(expirations, 1, ${FIRST_EXPIRATIONS})) AS first_expirations,
      greatest(length(expirations) - ${FIRST_EXPIRATIONS}, 0) AS later_count,
      arraySum(e -> e.2 + e.3, arraySlice(expirations, ${FIRST_EXPIRATIONS + 1})) AS later_net,
      ${selectStrike('s.2')} AS call_wall, ${selectStrike('-s.3')} AS put_wall, ${selectStrike('s.2 - s.3')} AS absolute_gamma
    FROM details ORDER BY place`;
}

/**
 * The series of the chain in place of the traded ones, of which only the shares for a contract stay: they show in what was
 * paid, which a chain does not say. One pass over the records: a condition on the symbols of the chain is a list, not a query.
 */
function joinChain({ table, symbols }: NonNullable<ExposureScope['chain']>, date: string): string {
  const isReplaced = `has([${symbols.map(quoteString).join(', ')}], root)`;
  const unless = (column: string) => `if(${isReplaced}, 0, ${column}) AS ${column}`;
  const kept = ['sign', 'lots', 'sigma', 'gamma_lots', 'delta_lots', 'is_unknown', 'is_adjusted'];
  const orZero = (column: string) => `if(isFinite(ifNull(${column}, nan)), ifNull(${column}, 0), 0)`;
  const scaled = ['lots', 'gamma_lots', 'delta_lots'].map((column) => `${column} * chain_shares / 100 AS ${column}`);
  return `SELECT * REPLACE (${scaled.join(', ')}, is_adjusted OR chain_shares = 0 AS is_adjusted) FROM (
    SELECT *, if(of_chain = 1, min(known_shares) OVER (PARTITION BY series), 100) AS least, if(of_chain = 1, max(known_shares) OVER (PARTITION BY series), 100) AS most,
      if(least != 100, least, most) AS chain_shares
    FROM (
      SELECT series, toFloat64(shares) AS known_shares, root, k, expires, ${kept.map(unless).join(', ')}, NOT ${isReplaced} AS is_series, 0 AS of_chain, last_prices
      FROM (SELECT * FROM traded)
    UNION ALL
    SELECT ${SERIES_HASH} AS series, 100. AS known_shares, symbol AS root, ${STRIKE} AS k, expiration_date AS expires,
      ${SIGN} AS sign,
      if(is_adjusted OR ${isSettledOn(date)}, 0, greatest(${orZero('open_interest')}, 0)) AS lots,
      ${orZero('iv')} AS sigma,
      sign * lots * greatest(${orZero('gamma')}, 0) AS gamma_lots,
      if(sign * ${orZero('delta')} BETWEEN 0 AND 1, lots * ${orZero('delta')}, 0) AS delta_lots,
      NOT is_adjusted AND (isNull(gamma) OR isNull(open_interest)) AS is_unknown,
      ifNull(${hasAdjustedRoot('option_symbol')}, 0) AS is_adjusted, 1 AS is_series, 1 AS of_chain, CAST([], 'Array(UInt128)') AS last_prices
    FROM ${table}))`;
}

/** One row per symbol, with its series packed into an array (40 bytes per series), so that the file is read once. */
function selectSymbols(): string {
  const sumSide = (column: string, sign: number) => `sumIf(${column}, sign = ${sign}) * ${SHARES_PER_CONTRACT}`;
  const perMove = `spot * spot * ${MOVE}`;
  const names = 'symbol, series, is_chain, unknown, adjusted, call_gamma, put_gamma, call_delta, put_delta, packed';
  const summed = `(
      SELECT root AS symbol, toUInt32(countIf(is_series)) AS series, max(of_chain) AS is_chain, toUInt32(countIf(is_unknown)) AS unknown, toUInt32(countIf(is_adjusted)) AS adjusted,
        ${sumSide('gamma_lots', 1)} AS call_gamma, ${sumSide('gamma_lots', -1)} AS put_gamma,
        ${sumSide('delta_lots', 1)} AS call_delta, ${sumSide('delta_lots', -1)} AS put_delta,
        groupArray((sign, k, expires, gamma_lots, lots, sigma)) AS packed, groupArraySortedArray(${RECENT_RECORDS})(last_prices) AS last_prices
      FROM series GROUP BY root HAVING countIf(NOT of_chain) > 0
    )`;
  return `SELECT * EXCEPT (call_gamma, put_gamma, call_delta, put_delta, records, sound),
      call_gamma * ${perMove} AS call_gex, put_gamma * ${perMove} AS put_gex, call_delta * spot AS call_dex, put_delta * spot AS put_dex
    FROM (${selectSpots(summed, names)})`;
}

/**
 * Sums of the detailed symbols by strike, by expiration, and at each price of the gamma profile. A symbol that is only
 * ranked keeps one row of zeros (LEFT ARRAY JOIN). `sumMap` sorts by key and drops keys whose sums are all 0.
 */
function selectDetails(date: string, keepsExpiring: boolean): string {
  const kept = [
    'spot',
    'series',
    'adjusted',
    'unknown',
    'call_gex',
    'put_gex',
    'call_dex',
    'put_dex',
    'place',
    'unpriced',
    'is_chain',
  ];
  const all = [
    'all_series',
    'all_adjusted',
    'all_unknown',
    'all_call_gex',
    'all_put_gex',
    'all_call_dex',
    'all_put_dex',
    'all_odd_prices',
    'odd_symbols',
  ];
  const dollars = `gamma_lots * spot * spot * ${SHARES_PER_CONTRACT * MOVE}`;
  const zipped = (key: string, condition: string) =>
    `arrayZip((sumMapIf([${key}], [call_side], [put_side], ${condition}) AS by_${key}).1, by_${key}.2, by_${key}.3)`;
  return `SELECT symbol, ${[...kept, ...all].map((name) => `any(${name}) AS ${name}`).join(', ')},
      ${zipped('k', 'k > 0 AND isFinite(k)')} AS strikes, ${zipped('expires', 'isNotNull(expires)')} AS expirations,
      sumForEach(arrayMap(level -> weight * exp(-pow(slope * (level + log_spot) + shift, 2) / 2), [${PRICE_LEVELS.map(Math.log).join(', ')}])) AS profile
    FROM (
      SELECT * EXCEPT (packed), log(spot) AS log_spot, item.1 AS sign, item.2 AS k, item.3 AS expires, item.4 AS gamma_lots,
        if(sign = 1, ${dollars}, 0) AS call_side, if(sign = -1, ${dollars}, 0) AS put_side,
        item.6 >= ${LEAST_VOLATILITY} AND item.5 > 0 AND k > 0 AND expires ${keepsExpiring ? '>=' : '>'} toDate32('${date}') AS alive,
        if(alive, 1 / (item.6 * sqrt(${yearsTo('expires', date)})), 1) AS slope,
        if(alive, sign * item.5 * slope, 0) AS weight,
        if(alive, 1 / (2 * slope) - slope * log(k), 0) AS shift
      FROM ranked LEFT ARRAY JOIN if(has({focus:Array(String)}, symbol) OR place = 1, packed, []) AS item
      WHERE place <= ${TOP_EXPOSURES} OR has({focus:Array(String)}, symbol)
    ) GROUP BY symbol`;
}

/** `countYears` of `exposure/zero-gamma.ts` over a column of dates. */
function yearsTo(column: string, date: string): string {
  const days = `(toInt32(${column}) - ${FIRST_MONDAY})`;
  const weekdays = `(intDiv(${days}, ${DAYS_PER_WEEK}) * ${WEEKDAYS} + least(${days} % ${DAYS_PER_WEEK}, ${WEEKDAYS}))`;
  return `greatest(1, ${weekdays} - ${countWeekdays(date)}) / ${BUSINESS_DAYS_PER_YEAR}`;
}

/** The strike with the largest `size`, the lowest of equals; null if no `size` is above 0. */
function selectStrike(size: string): string {
  const largest = `arraySort(s -> (-(${size}), s.1), arrayFilter(s -> ${size} > 0, strikes))[1]`;
  return `if(arrayExists(s -> ${size} > 0, strikes), ${largest}.1, NULL)`;
}
