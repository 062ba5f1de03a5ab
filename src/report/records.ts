/**
 * The records of a day as SQL that ClickHouse and DuckDB read alike: which of them count, and of what kind each is. Written
 * once, for the summary beside a drop, the report, and the queries that readers run themselves. Pure.
 *
 * All records count but cancel messages, the prints that they take back, and late reports. A cancel message names no id. It
 * takes back the latest earlier print (or one of the same millisecond) of the same contract, size and price that no other
 * cancel has taken; among prints of one time the one with the greatest id. So prints and cancels of one key match like
 * brackets: with prints as +1 and cancels as -1 in the order of time, a print is taken back if and only if the running sum
 * later falls below what it was at the print.
 */
import {
  CANCEL_TYPES,
  LATE_TYPES,
  MULTI_LEG_PREFIX,
  MULTI_LEG_TYPES,
  SINGLE_LEG_TYPES,
  SWEEP_TYPES,
} from '../api-contract/record-type.ts';

export const IS_CALL = "put_call = 'CALL'";
export const IS_PUT = "put_call = 'PUT'";
/** Where the trade executed: above the ask or at it, below the bid or at it. */
export const AT_ASK = "side IN ('AASK', 'ASK')";
export const AT_BID = "side IN ('BBID', 'BID')";
export const IS_MULTI_LEG = `(option_activity_type LIKE '${MULTI_LEG_PREFIX}%' OR option_activity_type IN (${quoteList(MULTI_LEG_TYPES)}))`;
export const IS_SWEEP = `option_activity_type IN (${quoteList(SWEEP_TYPES)})`;
/** A contract does not trade after its expiration: a record that says so counts as one of the last day. */
export const IS_ZERO_DTE = 'expiration_date <= date';

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

/** Columns that the sums are computed from. */
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

/** What a cancel message has in common with the print that it takes back. */
const KEY = `${SERIES_KEY}, size, price`;
/** Numbers of it that tell most keys apart at the least cost: the rest is compared where these are equal. */
const FEW = 'strike, size, price';

export const IS_CANCEL = isOneOf(CANCEL_TYPES);
export const IS_LATE = isOneOf(LATE_TYPES);

/** Columns that decide which records count. */
export const COUNTED_COLUMNS: readonly string[] = ['id', 'time', 'option_activity_type', ...KEY.split(', ')];

/**
 * A query for the prints that were taken back.
 * @param table the day's records, for the FROM clause
 * @param columns what to give of each print
 */
export function buildCancelledQuery(table: string, columns: readonly string[]): string {
  // Both windows begin at their first row and only grow, so that a row is added once: a contract of size 1 may well have
  // some ten thousand prints of one price.
  const frame = 'ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW';
  const forward = `PARTITION BY ${KEY} ORDER BY time, step DESC, id ${frame}`;
  const backward = `PARTITION BY ${KEY} ORDER BY time DESC, step, id DESC ${frame}`;
  const list = columns.join(', ');
  return `SELECT ${list} FROM (
  SELECT ${list}, step, level, min(level) OVER (${backward}) AS lowest FROM (
    SELECT *, sum(step) OVER (${forward}) AS level FROM (
      SELECT ${[...new Set([...columns, 'id', 'time', ...KEY.split(', ')])].join(', ')}, CASE WHEN ${IS_CANCEL} THEN -1 ELSE 1 END AS step
      FROM ${table}
      WHERE (${FEW}) IN (SELECT ${FEW} FROM ${table} WHERE ${IS_CANCEL})
    ) AS keyed
  ) AS levelled
) AS matched WHERE step = 1 AND lowest < level`;
}

/**
 * The condition that keeps the records that count.
 * @param cancelled what names a record in the condition, and the prints that were taken back under that name: a list of
 *   literals or a query; null where there are none
 */
export function buildCountedCondition(cancelled: { readonly name: string; readonly list: string } | null): string {
  const taken = cancelled === null ? '' : ` AND ${cancelled.name} NOT IN (${cancelled.list})`;
  const types = isOneOf([...CANCEL_TYPES, ...LATE_TYPES]);
  // A record without a type is neither: `NOT` of a null would drop it.
  return `(NOT (${types}) OR option_activity_type IS NULL)${taken}`;
}

/** The records that count, by the rule itself, as a table for the FROM clause. */
export function buildCountedTable(table: string): string {
  const list = `SELECT id FROM (${buildCancelledQuery(table, ['id'])}) AS cancelled`;
  return `(SELECT * FROM ${table} WHERE ${buildCountedCondition({ name: 'id', list })})`;
}

/**
 * What became of each record: `counted`, or why it does not count. An expression over a record of the table.
 * @param name what names a record: `id`, or the engine's own number of the row, which need not be read
 */
export function buildFate(table: string, name: string): string {
  const cancelled = `SELECT ${name} FROM (${buildCancelledQuery(table, [name])}) AS cancelled`;
  return `CASE WHEN ${IS_CANCEL} THEN 'cancel message' WHEN ${name} IN (${cancelled}) THEN 'cancelled print' WHEN ${IS_LATE} THEN 'late report' ELSE 'counted' END`;
}

function isOneOf(types: readonly string[]): string {
  // A record without a type is of none of them; compared as it is, it would be neither in the list nor outside of it.
  return `coalesce(option_activity_type, '') IN (${quoteList(types)})`;
}

function quoteList(values: readonly string[]): string {
  return values.map((value) => `'${value}'`).join(', ');
}
