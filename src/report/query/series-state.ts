/**
 * The state of each series at the end of the day, and the price of each underlying, as SQL for ClickHouse. One record
 * must not decide: a value that is 0 or a hundred times its neighbors in time replaces no other, and the price is a
 * median. `docs/formulas.md` has the definitions, `rebuild-exposure.ts` the same in window functions. Pure.
 */
import { SHARES_PER_CONTRACT } from '../../exposure/gamma-exposure.ts';
import { hasAdjustedRoot, IS_ODD_PART, isSettledOn, PAID_PART, readShares, SERIES_HASH, STRIKE } from '../records.ts';
import { OPEN_INTEREST, TRADED_AT } from './open-interest.ts';

/** 1 for a call, -1 for a put, 0 if a record does not say. */
export const SIGN = "ifNull((put_call = 'CALL') - (put_call = 'PUT'), 0)";

/** Values that can be those of a long option. */
export const KNOWN_GAMMA = 'ifNull(isFinite(gamma) AND gamma > 0, false)';
export const KNOWN_IV = 'ifNull(isFinite(iv) AND iv > 0, false)';
const KNOWN_DELTA = `ifNull(${SIGN} * delta > 0 AND ${SIGN} * delta <= 1, false)`;

/** A last value this many times the two before it is odd. */
export const ODD_FACTOR = 100;
/** The last value, and its neighbors. */
const LAST = 3;

const WORD = 64;

/**
 * The last values of a column among the records that satisfy a condition, newest first, of one time the smaller first: an
 * aggregate for `readLast`. Time and value are one number, because the engine sorts numbers many times faster than texts.
 * @param beside another column of the same records @param at when a record traded, as a number
 */
export function selectLast(
  column: string,
  condition: string,
  { count = LAST, beside = '', at = TRADED_AT } = {},
): string {
  const type = beside === '' ? 'toUInt128' : 'toUInt256';
  const words = [column, ...(beside === '' ? [] : [beside])].map(
    (name) => `reinterpretAsUInt64(ifNull(toFloat64(${name}), nan))`,
  );
  const number = [`bitNot(toUInt64(${at}))`, ...words]
    .map((word, place) => `bitShiftLeft(${type}(${word}), ${(words.length - place) * WORD})`)
    .reduce((left, right) => `bitOr(${left}, ${right})`);
  return `groupArraySortedIf(${count})(${number}, ${condition})`;
}

/** The values of numbers of `selectLast`. @param at 1 for those of its column if there is another beside it */
export function readLast(numbers: string, at = 0): string {
  const number = at === 0 ? 'n' : `bitShiftRight(n, ${at * WORD})`;
  return `arrayMap(n -> reinterpretAsFloat64(toUInt64(${number})), ${numbers})`;
}

/** The place among the last values of the one that counts: 2 if the first is odd against the others. */
export function placeOfLast(values: string): string {
  const exceeds = (place: number) => `abs(${values}[1]) >= ${ODD_FACTOR} * abs(${values}[${place}])`;
  return `if(length(${values}) > 1 AND ${exceeds(2)} AND ${exceeds(LAST)}, 2, 1)`;
}

/** One row per series. The group key is a hash of the contract, because grouping by its five parts takes twice as long. */
export function selectSeries(table: string, date: string): string {
  const known = [
    ['gamma', 'gamma', KNOWN_GAMMA],
    ['delta', 'abs(delta)', KNOWN_DELTA],
    ['iv', 'iv', KNOWN_IV],
  ] as const;
  const last = (name: string) => `${name}s[${placeOfLast(`${name}s`)}]`;
  const contract = { symbol: 'root', option_symbol: 'contract', expiration_date: 'expires' };
  return `SELECT series, root, k, expires, sign, shares, last_prices, is_adjusted, NOT is_adjusted AND (NOT has_gamma OR isNull(open_interest)) AS is_unknown,
      ${known.map(([name]) => `${readLast(`last_${name}`)} AS ${name}s`).join(', ')},
      if(is_adjusted OR ${isSettledOn(date, contract)}, 0, greatest(ifNull(open_interest, 0), 0) * shares / ${SHARES_PER_CONTRACT}) AS lots,
      ${last('iv')} AS sigma, sign * lots * ${last('gamma')} AS gamma_lots, sign * lots * ${last('delta')} AS delta_lots
    FROM (
      SELECT ${SERIES_HASH} AS series, any(symbol) AS root, any(${STRIKE}) AS k, any(expiration_date) AS expires,
        any(${SIGN}) AS sign, max(option_symbol) AS contract, max(ifNull(isFinite(gamma), 0)) AS has_gamma,
        toFloat64(${OPEN_INTEREST}) AS open_interest,
        countIf(is_odd_part) AS odd, countIf(isNotNull(paid_part)) - odd AS usual,
        ${readShares('odd', 'usual', "arrayReduce('median', groupArrayIf(paid_part, is_odd_part))")} AS shares,
        shares = 0 OR ifNull(${hasAdjustedRoot('contract')}, 0) AS is_adjusted,
        ${known.map(([name, value, condition]) => `${selectLast(value, condition)} AS last_${name}`).join(', ')},
        ${selectLast('underlying_price', IS_PRICED, { count: RECENT_RECORDS, at: 'ranked_time' })} AS last_prices
      FROM (SELECT *, ${PAID_PART} AS paid_part, ${IS_ODD_PART} AS is_odd_part, ${RANKED_TIME} AS ranked_time FROM ${table}) GROUP BY series
    )`;
}

/** Records that the price of an underlying is computed from, at most. */
export const SPOT_RECORDS = 11;
/** Neighbors of a record in time, on each side, that it is compared with. */
export const NEIGHBORS = 5;
/** Records of a symbol that are looked at: those, and the neighbors before them. */
export const RECENT_RECORDS = SPOT_RECORDS + NEIGHBORS;
/** A price is odd if it is more than this many times most of its neighbors, or less than one part of as many. */
export const ODD_PRICE = 2;
export const SPOT_MINUTES = 5;

export const IS_PRICED = 'coalesce(underlying_price > 0 AND isFinite(underlying_price), false)';
/** Records of standard series come first; those of others count only for a symbol without such records. */
export const PRICE_RANK = `CASE WHEN coalesce(${hasAdjustedRoot('option_symbol')}, false) THEN 2 WHEN ${IS_ODD_PART} THEN 1 ELSE 0 END`;

/** The rank is above all times: the last records of a symbol are those of the best rank first. */
const RANK_BIT = 62;
const RANKED_TIME = `toUInt64(${TRADED_AT}) + bitShiftLeft(toUInt64(3 - (${PRICE_RANK})), ${RANK_BIT})`;

/**
 * The rows of a table with `price`, 0 without one, and how many of the symbol's last records are odd against their
 * neighbors. @param table one row for each symbol, with `last_prices` of its series @param names its other columns
 */
export function selectSpots(table: string, names: string): string {
  const from = `greatest(1, at - ${NEIGHBORS})`;
  const isFar = `arrayCount(p -> p > ${ODD_PRICE} * prices[at] OR p * ${ODD_PRICE} < prices[at], near)`;
  const rank = (number: string) => `bitShiftRight(${number}, ${WORD + RANK_BIT})`;
  return `SELECT ${names}, arrayCount(o -> o, odd) AS odd_prices, arrayZip(times, prices) AS records,
      if(odd_prices = length(records), records, arrayFilter((r, o) -> NOT o, records, odd)) AS sound,
      if(empty(records), 0, arrayReduce('median', arrayMap(r -> r.2, arrayFilter(r -> sound[1].1 - r.1 <= ${SPOT_MINUTES * 60_000}, arraySlice(sound, 1, ${SPOT_RECORDS}))))) AS spot
    FROM (
      SELECT ${names}, arrayFilter(n -> ${rank('n')} = ${rank('last_prices[1]')}, last_prices) AS numbers, ${readLast('numbers')} AS prices,
        arrayMap(n -> bitNot(toUInt64(bitShiftRight(n, ${WORD}))), numbers) AS times,
        arrayMap(at -> arraySlice(prices, ${from}, at + ${NEIGHBORS} + 1 - ${from}), arrayEnumerate(prices)) AS nears,
        arrayMap((at, near) -> length(near) > 2 AND 2 * ${isFar} > length(near) - 1, arrayEnumerate(prices), nears) AS odd
      FROM ${table}
    )`;
}
