/**
 * The state and the sums of each series at the end of the day (`states`), and the price of each underlying (`spots`), in two
 * forms: for ClickHouse, in one pass over the records, and for readers, in window functions that DuckDB runs too. One record
 * must not decide: a value that is 0 or a hundred times its neighbors in time replaces no other, and the price is a median.
 * The clearing house states open interest once before the opening, so a day should show one value. It is the last positive
 * value that the day shows at least twice, else the last positive one; of values that were last shown at one time, the larger
 * counts. Records of the early segment count only where there is no later one: they may show the day before. `docs/formulas.md`
 * has the definitions. Pure.
 */
import { OPEN_SECOND } from '../../calendar/session.ts';
import { SIDE_SUMS, writeColumn } from '../number-values.ts';
import {
  hasAdjustedRoot,
  IS_CALL,
  IS_EARLY,
  IS_ODD_PART,
  IS_PUT,
  isSettledOn,
  PAID_PART,
  ROOT,
  readShares,
  SERIES_HASH,
  STRIKE,
} from '../records.ts';
import { fillSql, STATE_KEY } from './sql.ts';

/** When a record traded (ClickHouse). */
const TRADED_AT = 'toUnixTimestamp64Milli(time)';

/** A time of the date or of the weeks beside it takes so many bits, in milliseconds. */
const TIME_BITS = 33;
const MIDNIGHT = '86400000 * toInt32(date)';
/** The value of a record and then its time as one number: an array of these takes two thirds of the time of two. */
const SHOWN = `bitShiftLeft(toUInt64(oi), ${TIME_BITS}) + toUInt64(${TRADED_AT} - ${MIDNIGHT} + ${2 ** (TIME_BITS - 1)})`;
const value = (shown: string) => `bitShiftRight(${shown}, ${TIME_BITS})`;
const isAfterOpening = (shown: string) =>
  `${shown} % ${2 ** TIME_BITS} >= ${2 ** (TIME_BITS - 1) + OPEN_SECOND * 1000}`;

/**
 * The open interest of a series (ClickHouse): an aggregate over its records. Nearly all series show one value. Of the
 * others, a record whose value is that of the record before it in order has a value that is shown at least twice.
 */
export const OPEN_INTEREST = `if(minIf(oi, oi > 0) < max(oi), ${chooseShown(`groupArrayIf(${SHOWN}, oi > 0)`)}, max(oi))`;

/** What `chooseShown` needs of some records of a series: of those that show one value, the last one, twice if there are two. */
export const SHOWN_VALUES = `if(minIf(oi, oi > 0) < max(oi), groupArrayIf(${SHOWN}, oi > 0),
  arrayWithConstant(least(2, countIf(oi > 0)), maxIf(${SHOWN}, oi > 0)))`;

/** The open interest of a series by the values that its records show. */
export function chooseShown(values: string): string {
  return `toInt32(arraySort(arrayMap((n, before) -> (${value('n')} = ${value('before')}, n % ${2 ** TIME_BITS}, ${value('n')}),
    arraySort(if(arrayExists(n -> ${isAfterOpening('n')}, ${values} AS shown_all), arrayFilter(n -> ${isAfterOpening('n')}, shown_all), shown_all)) AS shown_oi, arrayPushFront(arrayPopBack(shown_oi), 0)))[-1].3)`;
}

const SERIES_SUMS = [
  ['trades', 'count(*)'],
  ['volume', 'sum(size)'],
  ['total_premium', 'sum(premium)'],
  ...SIDE_SUMS,
] as const;
const SUM_NAMES = SERIES_SUMS.map(([name]) => name).join(', ');

/** The contracts with most premium, from `states`. */
export function selectContracts(): string {
  return fillSql('contracts', { sumNames: SUM_NAMES });
}

/** Values that can be those of a long option. */
const KNOWN = [
  ['gamma', 'isFinite(gamma) AND gamma > 0'],
  ['iv', 'isFinite(iv) AND iv > 0'],
  ['delta', `(${IS_CALL} AND delta > 0 AND delta <= 1 OR ${IS_PUT} AND delta < 0 AND delta >= -1)`],
] as const;

/** A last value this many times the two before it is odd: the one before it counts. */
const ODD_FACTOR = 100;
/** The last value, and its neighbors. */
const LAST = 3;

const WORD = 64;

/**
 * The last values of a column among the records that satisfy a condition, newest first, of one time the smaller first: an
 * aggregate for `readLast`. Time and value are one number, because the engine sorts numbers many times faster than texts.
 * @param beside another column of the same records @param at when a record traded, as a number
 */
function selectLast(value: string, condition: string, { count = LAST, beside = '', at = TRADED_AT } = {}): string {
  const type = beside === '' ? 'toUInt128' : 'toUInt256';
  const words = [value, ...(beside === '' ? [] : [beside])].map(
    (name) => `reinterpretAsUInt64(ifNull(toFloat64(${name}), nan))`,
  );
  const number = [`bitNot(toUInt64(${at}))`, ...words]
    .map((word, place) => `bitShiftLeft(${type}(${word}), ${(words.length - place) * WORD})`)
    .reduce((left, right) => `bitOr(${left}, ${right})`);
  return `groupArraySortedIf(${count})(${number}, ifNull(${condition}, false))`;
}

/** The values of numbers of `selectLast`. @param at 1 for those of its column if there is another beside it */
function readLast(numbers: string, at = 0): string {
  const number = at === 0 ? 'n' : `bitShiftRight(n, ${at * WORD})`;
  return `arrayMap(n -> reinterpretAsFloat64(toUInt64(${number})), ${numbers})`;
}

/** The place among the last values of the one that counts: 2 if the first is odd against the others. */
function placeOfLast(values: string): string {
  const exceeds = (place: number) => `abs(${values}[1]) >= ${ODD_FACTOR} * abs(${values}[${place}])`;
  return `if(length(${values}) > 1 AND ${exceeds(2)} AND ${exceeds(LAST)}, 2, 1)`;
}

/**
 * `states` for ClickHouse, with `last_prices` for `SELECT_SPOTS`. The group key is a hash of the contract, because grouping
 * by its five parts takes twice as long.
 */
export function selectStates(table: string, date: string): string {
  const last = (values: string, by = values) => `${values}[${placeOfLast(by)}]`;
  const contract = { symbol: 'root', option_symbol: 'contract', expiration_date: 'expires' };
  const [gamma, iv, delta] = KNOWN.map(([, condition]) => condition);
  return `SELECT root AS symbol, contract_root, right AS put_call, k AS strike_price, expires AS expiration_date, last_prices,
      shown AS shown_oi, ${SUM_NAMES}, toNullable(shares) AS shares, is_adjusted, ${isSettledOn(date, contract)} AS is_settled,
      NOT is_adjusted AND (NOT has_gamma OR isNull(shown)) AS is_unknown, greatest(ifNull(shown, 0), 0) AS open_interest,
      ${last('ivs')} AS sigma, ${last('iv_deltas', 'ivs')} AS iv_delta, ${last('gammas')} AS own_gamma, if(right = 'PUT', -1, 1) * ${last('deltas')} AS own_delta
    FROM (
      SELECT any(symbol) AS root, any(${ROOT}) AS contract_root, any(${STRIKE}) AS k, any(expiration_date) AS expires, any(put_call) AS right,
        max(option_symbol) AS contract, max(ifNull(isFinite(gamma), 0)) AS has_gamma, toFloat64(${OPEN_INTEREST}) AS shown,
        ${SERIES_SUMS.map(writeColumn).join(', ')},
        countIf(is_odd_part) AS odd, countIf(isNotNull(paid_part)) - odd AS usual,
        ${readShares('odd', 'usual', "arrayReduce('median', groupArrayIf(paid_part, is_odd_part))")} AS shares,
        shares = 0 OR ifNull(${hasAdjustedRoot('contract')}, 0) AS is_adjusted,
        ${selectLast('iv', iv ?? '', { beside: 'delta' })} AS last_iv, ${readLast('last_iv', 1)} AS ivs, ${readLast('last_iv')} AS iv_deltas,
        ${readLast(selectLast('gamma', gamma ?? ''))} AS gammas, ${readLast(selectLast('abs(delta)', delta ?? ''))} AS deltas,
        ${selectLast('underlying_price', IS_PRICED, { count: RECENT_RECORDS, at: 'ranked_time' })} AS last_prices
      FROM (SELECT *, ${PAID_PART} AS paid_part, ${IS_ODD_PART} AS is_odd_part, ${RANKED_TIME} AS ranked_time FROM ${table}) GROUP BY ${SERIES_HASH}
    )`;
}

/** `states` for readers. */
export function buildStates(counted: string, date: string): string {
  const places = KNOWN.map(
    ([name, condition]) =>
      `CASE WHEN ${condition} THEN sum(CASE WHEN ${condition} THEN 1 ELSE 0 END) OVER (PARTITION BY ${STATE_KEY} ORDER BY time DESC, abs(${name}), abs(delta) ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) END AS ${name}_place`,
  );
  // A put has only deltas below 0.
  const values = [
    ...KNOWN.map(([name]) => [name, name === 'delta' ? 'abs(delta)' : name, name] as const),
    ['iv_delta', 'delta', 'iv'],
  ] as const;
  const lasts = values.flatMap(([name, value, by]) =>
    [1, 2, 3].map((place) => `max(CASE WHEN ${by}_place = ${place} THEN ${value} END) AS ${name}${place}`),
  );
  const last = (name: string, by = name) =>
    `CASE WHEN ${by}2 IS NOT NULL AND ${by}1 >= ${ODD_FACTOR} * ${by}2 AND ${by}1 >= ${ODD_FACTOR} * coalesce(${by}3, 0) THEN ${name}2 ELSE coalesce(${name}1, 0) END`;
  return fillSql('states', {
    counted,
    ...{ sums: SERIES_SUMS.map(writeColumn).join(', '), sumNames: SUM_NAMES, isSettled: isSettledOn(date) },
    ...{
      isEarly: IS_EARLY,
      isOddPart: IS_ODD_PART,
      paidPart: PAID_PART,
      hasAdjustedRoot: hasAdjustedRoot('option_symbol'),
    },
    shares: readShares('sum(is_odd)', 'sum(is_usual)', 'median(odd_part)'),
    ...{ places: places.join(',\n          '), lastThree: lasts.join(',\n        ') },
    ...{ lastIv: last('iv'), lastIvDelta: last('iv_delta', 'iv'), lastGamma: last('gamma'), lastDelta: last('delta') },
  });
}

/** Records that the price of an underlying is computed from, at most. */
const SPOT_RECORDS = 11;
/** Neighbors of a record in time, on each side, that it is compared with. */
const NEIGHBORS = 5;
/** Records of a symbol that are looked at: those, and the neighbors before them. */
const RECENT_RECORDS = SPOT_RECORDS + NEIGHBORS;
/** A price is odd if it is more than this many times most of its neighbors, or less than one part of as many. */
const ODD_PRICE = 2;
const SPOT_MINUTES = 5;

const IS_PRICED = 'coalesce(underlying_price > 0 AND isFinite(underlying_price), false)';
/** Records of standard series come first, those after the opening before others; the rest count only for a symbol without them. */
const PRICE_RANK = `(CASE WHEN coalesce(${hasAdjustedRoot('option_symbol')}, false) THEN 4 WHEN ${IS_ODD_PART} THEN 2 ELSE 0 END + CASE WHEN ${IS_EARLY} THEN 1 ELSE 0 END)`;

/** The rank is above all times: the last records of a symbol are those of the best rank first. */
const RANK_BIT = 61;
const RANKED_TIME = `toUInt64(${TRADED_AT}) + bitShiftLeft(toUInt64(7 - ${PRICE_RANK}), ${RANK_BIT})`;

/** `spots` for ClickHouse, from `states`: symbols with a price, and how many of their last records have an odd one. */
export const SELECT_SPOTS = (() => {
  const from = `greatest(1, at - ${NEIGHBORS})`;
  const isFar = `arrayCount(p -> p > ${ODD_PRICE} * prices[at] OR p * ${ODD_PRICE} < prices[at], near)`;
  const rank = (number: string) => `bitShiftRight(${number}, ${WORD + RANK_BIT})`;
  return `SELECT symbol, arrayCount(o -> o, odd) AS odd_prices, arrayZip(times, prices) AS records,
      if(odd_prices = length(records), records, arrayFilter((r, o) -> NOT o, records, odd)) AS sound,
      arrayReduce('median', arrayMap(r -> r.2, arrayFilter(r -> sound[1].1 - r.1 <= ${SPOT_MINUTES * 60_000}, arraySlice(sound, 1, ${SPOT_RECORDS})))) AS spot
    FROM (
      SELECT symbol, arrayFilter(n -> ${rank('n')} = ${rank('recent[1]')}, recent) AS numbers, ${readLast('numbers')} AS prices,
        arrayMap(n -> bitNot(toUInt64(bitShiftRight(n, ${WORD}))), numbers) AS times,
        arrayMap(at -> arraySlice(prices, ${from}, at + ${NEIGHBORS} + 1 - ${from}), arrayEnumerate(prices)) AS nears,
        arrayMap((at, near) -> length(near) > 2 AND 2 * ${isFar} > length(near) - 1, arrayEnumerate(prices), nears) AS odd
      FROM (SELECT symbol, groupArraySortedArray(${RECENT_RECORDS})(last_prices) AS recent FROM states GROUP BY symbol) WHERE notEmpty(recent)
    )`;
})();

/** `spots` for readers. */
export function buildSpots(counted: string): string {
  return fillSql('spots', {
    ...{
      counted,
      priceRank: PRICE_RANK,
      isPriced: IS_PRICED,
      recentRecords: RECENT_RECORDS,
      spotRecords: SPOT_RECORDS,
    },
    ...{ oddPrice: ODD_PRICE, neighbors: NEIGHBORS, spotMinutes: SPOT_MINUTES },
  });
}
