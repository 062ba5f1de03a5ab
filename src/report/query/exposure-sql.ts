/**
 * Exposure and implied volatility as SQL for ClickHouse and DuckDB: the report computes its tables with the text that it
 * prints. Two steps before them have a second, faster form for ClickHouse, in which they take a quarter of the time: `spots`
 * and `states` (`series-state.ts`). A series whose contracts are not 100 shares counts as 0, and one that settled at the
 * opening; a value that is impossible for a long option counts as 0 in its own series and affects nothing else. Pure.
 */
import {
  BUSINESS_DAYS_PER_YEAR,
  countWeekdays,
  DAYS_PER_WEEK,
  MOVE,
  PRICE_LEVELS,
  SHARES_PER_CONTRACT,
  WEEKDAYS,
} from '../../exposure/gamma-exposure.ts';
import { sumWhere } from '../number-values.ts';
import { buildChainTable, hasAdjustedRoot, IS_CALL, IS_PUT, isSettledOn, ROOT, STRIKE } from '../records.ts';
import { buildSpots, STATE_KEY } from './series-state.ts';

/** The number of strikes that a chart in a mail can show as separate bars. */
export const NEAR_STRIKES = 60;
/** Rows of the expiration table, for a phone's screen; later expirations are one row. */
export const FIRST_EXPIRATIONS = 12;
/** Expirations of a symbol whose volatility is listed: the term structure from days to about a year. */
export const EXPIRATIONS = 12;
/** How far the strike at the money may be from the spot, as a part of it: contracts that traded have gaps. */
export const NEAR_MONEY = 0.05;
/** The delta of the skew, and how far from it a contract may be. */
const [SKEW_DELTA, SKEW_REACH] = [0.25, 0.1];
/** Calendar days of a year, as for an implied volatility that is quoted per year. */
const YEAR_DAYS = 365;
/** Below this (0.0001%), volatility is practically 0: all gamma is between two prices of the profile. */
const LEAST_VOLATILITY = 1e-6;

/** What exposure and volatility are computed from. */
export const CHAIN_COLUMNS: readonly string[] = [
  ...['symbol', 'option_symbol', 'expiration_date', 'put_call', 'strike'],
  ...['open_interest', 'iv', 'delta', 'gamma'],
];

export interface ExposureScope {
  /** Trading date, YYYY-MM-DD. */
  readonly date: string;
  /** Whether zero gamma counts contracts that expire this date, with a time of 1/262. */
  readonly keepsExpiring: boolean;
}

/**
 * The queries for readers. @param with_ how a query begins, with `states`
 * @param tables for FROM clauses: the counted records, the chain and the market-structure drop; null without one
 * @param focus the symbols with details
 */
export function buildExposureQueries(
  with_: string,
  tables: { readonly counted: string; readonly chain: string | null; readonly structure: string | null },
  scope: ExposureScope & { readonly focus: readonly string[] },
): readonly (readonly [table: string, sql: string])[] {
  const { counted, chain, structure } = tables;
  const { date, keepsExpiring, focus } = scope;
  const state = `${with_},${buildSpots(counted)},\nseries AS (${selectSeries(chain, date)}),`;
  const symbols = focus.filter(isQuotable).map((symbol) => `'${symbol.replaceAll("'", "''")}'`);
  const isShown = `symbol IN (${symbols.join(', ')})`;
  const details = [
    ['Walls', selectWalls(isShown)],
    ['GEX by strike', selectStrikes(isShown)],
    ['GEX by expiration', selectExpirations(isShown)],
    ...(structure === null ? [] : [['Market structure', selectStructure(structure, isShown)] as const]),
    ['Zero gamma', selectZeroGamma(isShown, { date, keepsExpiring })],
    ['Implied volatility', selectVolatility(isShown, date)],
  ] as const;
  return [
    ['GEX by symbol', `${RANKED}\nSELECT * FROM ranked ORDER BY place`] as const,
    ...(symbols.length === 0 ? [] : details),
  ].map(([table, sql]) => [table, `${state}${sql}`]);
}

/** The two readers disagree on a backslash in a text. */
function isQuotable(symbol: string): boolean {
  return !/[\\\p{C}]/u.test(symbol);
}

/**
 * All series of the symbols that traded: those that traded, or the whole chain of a symbol that has one, with the shares for
 * a contract that the trades show. @param chain the chain drop, for a FROM clause
 */
export function selectSeries(chain: string | null, date: string): string {
  const traded = `
  SELECT symbol, put_call, strike_price AS strike, expiration_date, is_settled, is_adjusted, is_unknown, 0 AS is_chain,
    CASE WHEN is_adjusted = 1 OR is_settled = 1 THEN 0 ELSE open_interest * shares / ${SHARES_PER_CONTRACT} END AS lots, sigma, own_gamma, own_delta, iv_delta
  FROM states`;
  if (chain === null) return `${traded}\n`;
  const on = STATE_KEY.split(', ').map((name) => `contracts.${name} = paid.${name}`);
  return `${traded} WHERE symbol NOT IN (SELECT symbol FROM ${chain})
  UNION ALL
  SELECT symbol, put_call, strike, expiration_date, is_settled, is_adjusted, CASE WHEN is_adjusted = 0 AND (gamma IS NULL OR open_interest IS NULL) THEN 1 ELSE 0 END AS is_unknown, 1 AS is_chain,
    CASE WHEN is_adjusted = 1 OR is_settled = 1 THEN 0 WHEN open_interest > 0 AND isFinite(open_interest) THEN open_interest * shares / ${SHARES_PER_CONTRACT} ELSE 0 END AS lots,
    CASE WHEN isFinite(iv) AND iv > 0 THEN iv ELSE 0 END AS sigma,
    CASE WHEN isFinite(gamma) AND gamma > 0 THEN gamma ELSE 0 END AS own_gamma,
    CASE WHEN put_call = 'CALL' AND delta BETWEEN 0 AND 1 THEN delta WHEN put_call = 'PUT' AND delta BETWEEN -1 AND 0 THEN delta ELSE 0 END AS own_delta, delta AS iv_delta
  FROM (
    SELECT contracts.symbol AS symbol, contracts.put_call AS put_call, contracts.strike_price AS strike, contracts.expiration_date AS expiration_date, is_settled, open_interest, iv, gamma, delta,
      coalesce(chain_shares, ${SHARES_PER_CONTRACT}) AS shares, CASE WHEN has_adjusted_root = 1 OR chain_shares = 0 THEN 1 ELSE 0 END AS is_adjusted
    FROM (
      SELECT *, ${ROOT} AS contract_root, ${STRIKE} AS strike_price,
        CASE WHEN ${isSettledOn(date)} THEN 1 ELSE 0 END AS is_settled, CASE WHEN coalesce(${hasAdjustedRoot('option_symbol')}, false) THEN 1 ELSE 0 END AS has_adjusted_root
      FROM ${buildChainTable(chain, CHAIN_COLUMNS)} AS listed WHERE symbol IN (SELECT symbol FROM states)
    ) AS contracts
    LEFT JOIN (SELECT ${STATE_KEY}, shares AS chain_shares FROM states WHERE shares <> ${SHARES_PER_CONTRACT}) AS paid
    ON ${on.join(' AND ')}
  ) AS adjusted
`;
}

/** The exposure of each series in dollars; without a price of the underlying it is 0. */
const WEIGHED = `
weighed AS (
  SELECT series.symbol AS symbol, coalesce(spots.spot, 0) AS spot, coalesce(spots.odd_prices, 0) AS odd_prices, put_call, strike, expiration_date, sigma, is_adjusted, is_unknown, is_chain,
    CASE WHEN ${IS_CALL} THEN lots WHEN ${IS_PUT} THEN -lots ELSE 0 END AS signed_lots,
    CASE WHEN ${IS_CALL} THEN lots ELSE 0 END * own_gamma * ${SHARES_PER_CONTRACT * MOVE} * coalesce(spots.spot, 0) * coalesce(spots.spot, 0) AS call_side,
    CASE WHEN ${IS_PUT} THEN -lots ELSE 0 END * own_gamma * ${SHARES_PER_CONTRACT * MOVE} * coalesce(spots.spot, 0) * coalesce(spots.spot, 0) AS put_side,
    lots * own_delta * ${SHARES_PER_CONTRACT} * coalesce(spots.spot, 0) AS delta_dollars
  FROM series LEFT JOIN spots ON series.symbol = spots.symbol
)`;

const SIDES = 'sum(call_side) AS call_gex, sum(put_side) AS put_gex';

/** Every symbol that traded: largest net exposure first, symbols without a price of the underlying last. */
export const RANKED = `${WEIGHED},
exposures AS (
  SELECT symbol, spot, ${SIDES}, ${sumWhere(IS_CALL, 'delta_dollars')} AS call_dex, ${sumWhere(IS_PUT, 'delta_dollars')} AS put_dex,
    count(*) AS contracts, sum(is_adjusted) AS adjusted_contracts, sum(is_unknown) AS unknown_contracts, max(is_chain) AS is_whole_chain, max(odd_prices) AS left_out_prices
  FROM weighed GROUP BY symbol, spot
),
ranked AS (
  SELECT symbol, spot, call_gex, put_gex, call_gex + put_gex AS net_gex, call_dex, put_dex, call_dex + put_dex AS net_dex, contracts, adjusted_contracts, unknown_contracts, is_whole_chain, left_out_prices,
    row_number() OVER (ORDER BY CASE WHEN spot > 0 THEN 0 ELSE 1 END, abs(call_gex + put_gex) DESC, symbol) AS place
  FROM exposures
)`;

function sumStrikes(isShown: string): string {
  return `${WEIGHED},
strikes AS (SELECT symbol, spot, strike, ${SIDES} FROM weighed WHERE ${isShown} AND strike > 0 AND isFinite(strike) GROUP BY symbol, spot, strike)`;
}

/** The lowest of equal strikes; null if no strike has such exposure. @param isShown condition on `symbol` */
export function selectWalls(isShown: string): string {
  const place = (order: string) => `row_number() OVER (PARTITION BY symbol ORDER BY ${order}, strike)`;
  const first = (of: string, size: string) => `min(CASE WHEN ${of} = 1 AND ${size} > 0 THEN strike END)`;
  return `${sumStrikes(isShown)},
placed AS (
  SELECT *, ${place('call_gex DESC')} AS call_place, ${place('put_gex')} AS put_place, ${place('call_gex - put_gex DESC')} AS size_place
  FROM strikes
)
SELECT symbol, ${first('call_place', 'call_gex')} AS call_wall, ${first('put_place', '-put_gex')} AS put_wall, ${first('size_place', 'call_gex - put_gex')} AS absolute_gamma_strike
FROM placed GROUP BY symbol ORDER BY symbol`;
}

export function selectStrikes(isShown: string): string {
  return `${sumStrikes(isShown)}
SELECT symbol, strike, call_gex, put_gex, call_gex + put_gex AS net_gex FROM (
  SELECT *, row_number() OVER (PARTITION BY symbol ORDER BY abs(strike - spot), strike) AS place FROM strikes WHERE call_gex > 0 OR put_gex < 0
) AS near WHERE place <= ${NEAR_STRIKES} ORDER BY symbol, strike`;
}

/** With the part of the symbol's gamma that rolls off; later expirations are one row without a date. */
export function selectExpirations(isShown: string): string {
  return `${WEIGHED},
dated AS (SELECT symbol, expiration_date, ${SIDES} FROM weighed WHERE ${isShown} GROUP BY symbol, expiration_date),
sized AS (SELECT *, sum(call_gex - put_gex) OVER (PARTITION BY symbol) AS all_gamma FROM dated),
placed AS (
  SELECT *, row_number() OVER (PARTITION BY symbol ORDER BY expiration_date) AS place
  FROM sized WHERE expiration_date IS NOT NULL AND (call_gex > 0 OR put_gex < 0)
),
folded AS (SELECT symbol, CASE WHEN place <= ${FIRST_EXPIRATIONS} THEN expiration_date END AS expires, call_gex AS call_side, put_gex AS put_side, all_gamma FROM placed)
SELECT symbol, expires AS expiration_date, ${SIDES}, sum(call_side) + sum(put_side) AS net_gex, sum(call_side - put_side) / max(all_gamma) AS share_of_gamma, count(*) AS expirations
FROM folded GROUP BY symbol, expires ORDER BY symbol, expires NULLS LAST`;
}

/** The newest summary of each symbol beside our exposure; the difference is a part of the larger of the two. */
export function selectStructure(structure: string, isShown: string): string {
  const larger = 'greatest(abs(net_gex), abs(intraday_gex))';
  return `${RANKED},
theirs AS (
  SELECT symbol, spot AS their_spot, call_gex AS their_call_gex, put_gex AS their_put_gex, call_gex + put_gex AS intraday_gex, intraday_gex_as_of AS as_of, row_number() OVER (PARTITION BY symbol ORDER BY intraday_gex_as_of DESC NULLS LAST) AS age
  FROM ${structure} WHERE ${isShown} AND isFinite(call_gex) AND isFinite(put_gex)
)
SELECT ranked.symbol AS symbol, net_gex, intraday_gex, CASE WHEN ${larger} = 0 THEN 0 ELSE (net_gex - intraday_gex) / ${larger} END AS difference, their_spot, their_call_gex, their_put_gex, as_of
FROM ranked INNER JOIN theirs ON ranked.symbol = theirs.symbol WHERE age = 1 AND ranked.spot > 0 ORDER BY 1`;
}

/** Weekdays from a Monday to an expiration, as in `exposure/gamma-exposure.ts`. */
const WEEKDAYS_TO = `floor(date_diff('day', DATE '1970-01-05', expiration_date) / ${DAYS_PER_WEEK}) * ${WEEKDAYS} + least(date_diff('day', DATE '1970-01-05', expiration_date) % ${DAYS_PER_WEEK}, ${WEEKDAYS})`;

/** Net exposure at each price of `PRICE_LEVELS`, and the straight line's zero between the first two of opposite sign. */
export function selectZeroGamma(isShown: string, { date, keepsExpiring }: ExposureScope): string {
  const [lowest = 0] = PRICE_LEVELS;
  const last = PRICE_LEVELS.length - 1;
  return `${WEIGHED},
alive AS (
  SELECT symbol, spot, signed_lots, strike, sigma * sqrt(greatest(1, ${WEEKDAYS_TO} - ${countWeekdays(date)}) / ${BUSINESS_DAYS_PER_YEAR}) AS width
  FROM weighed WHERE ${isShown} AND spot > 0 AND sigma >= ${LEAST_VOLATILITY} AND signed_lots <> 0 AND strike > 0 AND isFinite(strike) AND expiration_date ${keepsExpiring ? '>=' : '>'} DATE '${date}'
),
priced AS (
  SELECT symbol, signed_lots, strike, width, spot * (${lowest} + ${((PRICE_LEVELS[last] ?? 0) - lowest).toFixed(1)} * generate_series / ${last}) AS price
  FROM alive CROSS JOIN generate_series(0, ${last}) AS levels
),
profile AS (
  SELECT symbol, price, sum(signed_lots * price / width * exp(-pow(ln(price / strike) / width + width / 2, 2) / 2)) AS net
  FROM priced GROUP BY symbol, price
),
known AS (SELECT *, min(CASE WHEN isFinite(net) THEN 1 ELSE 0 END) OVER (PARTITION BY symbol) AS is_known FROM profile),
placed AS (SELECT symbol, price, net, row_number() OVER (PARTITION BY symbol ORDER BY price) AS place FROM known WHERE net <> 0 AND is_known = 1)
SELECT lower.symbol AS symbol, min(lower.price + (upper.price - lower.price) * lower.net / (lower.net - upper.net)) AS zero_gamma
FROM placed AS lower INNER JOIN placed AS upper ON lower.symbol = upper.symbol AND upper.place = lower.place + 1
WHERE (lower.net < 0) <> (upper.net < 0) GROUP BY lower.symbol ORDER BY 1`;
}

/** By expiration: at the money, the 25-delta skew, and the move that it expects. */
export function selectVolatility(isShown: string, date: string): string {
  const wing = (right: string, distance: string) =>
    `max(CASE WHEN put_call = '${right}' AND wing = 1 AND ${distance} <= ${SKEW_REACH} THEN sigma END)`;
  const middle = (value: string) =>
    `max(CASE WHEN place = 1 AND abs(strike - spot) <= ${NEAR_MONEY} * spot THEN ${value} END)`;
  const [ofPut, ofCall] = [`abs(iv_delta + ${SKEW_DELTA})`, `abs(iv_delta - ${SKEW_DELTA})`];
  return `
placed AS (
  SELECT series.symbol AS symbol, spot, put_call, strike, expiration_date, sigma, iv_delta, avg(sigma) OVER (PARTITION BY series.symbol, expiration_date, strike) AS mean_sigma,
    row_number() OVER (PARTITION BY series.symbol, expiration_date ORDER BY abs(strike - spot), strike) AS place,
    row_number() OVER (PARTITION BY series.symbol, expiration_date, put_call ORDER BY CASE WHEN isFinite(iv_delta) THEN CASE WHEN ${IS_PUT} THEN ${ofPut} ELSE ${ofCall} END END NULLS LAST, strike) AS wing,
    dense_rank() OVER (PARTITION BY series.symbol ORDER BY expiration_date) AS term
  FROM series INNER JOIN spots ON series.symbol = spots.symbol
  WHERE ${isShown.replace('symbol', 'series.symbol')} AND sigma > 0 AND strike > 0 AND isFinite(strike) AND expiration_date >= DATE '${date}' AND is_settled = 0
)
SELECT symbol, expiration_date, date_diff('day', DATE '${date}', expiration_date) AS days, ${middle('mean_sigma')} AS at_the_money, ${middle('strike')} AS at_strike, ${wing('PUT', ofPut)} - ${wing('CALL', ofCall)} AS skew,
  max(spot) * ${middle('mean_sigma')} * sqrt(nullif(date_diff('day', DATE '${date}', expiration_date), 0) / ${YEAR_DAYS}) AS expected_move
FROM placed WHERE term <= ${EXPIRATIONS} GROUP BY symbol, expiration_date ORDER BY symbol, expiration_date`;
}
