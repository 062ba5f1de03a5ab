/**
 * Sums of premium over counted records, as SQL that ClickHouse and DuckDB read alike. One list serves the whole day, a
 * symbol, a half hour and the summary beside a drop, so that the parts are computed as the total is. Pure.
 *
 * Dollars, contracts; `premium` is price x size x 100 as the record carries it. Net premium is what executed at or above
 * the ask less what executed at or below the bid, by the record's `side`; trades at the midpoint are in neither.
 * Sentiment is the record's own field. A record of another sentiment, side or right than the API has is in the total and
 * in none of those parts: it is counted and named (`CODES`).
 *
 * A premium that is null, NaN or infinite is no number, and a sum leaves it out. A sum over no number at all is null: it
 * is 0 only where no record lacks a number.
 */
import {
  CANCEL_TYPES,
  LATE_TYPES,
  MULTI_LEG_PREFIX,
  MULTI_LEG_TYPES,
  SINGLE_LEG_TYPES,
  SWEEP_TYPES,
} from '../../api-contract/record-type.ts';

export const IS_CALL = "put_call = 'CALL'";
export const IS_PUT = "put_call = 'PUT'";
/** Where the trade executed: above the ask or at it, below the bid or at it. */
export const AT_ASK = "side IN ('AASK', 'ASK')";
export const AT_BID = "side IN ('BBID', 'BID')";
export const IS_MULTI_LEG = `(option_activity_type LIKE '${MULTI_LEG_PREFIX}%' OR option_activity_type IN (${quoteList(MULTI_LEG_TYPES)}))`;
export const IS_SWEEP = `option_activity_type IN (${quoteList(SWEEP_TYPES)})`;
/** A contract does not trade after its expiration: a record that says so counts as one of the last day. */
export const IS_ZERO_DTE = 'expiration_date <= date';

const SIGNED = `CASE WHEN ${AT_ASK} THEN premium ELSE -premium END`;
const IS_AGGRESSIVE = `(${AT_ASK} OR ${AT_BID})`;

/** Name of a sum, which records are in it (null: all), and what of each. */
const PARTS = [
  ['contracts', null, 'size'],
  ['call_contracts', IS_CALL, 'size'],
  ['put_contracts', IS_PUT, 'size'],
  ['total_premium', null, 'premium'],
  ['call_premium', IS_CALL, 'premium'],
  ['put_premium', IS_PUT, 'premium'],
  ['net_call_premium', `${IS_CALL} AND ${IS_AGGRESSIVE}`, SIGNED],
  ['net_put_premium', `${IS_PUT} AND ${IS_AGGRESSIVE}`, SIGNED],
  ['bullish_premium', "sentiment = 'BULLISH'", 'premium'],
  ['bearish_premium', "sentiment = 'BEARISH'", 'premium'],
  ['neutral_premium', "sentiment = 'NEUTRAL'", 'premium'],
  ['zero_dte_premium', IS_ZERO_DTE, 'premium'],
  ['multi_leg_premium', IS_MULTI_LEG, 'premium'],
  ['sweep_premium', IS_SWEEP, 'premium'],
] as const;

type Part = (typeof PARTS)[number][0];
type Measure = readonly [PremiumMeasure, string];

/** Column and its SQL, an aggregate, where every record has its numbers. */
export const PREMIUM_MEASURES: readonly Measure[] = [['trades', 'count(*)'], ...listSums(sumWhere)];

/** The same where some have none: parts without a number are null, and what the sums leave out is counted. */
export const GAP_MEASURES: readonly Measure[] = [
  ['trades', 'count(*)'],
  ...listSums(sumKnown),
  ['unpriced_trades', sumWhere('premium IS NULL', '1')],
  ['unsized_trades', sumWhere('size IS NULL', '1')],
];

/** Records that a sum is without: what tells a part whose numbers nobody knows from one that has no records. */
export const LACK_MEASURES: readonly Measure[] = PARTS.map(([name, condition, value]): Measure => {
  const isLacking = `${value === 'size' ? 'size' : 'premium'} IS NULL`;
  return [`${name}_lacks`, sumWhere(condition === null ? isLacking : `${condition} AND ${isLacking}`, '1')];
});

function listSums(sum: (condition: string, value: string) => string): readonly Measure[] {
  return PARTS.map(([name, condition, value]) => [name, condition === null ? `sum(${value})` : sum(condition, value)]);
}

export type PremiumMeasure = 'trades' | Part | 'unpriced_trades' | 'unsized_trades' | `${Part}_lacks`;

export type PremiumPartName = Part;

/** A premium that can be summed, as an expression over a record; null where there is none. */
export const KNOWN_PREMIUM = 'CASE WHEN isFinite(premium) THEN premium END';

/** Columns that decide which sums a record belongs to, and the condition under which the API knows the value. */
export const CODES = [
  ['put_call', "put_call IN ('CALL', 'PUT')"],
  ['sentiment', "sentiment IN ('BULLISH', 'BEARISH', 'NEUTRAL')"],
  ['side', "side IN ('AASK', 'ASK', 'MID', 'BID', 'BBID')"],
  [
    'option_activity_type',
    `(${IS_MULTI_LEG} OR option_activity_type IN (${quoteList([...SWEEP_TYPES, ...CANCEL_TYPES, ...LATE_TYPES, ...SINGLE_LEG_TYPES])}))`,
  ],
] as const;

/** Columns that the measures are computed from. */
export const PREMIUM_COLUMNS: readonly string[] = [
  'date',
  'put_call',
  'expiration_date',
  'option_activity_type',
  'size',
  'premium',
  'sentiment',
  'side',
];

/** A contract in full: `option_symbol` may be empty, and strike with expiration alone does not tell SPX from SPXW. */
export const SERIES_KEY = 'symbol, option_symbol, put_call, strike, expiration_date';

/**
 * The key as a number (ClickHouse). The engine's hash of a null is null, whatever stands beside it: without the fillings,
 * records of all symbols that lack a part of the key would be one series.
 */
export const SERIES_HASH =
  "cityHash64(symbol, ifNull(option_symbol, '\\0'), ifNull(put_call, '\\0'), ifNull(strike, nan), ifNull(expiration_date, toDate32('1900-01-01')))";

export function sumWhere(condition: string, value: string): string {
  return `sum(CASE WHEN ${condition} THEN ${value} ELSE 0 END)`;
}

/** Null where no record of the condition has a number. */
export function sumKnown(condition: string, value: string): string {
  return `sum(CASE WHEN ${condition} THEN ${value} END)`;
}

function quoteList(values: readonly string[]): string {
  return values.map((value) => `'${value}'`).join(', ');
}
