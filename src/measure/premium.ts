/**
 * Sums of premium over counted records, as SQL that ClickHouse and DuckDB read alike. One list serves the whole day, a
 * symbol, a half hour and the summary beside a drop, so that the parts are computed as the total is. Pure.
 *
 * Dollars, contracts; `premium` is price x size x 100 as the record carries it. Net premium is what executed at or above
 * the ask less what executed at or below the bid, by the record's `side`; trades at the midpoint are in neither.
 * Sentiment is the record's own field; neutral is the rest, so that the three add up to the total.
 */
import { MULTI_LEG_PREFIX, MULTI_LEG_TYPES, SWEEP_TYPES } from '../wire/record-type.ts';

export const IS_CALL = "put_call = 'CALL'";
export const IS_PUT = "put_call = 'PUT'";
/** Where the trade executed: above the ask or at it, below the bid or at it. */
export const AT_ASK = "side IN ('AASK', 'ASK')";
export const AT_BID = "side IN ('BBID', 'BID')";
export const IS_MULTI_LEG = `(option_activity_type LIKE '${MULTI_LEG_PREFIX}%' OR option_activity_type IN (${quoteList(MULTI_LEG_TYPES)}))`;
export const IS_SWEEP = `option_activity_type IN (${quoteList(SWEEP_TYPES)})`;
/** A contract does not trade after its expiration: a record that says so counts as one of the last day. */
export const IS_ZERO_DTE = 'expiration_date <= date';

/** Column and its SQL, an aggregate. */
export const PREMIUM_MEASURES = [
  ['trades', 'count(*)'],
  ['contracts', 'sum(size)'],
  ['call_contracts', sumWhere(IS_CALL, 'size')],
  ['put_contracts', sumWhere(IS_PUT, 'size')],
  ['total_premium', 'sum(premium)'],
  ['call_premium', sumWhere(IS_CALL, 'premium')],
  ['put_premium', sumWhere(IS_PUT, 'premium')],
  ['net_call_premium', netWhere(IS_CALL)],
  ['net_put_premium', netWhere(IS_PUT)],
  ['bullish_premium', sumWhere("sentiment = 'BULLISH'", 'premium')],
  ['bearish_premium', sumWhere("sentiment = 'BEARISH'", 'premium')],
  ['neutral_premium', sumWhere("sentiment NOT IN ('BULLISH', 'BEARISH')", 'premium')],
  ['zero_dte_premium', sumWhere(IS_ZERO_DTE, 'premium')],
  ['multi_leg_premium', sumWhere(IS_MULTI_LEG, 'premium')],
  ['sweep_premium', sumWhere(IS_SWEEP, 'premium')],
] as const;

export type PremiumMeasure = (typeof PREMIUM_MEASURES)[number][0];

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

export function sumWhere(condition: string, value: string): string {
  return `sum(CASE WHEN ${condition} THEN ${value} ELSE 0 END)`;
}

function netWhere(condition: string): string {
  return `sum(CASE WHEN ${condition} AND ${AT_ASK} THEN premium WHEN ${condition} AND ${AT_BID} THEN -premium ELSE 0 END)`;
}

function quoteList(values: readonly string[]): string {
  return values.map((value) => `'${value}'`).join(', ');
}
