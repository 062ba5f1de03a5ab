/**
 * The queries that rebuild exposure and implied volatility: plain SQL for ClickHouse and DuckDB, from the drop and, where
 * the report has one, the chain drop of its date. A second way to the numbers of `exposure-query.ts` and `volatility.ts`,
 * by the same conventions: joins and window functions in place of one pass. Pure.
 */

import { MOVE, SHARES_PER_CONTRACT } from '../../exposure/gamma-exposure.ts';
import {
  BUSINESS_DAYS_PER_YEAR,
  countWeekdays,
  DAYS_PER_WEEK,
  PRICE_LEVELS,
  WEEKDAYS,
} from '../../exposure/zero-gamma.ts';
import { sumWhere } from '../number-values.ts';
import {
  buildChainTable,
  hasAdjustedRoot,
  IS_CALL,
  IS_ODD_PART,
  IS_PUT,
  isSettledOn,
  PAID_PART,
  ROOT,
  readShares,
  SERIES_KEY,
  STRIKE,
} from '../records.ts';
import { CHAIN_COLUMNS } from './exposure.ts';
import { FIRST_EXPIRATIONS, LEAST_VOLATILITY, NEAR_STRIKES } from './exposure-query.ts';
import {
  IS_PRICED,
  NEIGHBORS,
  ODD_FACTOR,
  ODD_PRICE,
  PRICE_RANK,
  RECENT_RECORDS,
  SPOT_MINUTES,
  SPOT_RECORDS,
} from './series-state.ts';
import { EXPIRATIONS, NEAR_MONEY, SKEW_DELTA, SKEW_REACH, YEAR_DAYS } from './volatility.ts';

export interface RebuiltExposure {
  /** Trading date, YYYY-MM-DD. */
  readonly date: string;
  /** Whether zero gamma counts contracts that expire this date. */
  readonly keepsExpiring: boolean;
  /** The symbols with details. */
  readonly focus: readonly string[];
}

/** Each for a FROM clause. */
interface ExposureTables {
  /** The counted records. */
  readonly counted: string;
  /** The chain drop; null without one. */
  readonly chain: string | null;
  /** The market-structure drop; null without one. */
  readonly structure: string | null;
}

/** @param with_ how a query begins: `WITH`, or `WITH counted AS (...),` */
export function buildExposureQueries(
  with_: string,
  { counted, chain, structure }: ExposureTables,
  { date, keepsExpiring, focus }: RebuiltExposure,
): readonly (readonly [table: string, sql: string])[] {
  const weighed = `${with_}${buildSpots(counted)},${buildSeries(counted, chain, date)},${WEIGHED}`;
  const symbols = focus.filter(isQuotable).map((symbol) => `'${symbol.replaceAll("'", "''")}'`);
  const ranking: readonly [string, string] = ['GEX by symbol', `${weighed}${RANKING}`];
  if (symbols.length === 0) return [ranking];
  const isShown = `symbol IN (${symbols.join(', ')})`;
  return [
    ranking,
    ['Walls', `${weighed}${buildWalls(isShown)}`],
    ['GEX by strike', `${weighed}${buildStrikes(isShown)}`],
    ['GEX by expiration', `${weighed}${buildExpirations(isShown)}`],
    ...(structure === null ? [] : [['Market structure', `${weighed}${buildComparison(structure, isShown)}`] as const]),
    ['Zero gamma', `${weighed}${buildZeroGamma(isShown, date, keepsExpiring)}`],
    ['Implied volatility', `${with_}${buildSpots(counted)},${buildVolatility(counted, chain, isShown, date)}`],
  ];
}

/** The two readers disagree on a backslash in a text. */
function isQuotable(symbol: string): boolean {
  return !/[\\\p{C}]/u.test(symbol);
}

/** The price of each underlying, as `selectSpots` has it. */
function buildSpots(counted: string): string {
  return `
recent AS (
  SELECT symbol, time, underlying_price AS price, place FROM (
    SELECT symbol, time, underlying_price, row_number() OVER (PARTITION BY symbol ORDER BY quality, time DESC, underlying_price) AS place, quality, min(quality) OVER (PARTITION BY symbol) AS best
    FROM (SELECT symbol, time, underlying_price, ${PRICE_RANK} AS quality FROM ${counted} WHERE ${IS_PRICED}) AS priced
  ) AS placed WHERE quality = best AND place <= ${RECENT_RECORDS}
),
judged AS (
  SELECT own.symbol AS symbol, own.place AS place, min(own.time) AS time, min(own.price) AS price, CASE WHEN count(*) > 2 AND 2 * sum(CASE WHEN near.price > ${ODD_PRICE} * own.price OR near.price * ${ODD_PRICE} < own.price THEN 1 ELSE 0 END) > count(*) - 1 THEN 1 ELSE 0 END AS is_odd
  FROM recent AS own INNER JOIN recent AS near ON own.symbol = near.symbol
  WHERE near.place BETWEEN own.place - ${NEIGHBORS} AND own.place + ${NEIGHBORS} GROUP BY own.symbol, own.place
),
sound AS (
  SELECT symbol, time, price, row_number() OVER (PARTITION BY symbol ORDER BY place) AS place, max(time) OVER (PARTITION BY symbol) AS latest
  FROM (SELECT *, min(is_odd) OVER (PARTITION BY symbol) AS all_odd FROM judged) AS marked WHERE is_odd = all_odd
),
spots AS (
  SELECT symbol, median(price) AS spot FROM sound WHERE place <= ${SPOT_RECORDS} AND time >= latest - INTERVAL ${SPOT_MINUTES} MINUTE GROUP BY symbol
)`;
}

/**
 * The state of each series, as `selectSeries` has it: the last known values, unless one is odd beside the two before it; the
 * whole chain of the symbols that it has, with the shares for a contract that the trades show. A value that is impossible
 * is 0. `sigma` is the implied volatility.
 */
function buildSeries(counted: string, chain: string | null, date: string): string {
  const key = 'symbol, contract_root, put_call, strike_price, expiration_date';
  const isDead = `(coalesce(${hasAdjustedRoot('option_symbol')}, false) OR ${isSettledOn(date)})`;
  const known = {
    gamma: 'isFinite(gamma) AND gamma > 0',
    iv: 'isFinite(iv) AND iv > 0',
    delta: IS_KNOWN_DELTA,
  } as const;
  const places = Object.entries(known).map(
    ([name, condition]) =>
      `CASE WHEN ${condition} THEN sum(CASE WHEN ${condition} THEN 1 ELSE 0 END) OVER (PARTITION BY ${key} ORDER BY time DESC, abs(${name}) ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) END AS ${name}_place`,
  );
  const lasts = Object.keys(known).flatMap((name) =>
    [1, 2, 3].map((place) => `max(CASE WHEN ${name}_place = ${place} THEN ${name} END) AS ${name}${place}`),
  );
  // A put has only values below 0.
  const absolute = lasts.map((last) => last.replace('THEN delta END', 'THEN abs(delta) END'));
  const value = (name: string) =>
    `CASE WHEN ${name}2 IS NOT NULL AND ${name}1 >= ${ODD_FACTOR} * ${name}2 AND ${name}1 >= ${ODD_FACTOR} * coalesce(${name}3, 0) THEN ${name}2 ELSE coalesce(${name}1, 0) END`;
  const traded = `
states AS (
  SELECT ${key}, max(is_dead) AS is_dead, max(has_gamma) AS has_gamma, CASE WHEN max(oi) > 0 THEN max(CASE WHEN choice = 1 THEN oi END) ELSE 0 END AS open_interest,
    ${readShares('sum(is_odd)', 'sum(is_usual)', 'median(odd_part)')} AS shares,
    ${absolute.join(', ')}
  FROM (
    SELECT *, ${places.join(', ')},
      row_number() OVER (PARTITION BY ${key} ORDER BY CASE WHEN oi > 0 THEN 0 ELSE 1 END, CASE WHEN times > 1 THEN 0 ELSE 1 END, time DESC, oi DESC) AS choice
    FROM (
      SELECT *, count(*) OVER (PARTITION BY ${key}, oi) AS times FROM (
        SELECT symbol, ${ROOT} AS contract_root, put_call, ${STRIKE} AS strike_price, expiration_date, time, oi, gamma, delta, iv,
          CASE WHEN isFinite(gamma) THEN 1 ELSE 0 END AS has_gamma, CASE WHEN ${isDead} THEN 1 ELSE 0 END AS is_dead,
          CASE WHEN ${IS_ODD_PART} THEN 1 ELSE 0 END AS is_odd, CASE WHEN ${PAID_PART} IS NULL OR ${IS_ODD_PART} THEN 0 ELSE 1 END AS is_usual,
          CASE WHEN ${IS_ODD_PART} THEN ${PAID_PART} END AS odd_part
        FROM ${counted}
      ) AS keyed
    ) AS shown
  ) AS placed GROUP BY ${key}
),
series AS (
  SELECT symbol, put_call, strike_price AS strike, expiration_date, CASE WHEN is_dead = 1 THEN 0 ELSE open_interest * shares / 100 END AS lots,
    ${value('iv')} AS sigma, ${value('gamma')} AS own_gamma, (CASE WHEN ${IS_PUT} THEN -1 ELSE 1 END) * (${value('delta')}) AS own_delta
  FROM states`;
  if (chain === null) return `${traded}\n)`;
  return `${traded} WHERE symbol NOT IN (SELECT symbol FROM ${chain})
  UNION ALL
  SELECT contracts.symbol, contracts.put_call, contracts.strike_price AS strike, contracts.expiration_date,
    CASE WHEN contracts.is_dead = 1 THEN 0 WHEN contracts.open_interest > 0 THEN contracts.open_interest * coalesce(paid.chain_shares, 100) / 100 ELSE 0 END AS lots,
    CASE WHEN isFinite(iv) AND iv > 0 THEN iv ELSE 0 END AS sigma,
    CASE WHEN isFinite(gamma) AND gamma > 0 THEN gamma ELSE 0 END AS own_gamma,
    CASE WHEN contracts.put_call = 'CALL' AND delta BETWEEN 0 AND 1 THEN delta WHEN contracts.put_call = 'PUT' AND delta BETWEEN -1 AND 0 THEN delta ELSE 0 END AS own_delta
  FROM (
    SELECT *, CASE WHEN ${isDead} THEN 1 ELSE 0 END AS is_dead, ${ROOT} AS contract_root, ${STRIKE} AS strike_price
    FROM ${buildChainTable(chain, CHAIN_COLUMNS)} AS listed
  ) AS contracts
  LEFT JOIN (SELECT ${key}, shares AS chain_shares FROM states WHERE shares <> 100) AS paid
  ON ${key
    .split(', ')
    .map((name) => `contracts.${name} = paid.${name}`)
    .join(' AND ')}
)`;
}

/** As `KNOWN_DELTA`, for readers. */
const IS_KNOWN_DELTA = `(${IS_CALL} AND delta > 0 AND delta <= 1 OR ${IS_PUT} AND delta < 0 AND delta >= -1)`;

const WEIGHED = `
weighed AS (
  SELECT series.symbol AS symbol, spot, put_call, strike, expiration_date, sigma,
    CASE WHEN ${IS_CALL} THEN lots WHEN ${IS_PUT} THEN -lots ELSE 0 END AS signed_lots,
    CASE WHEN ${IS_CALL} THEN lots ELSE 0 END * own_gamma * ${SHARES_PER_CONTRACT * MOVE} * spot * spot AS call_side,
    CASE WHEN ${IS_PUT} THEN -lots ELSE 0 END * own_gamma * ${SHARES_PER_CONTRACT * MOVE} * spot * spot AS put_side,
    lots * own_delta * ${SHARES_PER_CONTRACT} * spot AS delta_dollars
  FROM series INNER JOIN spots ON series.symbol = spots.symbol
)`;

const SIDES = 'sum(call_side) AS call_gex, sum(put_side) AS put_gex';

const RANKING = `,
exposures AS (
  SELECT symbol, spot, ${SIDES}, ${sumWhere(IS_CALL, 'delta_dollars')} AS call_dex, ${sumWhere(IS_PUT, 'delta_dollars')} AS put_dex
  FROM weighed GROUP BY symbol, spot
)
SELECT symbol, spot, call_gex, put_gex, call_gex + put_gex AS net_gex, call_dex, put_dex, call_dex + put_dex AS net_dex
FROM exposures ORDER BY abs(call_gex + put_gex) DESC, symbol`;

function sumStrikes(isShown: string): string {
  return `,
strikes AS (SELECT symbol, spot, strike, ${SIDES} FROM weighed WHERE ${isShown} AND strike > 0 AND isFinite(strike) GROUP BY symbol, spot, strike)`;
}

/** The lowest of equal strikes; null if no strike has such exposure. */
function buildWalls(isShown: string): string {
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

function buildStrikes(isShown: string): string {
  return `${sumStrikes(isShown)}
SELECT symbol, strike, call_gex, put_gex, call_gex + put_gex AS net_gex FROM (
  SELECT *, row_number() OVER (PARTITION BY symbol ORDER BY abs(strike - spot), strike) AS place FROM strikes WHERE call_gex > 0 OR put_gex < 0
) AS near WHERE place <= ${NEAR_STRIKES} ORDER BY symbol, strike`;
}

/** With the part of the symbol's gamma that rolls off. */
function buildExpirations(isShown: string): string {
  return `,
expirations AS (SELECT symbol, expiration_date, ${SIDES} FROM weighed WHERE ${isShown} GROUP BY symbol, expiration_date),
sized AS (SELECT *, sum(call_gex - put_gex) OVER (PARTITION BY symbol) AS all_gamma FROM expirations)
SELECT symbol, expiration_date, call_gex, put_gex, call_gex + put_gex AS net_gex, (call_gex - put_gex) / all_gamma AS share_of_gamma FROM (
  SELECT *, row_number() OVER (PARTITION BY symbol ORDER BY expiration_date) AS place
  FROM sized WHERE expiration_date IS NOT NULL AND (call_gex > 0 OR put_gex < 0)
) AS near WHERE place <= ${FIRST_EXPIRATIONS} ORDER BY symbol, expiration_date`;
}

/** The newest summary of each symbol beside our exposure; the difference is a part of the larger of the two. */
function buildComparison(structure: string, isShown: string): string {
  const larger = 'greatest(abs(net_gex), abs(intraday_gex))';
  return `,
ours AS (SELECT symbol, sum(call_side) + sum(put_side) AS net_gex FROM weighed WHERE ${isShown} GROUP BY symbol),
theirs AS (
  SELECT symbol, call_gex + put_gex AS intraday_gex, row_number() OVER (PARTITION BY symbol ORDER BY intraday_gex_as_of DESC NULLS LAST) AS age
  FROM ${structure} WHERE ${isShown} AND isFinite(call_gex) AND isFinite(put_gex)
)
SELECT ours.symbol AS symbol, net_gex, intraday_gex, CASE WHEN ${larger} = 0 THEN 0 ELSE (net_gex - intraday_gex) / ${larger} END AS difference
FROM ours INNER JOIN theirs ON ours.symbol = theirs.symbol WHERE age = 1 ORDER BY 1`;
}

/** Weekdays from a Monday to an expiration, as in `exposure/zero-gamma.ts`. */
const WEEKDAYS_TO = `floor(date_diff('day', DATE '1970-01-05', expiration_date) / ${DAYS_PER_WEEK}) * ${WEEKDAYS} + least(date_diff('day', DATE '1970-01-05', expiration_date) % ${DAYS_PER_WEEK}, ${WEEKDAYS})`;

/** Net exposure at each price of `PRICE_LEVELS`, and the straight line's zero between the first two of opposite sign. */
function buildZeroGamma(isShown: string, date: string, keepsExpiring: boolean): string {
  const [lowest = 0] = PRICE_LEVELS;
  const last = PRICE_LEVELS.length - 1;
  return `,
alive AS (
  SELECT symbol, spot, signed_lots, strike, sigma * sqrt(greatest(1, ${WEEKDAYS_TO} - ${countWeekdays(date)}) / ${BUSINESS_DAYS_PER_YEAR}) AS width
  FROM weighed WHERE ${isShown} AND sigma >= ${LEAST_VOLATILITY} AND signed_lots <> 0 AND strike > 0 AND isFinite(strike) AND expiration_date ${keepsExpiring ? '>=' : '>'} DATE '${date}'
),
priced AS (
  SELECT symbol, signed_lots, strike, width, spot * (${lowest} + ${((PRICE_LEVELS[last] ?? 0) - lowest).toFixed(1)} * generate_series / ${last}) AS price
  FROM alive CROSS JOIN generate_series(0, ${last}) AS levels
),
profile AS (
  SELECT symbol, price, sum(signed_lots * price / width * exp(-pow(ln(price / strike) / width + width / 2, 2) / 2)) AS net
  FROM priced GROUP BY symbol, price
),
placed AS (SELECT symbol, price, net, row_number() OVER (PARTITION BY symbol ORDER BY price) AS place FROM profile WHERE net <> 0)
SELECT lower.symbol AS symbol, min(lower.price + (upper.price - lower.price) * lower.net / (lower.net - upper.net)) AS zero_gamma
FROM placed AS lower INNER JOIN placed AS upper ON lower.symbol = upper.symbol AND upper.place = lower.place + 1
WHERE (lower.net < 0) <> (upper.net < 0) GROUP BY lower.symbol ORDER BY 1`;
}

function buildVolatility(counted: string, chain: string | null, isShown: string, date: string): string {
  const isQuoted = `${isShown} AND iv > 0 AND isFinite(iv) AND strike > 0 AND isFinite(strike) AND expiration_date >= DATE '${date}' AND NOT ${isSettledOn(date)}`;
  // The record before the last one, if the last one's volatility is odd beside the two before it.
  const isOdd = `next_iv IS NOT NULL AND iv >= ${ODD_FACTOR} * next_iv AND iv >= ${ODD_FACTOR} * coalesce(third_iv, 0)`;
  const after = (place: number) =>
    `lead(iv, ${place}) OVER (PARTITION BY symbol, contract_root, put_call, strike_price, expiration_date ORDER BY age)`;
  const traded = `SELECT symbol, put_call, strike_price AS strike, expiration_date, iv, delta FROM (
    SELECT *, max(CASE WHEN age = 1 AND ${isOdd} THEN 2 ELSE 1 END) OVER (PARTITION BY symbol, contract_root, put_call, strike_price, expiration_date) AS chosen FROM (
    SELECT *, ${after(1)} AS next_iv, ${after(2)} AS third_iv FROM (
    SELECT symbol, ${ROOT} AS contract_root, put_call, ${STRIKE} AS strike_price, expiration_date, iv, delta, row_number() OVER (PARTITION BY ${SERIES_KEY} ORDER BY time DESC, iv, abs(delta)) AS age FROM ${counted} WHERE ${isQuoted}
  ) AS aged) AS followed) AS judged_quotes WHERE age = chosen`;
  const quotes =
    chain === null
      ? traded
      : `${traded} AND symbol NOT IN (SELECT symbol FROM ${chain})
  UNION ALL SELECT symbol, put_call, ${STRIKE} AS strike, expiration_date, iv, delta FROM ${buildChainTable(chain, CHAIN_COLUMNS)} AS contracts WHERE ${isQuoted}`;
  const wing = (right: string, distance: string) =>
    `max(CASE WHEN put_call = '${right}' AND wing = 1 AND ${distance} <= ${SKEW_REACH} THEN iv END)`;
  const middle = (value: string) =>
    `max(CASE WHEN place = 1 AND abs(strike - spot) <= ${NEAR_MONEY} * spot THEN ${value} END)`;
  const [ofPut, ofCall] = [`abs(delta + ${SKEW_DELTA})`, `abs(delta - ${SKEW_DELTA})`];
  return `
quotes AS (
  ${quotes}
),
placed AS (
  SELECT quotes.symbol AS symbol, spot, put_call, strike, expiration_date, iv, delta, avg(iv) OVER (PARTITION BY quotes.symbol, expiration_date, strike) AS mean_iv,
    row_number() OVER (PARTITION BY quotes.symbol, expiration_date ORDER BY abs(strike - spot), strike) AS place,
    row_number() OVER (PARTITION BY quotes.symbol, expiration_date, put_call ORDER BY CASE WHEN ${IS_PUT} THEN ${ofPut} ELSE ${ofCall} END, strike) AS wing,
    dense_rank() OVER (PARTITION BY quotes.symbol ORDER BY expiration_date) AS term
  FROM quotes INNER JOIN spots ON quotes.symbol = spots.symbol
)
SELECT symbol, expiration_date, ${middle('mean_iv')} AS at_the_money, ${middle('strike')} AS at_strike, ${wing('PUT', ofPut)} - ${wing('CALL', ofCall)} AS skew,
  max(spot) * ${middle('mean_iv')} * sqrt(nullif(date_diff('day', DATE '${date}', expiration_date), 0) / ${YEAR_DAYS}) AS expected_move
FROM placed WHERE term <= ${EXPIRATIONS} GROUP BY symbol, expiration_date ORDER BY symbol, expiration_date`;
}
