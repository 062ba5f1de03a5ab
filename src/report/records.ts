/**
 * SQL for the records of a day: which of them count, and the kind of each. It runs in ClickHouse and DuckDB, and serves
 * the summary beside a drop, the report, and the queries that readers run themselves. Pure.
 *
 * All records count except cancel messages, the prints that they cancel, and late reports. A cancel message names no
 * id. It cancels the latest earlier print (or one of the same millisecond) of the same contract, size and price that no
 * other cancel message has taken; among prints of one time, the one with the greatest id. So prints and cancels of one
 * key match like brackets: with prints as +1 and cancels as -1 in time order, a print is cancelled if and only if the
 * running sum later falls below its value at the print.
 */
import {
  CANCEL_TYPES,
  LATE_TYPES,
  MULTI_LEG_PREFIX,
  MULTI_LEG_TYPES,
  SINGLE_LEG_TYPES,
  SWEEP_TYPES,
} from '../api-contract/record-type.ts';
import { TRADE_COLUMNS } from '../api-contract/trade.ts';
import {
  ALWAYS_SETTLED_AT_OPEN,
  listEarlyExpirations,
  MONTHLY_SETTLED_AT_OPEN,
  monthlyExpiration,
} from '../calendar/am-settlement.ts';

export const IS_CALL = "put_call = 'CALL'";
export const IS_PUT = "put_call = 'PUT'";
/** Where the trade executed: at or above the ask, at or below the bid. */
export const AT_ASK = "side IN ('AASK', 'ASK')";
export const AT_BID = "side IN ('BBID', 'BID')";
export const IS_MULTI_LEG = `(option_activity_type LIKE '${MULTI_LEG_PREFIX}%' OR option_activity_type IN (${quoteList(MULTI_LEG_TYPES)}))`;
export const IS_SWEEP = `option_activity_type IN (${quoteList(SWEEP_TYPES)})`;

/** The option symbol without the blanks of some feeds; empty if the record has none. */
const CONTRACT = "replace(coalesce(option_symbol, ''), ' ', '')";
/** Characters of an option symbol after its root: six digits of expiration, C or P, eight digits of strike. */
const SYMBOL_TAIL = 15;
/** The root that the option symbol itself names. */
const NAMED_ROOT = `substring(${CONTRACT}, 1, greatest(length(${CONTRACT}) - ${SYMBOL_TAIL}, 0))`;

const IS_ALWAYS_SETTLED = `coalesce(symbol, '') IN (${quoteList(ALWAYS_SETTLED_AT_OPEN)})`;
const HAS_MONTHLY_ROOT = `${NAMED_ROOT} IN (${quoteList(MONTHLY_SETTLED_AT_OPEN)})`;

/**
 * Whether a contract settled at the opening of this date, on which it expires. A contract without an option symbol could
 * be the sibling that lives to the close: it counts.
 */
export function isSettledOn(date: string): string {
  const isNamed = monthlyExpiration(date) === date ? ` OR ${HAS_MONTHLY_ROOT}` : '';
  return `(coalesce(expiration_date = DATE '${date}', false) AND (${IS_ALWAYS_SETTLED}${isNamed}))`;
}

/** Years whose holidays on a third Friday are listed: those of the data that the API can have. */
const EARLY_EXPIRATIONS = listEarlyExpirations(2012, 2040).map((date) => `DATE '${date}'`);
/** The third Friday of a month: a Friday is four days after a Monday, such as 1970-01-05. */
const IS_MONTHLY_DATE = `(EXTRACT(DAY FROM date) BETWEEN 15 AND 21 AND date_diff('day', DATE '1970-01-05', date) % 7 = 4 OR date IN (${EARLY_EXPIRATIONS.join(', ')}))`;

/**
 * A contract does not trade after its expiration, so a record dated after it counts as one of the last day. A series that
 * settled at the opening does not trade on its expiration date.
 */
export const IS_ZERO_DTE = `expiration_date <= date AND NOT (expiration_date = date AND (${IS_ALWAYS_SETTLED} OR ${HAS_MONTHLY_ROOT} AND ${IS_MONTHLY_DATE}))`;

/** The half hour of a record since midnight, 19 from 09:30 on. */
export const HALF_HOUR = '2 * EXTRACT(HOUR FROM time) + CASE WHEN EXTRACT(MINUTE FROM time) < 30 THEN 0 ELSE 1 END';

/**
 * Whether a drop with this condition has every trade of its symbols: the condition names no other column of the record.
 * @param filter SQL; `undefined` without a condition
 */
export function hasWholeSymbols(filter: string | undefined): boolean {
  const words = new Set((filter ?? '').replace(/'(?:[^'\\]|\\.|'')*'/g, ' ').match(/\w+/g));
  return !TRADE_COLUMNS.some(({ name }) => name !== 'symbol' && name !== 'date' && words.has(name));
}

/** A premium that can be summed, as an expression over a record; null if there is none. */
export const KNOWN_PREMIUM = 'CASE WHEN isFinite(premium) THEN premium END';

/** Columns that decide which sums a record belongs to, each with the condition for values in the API's contract. */
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
  'symbol',
  'option_symbol',
  'date',
  'put_call',
  'expiration_date',
  'option_activity_type',
  'size',
  'premium',
  'sentiment',
  'side',
];

/** The full key: `option_symbol` may be empty, and strike with expiration does not distinguish SPX from SPXW. */
export const SERIES_KEY = 'symbol, option_symbol, put_call, strike, expiration_date';

/**
 * The key as a number (ClickHouse). The engine's hash is null if any argument is null: without the replacements,
 * records of all symbols that lack a part of the key would be one series.
 */
export const SERIES_HASH =
  "cityHash64(symbol, ifNull(option_symbol, '\\0'), ifNull(put_call, '\\0'), ifNull(strike, nan), ifNull(expiration_date, toDate32('1900-01-01')))";

/**
 * Whether a contract's root ends in a digit (`SDS1`): it was adjusted for a split, merger or special dividend, or is a
 * mini, and does not stand for 100 shares of the underlying. Source: OCC, Options Symbology Initiative: adjusted series get
 * a root with a number at its end.
 * @param symbol the option symbol, with or without the padding of some feeds; null or empty: not known to be adjusted
 */
export function hasAdjustedRoot(symbol: string): string {
  const plain = `replace(${symbol}, ' ', '')`;
  const at = (fromEnd: number) => `substring(${plain}, length(${plain}) - ${fromEnd}, 1)`;
  return `(length(${plain}) > ${SYMBOL_TAIL} AND ${at(SYMBOL_TAIL)} BETWEEN '0' AND '9' AND ${at(8)} IN ('C', 'P'))`;
}

/**
 * Whether the day's premium of a series shows that a contract is not 100 shares: less than half or more than twice of
 * price x size x 100. Known sums only.
 * @param premium sum of the premiums @param standard sum of price x size x 100
 */
export function hasOddSize(premium: string, standard: string): string {
  return `(${premium} > 0 AND ${standard} > 0 AND (${premium} < 0.5 * ${standard} OR ${premium} > 2 * ${standard}))`;
}

/** The key that a cancel message shares with the print that it cancels. */
const KEY = `${SERIES_KEY}, size, price`;
/** Numbers of the key that separate most keys cheaply: the rest is compared only if these are equal. */
const FEW = 'strike, size, price';

export const IS_CANCEL = isOneOf(CANCEL_TYPES);
export const IS_LATE = isOneOf(LATE_TYPES);

/** Columns that decide which records count. */
export const COUNTED_COLUMNS: readonly string[] = ['id', 'time', 'option_activity_type', ...KEY.split(', ')];

/** Columns that the summary beside a drop needs. */
export const SUMMARIZED_COLUMNS: readonly string[] = [
  ...new Set(['symbol', 'oi', ...COUNTED_COLUMNS, ...PREMIUM_COLUMNS]),
];

/**
 * A query for the cancelled prints.
 * @param table the day's records, for the FROM clause
 * @param columns columns to return for each print
 */
export function buildCancelledQuery(table: string, columns: readonly string[]): string {
  // Both windows start at their first row and only grow, so each row is added once: with size 1, a contract may have
  // some ten thousand prints at one price.
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
 * The condition for the records that count.
 * @param cancelled the expression that identifies a record, and the identifiers of the cancelled prints: a list of
 *   literals or a query; null if there are none
 */
export function buildCountedCondition(cancelled: { readonly name: string; readonly list: string } | null): string {
  const taken = cancelled === null ? '' : ` AND ${cancelled.name} NOT IN (${cancelled.list})`;
  const types = isOneOf([...CANCEL_TYPES, ...LATE_TYPES]);
  // A record without a type counts, but `NOT` of a null would drop it.
  return `(NOT (${types}) OR option_activity_type IS NULL)${taken}`;
}

/** The records that count, as a table for the FROM clause that contains the full rule. */
export function buildCountedTable(table: string): string {
  const list = `SELECT id FROM (${buildCancelledQuery(table, ['id'])}) AS cancelled`;
  return `(SELECT * FROM ${table} WHERE ${buildCountedCondition({ name: 'id', list })})`;
}

/**
 * The fate of each record: `counted`, or why it does not count. An expression over a record of the table.
 * @param name identifies a record: `id`, or the engine's row number, which it need not read from the file
 */
export function buildFate(table: string, name: string): string {
  const cancelled = `SELECT ${name} FROM (${buildCancelledQuery(table, [name])}) AS cancelled`;
  return `CASE WHEN ${IS_CANCEL} THEN 'cancel message' WHEN ${name} IN (${cancelled}) THEN 'cancelled print' WHEN ${IS_LATE} THEN 'late report' ELSE 'counted' END`;
}

function isOneOf(types: readonly string[]): string {
  // A record without a type is none of them; without `coalesce`, the null would be neither in the list nor outside it.
  return `coalesce(option_activity_type, '') IN (${quoteList(types)})`;
}

function quoteList(values: readonly string[]): string {
  return values.map((value) => `'${value}'`).join(', ');
}
