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
import { type Families, writeFamily } from '../api-contract/family.ts';
import {
  CANCEL_TYPES,
  LATE_TYPES,
  MULTI_LEG_PREFIX,
  MULTI_LEG_TYPES,
  SINGLE_LEG_TYPES,
  SWEEP_TYPES,
} from '../api-contract/record-type.ts';
import { SYMBOL_TAIL, TRADE_COLUMNS } from '../api-contract/trade.ts';
import {
  ALWAYS_SETTLED_AT_OPEN,
  listEarlyExpirations,
  MONTHLY_SETTLED_AT_OPEN,
  monthlyExpiration,
} from '../calendar/holidays.ts';
import { LATE_CLOSING, listGlobal, REPORT_SEGMENTS, SESSION_END_SECOND, type Segment } from '../calendar/segments.ts';
import {
  type CalendarOverride,
  closedSecond,
  closeSecond,
  isSession,
  listSessionsAround,
  nightEndSecond,
  OPEN_SECOND,
  sessionCloseSecond,
} from '../calendar/session.ts';
import { formatSecond } from '../calendar/wall-clock.ts';

export const IS_CALL = "put_call = 'CALL'";
export const IS_PUT = "put_call = 'PUT'";
/** Where the trade executed: at or above the ask, at or below the bid. */
export const AT_ASK = "side IN ('AASK', 'ASK')";
export const AT_BID = "side IN ('BBID', 'BID')";
export const IS_MULTI_LEG = `(option_activity_type LIKE '${MULTI_LEG_PREFIX}%' OR option_activity_type IN (${quoteList(MULTI_LEG_TYPES)}))`;
export const IS_SWEEP = `option_activity_type IN (${quoteList(SWEEP_TYPES)})`;

/** The root that the option symbol names, without the blanks of some feeds; empty if it names none. */
const NAMED_ROOT = `left(replace(coalesce(option_symbol, ''), ' ', ''), -${SYMBOL_TAIL})`;
/** The option symbol, or the symbol of the underlying if there is none, without blanks. */
const CONTRACT = "coalesce(nullif(replace(option_symbol, ' ', ''), ''), replace(symbol, ' ', ''))";
/** The root of a contract's key. A text that is too short for an option symbol is a root of its own. */
export const ROOT = `coalesce(nullif(left(${CONTRACT}, -${SYMBOL_TAIL}), ''), ${CONTRACT})`;
/** Some sources compute strikes, with noise in the last digits: 20.1 and 20.100000000000005 are one strike. */
const THOUSANDTHS = 'floor(strike * 1000 + 0.5)';
export const STRIKE = `${THOUSANDTHS} / 1000`;

const IS_ALWAYS_SETTLED = `coalesce(symbol, '') IN (${quoteList(ALWAYS_SETTLED_AT_OPEN)})`;
const HAS_MONTHLY_ROOT = `${NAMED_ROOT} IN (${quoteList(MONTHLY_SETTLED_AT_OPEN)})`;

/**
 * Whether a contract settled at the opening of this date, on which it expires. A contract without an option symbol could
 * be the sibling that lives to the close: it counts.
 * @param columns the names of the contract's columns, where they are not those of a record
 */
export function isSettledOn(
  date: string,
  columns = { symbol: 'symbol', option_symbol: 'option_symbol', expiration_date: 'expiration_date' },
): string {
  const isNamed =
    monthlyExpiration(date) === date ? ` OR ${HAS_MONTHLY_ROOT.replace('option_symbol', columns.option_symbol)}` : '';
  const isAlways = IS_ALWAYS_SETTLED.replace('symbol', columns.symbol);
  return `(coalesce(${columns.expiration_date} = DATE '${date}', false) AND (${isAlways}${isNamed}))`;
}

/** Years whose holidays on a third Friday are listed: those of the data that the API can have. */
const EARLY_EXPIRATIONS = listEarlyExpirations(2012, 2040).map((date) => `DATE '${date}'`);
/** The third Friday of a month: a Friday is four days after a Monday, such as 1970-01-05. */
const IS_MONTHLY_DATE = `(EXTRACT(DAY FROM date) BETWEEN 15 AND 21 AND date_diff('day', DATE '1970-01-05', date) % 7 = 4 OR date IN (${EARLY_EXPIRATIONS.join(', ')}))`;

/**
 * A contract does not trade after its expiration, so a record dated after it counts as one of the last day. A series that
 * settled at the opening does not trade on its expiration date.
 */
export const IS_ZERO_DTE = `expiration_date <= date AND NOT (expiration_date = date AND (${IS_ALWAYS_SETTLED} OR ${IS_MONTHLY_DATE} AND ${HAS_MONTHLY_ROOT}))`;

/** The half hour of a record since midnight, 19 from 09:30 on. */
export const HALF_HOUR = '2 * EXTRACT(HOUR FROM time) + CASE WHEN EXTRACT(MINUTE FROM time) < 30 THEN 0 ELSE 1 END';

const DAY = 'CAST(time AS DATE)';
const MINUTE = '(60 * EXTRACT(HOUR FROM time) + EXTRACT(MINUTE FROM time))';
/** All segments begin and end with a minute. @param second of the day */
const isBefore = (second: number) => `${MINUTE} < ${second / 60}`;
/** Whether a record of a report's hours traded in the early segment. */
export const IS_EARLY = isBefore(OPEN_SECOND);
const IS_BEFORE_END = isBefore(SESSION_END_SECOND);
const CLOSES_LATE = `coalesce(symbol, '') IN (${quoteList(LATE_CLOSING)})`;
export const IN_REPORT_SEGMENTS = `segment IN (${quoteList(REPORT_SEGMENTS)})`;

type NamePlace = (session: string, segment: Segment) => string;

/** The session and the segment of a record in the drop of a date, by its time alone. @param name writes each as SQL */
export function writePlace(date: string, calendar: CalendarOverride | undefined, name: NamePlace): string {
  const [before, on, after] = listSessionsAround(date, calendar);
  const cases = [before, on].map((session) => {
    const isOf = `${DAY} < DATE '${session}' OR ${DAY} = DATE '${session}' AND ${IS_BEFORE_END}`;
    return `WHEN ${isOf} THEN ${writeSegment(session, calendar, name)}`;
  });
  return `CASE ${cases.join(' ')} ELSE ${name(after, 'overnight')} END`;
}

/**
 * The condition for the records of a report of a session: from its early segment to its late one. Null if the date has no
 * session, or all of its records are in these hours.
 */
export function buildReportHours(
  {
    date,
    min_time: from,
    max_time: to,
  }: Readonly<Record<'date', string> & Record<'min_time' | 'max_time', string | null>>,
  calendar?: CalendarOverride,
): string | null {
  if (!isSession(date, calendar)) return null;
  const at = (second: number) => `${date} ${formatSecond(second)}`;
  if (!from || !to || (from >= at(OPEN_SECOND) && to < at(sessionCloseSecond(date, calendar)))) return null;
  const isIn = writeSegment(date, calendar, (_, segment) => (REPORT_SEGMENTS.includes(segment) ? '1' : '0'));
  // One expression: ClickHouse loses a column that two conditions of an AND have in common.
  return `(CASE WHEN ${DAY} = DATE '${date}' AND ${IS_BEFORE_END} THEN ${isIn} ELSE 0 END = 1)`;
}

function writeSegment(session: string, calendar: CalendarOverride | undefined, name: NamePlace): string {
  const of = (segment: Segment) => name(session, segment);
  const isGlobal = `coalesce(symbol, '') IN (${quoteList(listGlobal(session)) || 'NULL'})`;
  return `CASE WHEN ${DAY} < DATE '${session}' OR ${isBefore(nightEndSecond(session))} OR ${isBefore(OPEN_SECOND)} AND ${isGlobal} THEN ${of('overnight')}
    WHEN ${isBefore(OPEN_SECOND)} THEN ${of('early')} WHEN ${isBefore(closeSecond(session, 'equity', calendar))} THEN ${of('regular')}
    WHEN NOT ${isBefore(closedSecond(session, calendar))} OR NOT ${isBefore(sessionCloseSecond(session, calendar))} AND ${isGlobal} THEN ${of('curb')}
    WHEN ${CLOSES_LATE} THEN ${of('regular')} ELSE ${of('late')} END`;
}

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

/**
 * The columns of the records that are summed, under the symbols of their families. A record without an option symbol keeps
 * its own symbol as the root. @param hasGaps whether premiums may not be finite @param families null: no symbol changes
 */
export function writeColumns(hasGaps: boolean, families: Families | null): string {
  const replaced = [
    ...(hasGaps ? [`${KNOWN_PREMIUM} AS premium`] : []),
    ...(families === null ? [] : [`${CONTRACT} AS option_symbol`, `${writeFamily(families)} AS symbol`]),
  ];
  return replaced.length === 0 ? '*' : `* REPLACE (${replaced.join(', ')})`;
}

/** Records whose premiums can be compared, as a table for the FROM clause. @param families as in `writeColumns` */
export function nameKnown(table: string, families: Families | null): string {
  return `(SELECT ${writeColumns(true, families)} FROM ${table})`;
}

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

/**
 * The key of a contract, to group or partition by: however its option symbol is padded and its strike is rounded, it is one
 * series. Strike with expiration does not distinguish SPX from SPXW; the root does.
 */
const SERIES_KEY = `symbol, ${ROOT}, put_call, ${THOUSANDTHS}, expiration_date`;

/**
 * The key as a number (ClickHouse). The engine's hash is null if any argument is null: without the replacements,
 * records of all symbols that lack a part of the key would be one series.
 */
export const SERIES_HASH = `cityHash64(symbol, ifNull(${ROOT}, '\\0'), ifNull(put_call, '\\0'), ifNull(${THOUSANDTHS}, nan), ifNull(expiration_date, toDate32('1900-01-01')))`;

/**
 * A chain with one row for each contract, for the FROM clause: of rows of one key, the one with the largest open interest.
 * @param chain the chain drop, for the FROM clause @param columns those that the caller reads
 */
export function buildChainTable(chain: string, columns: readonly string[]): string {
  const order = ['open_interest', 'gamma', 'iv', 'delta'].map(
    (name) => `CASE WHEN isFinite(${name}) THEN ${name} END DESC NULLS LAST`,
  );
  return `(SELECT * FROM (SELECT ${columns.join(', ')}, row_number() OVER (PARTITION BY ${SERIES_KEY} ORDER BY ${order.join(', ')}) AS copy FROM ${chain}) AS copies WHERE copy = 1)`;
}

/**
 * Whether a contract's root ends in a digit (`SDS1`): it was adjusted for a split, merger or special dividend, or is a
 * mini, and does not stand for 100 shares of the underlying. Source: OCC, Options Symbology Initiative: adjusted series get
 * a root with a number at its end.
 * @param symbol the option symbol, with or without the padding of some feeds; null or empty: not known to be adjusted
 */
export function hasAdjustedRoot(symbol: string): string {
  const plain = `replace(${symbol}, ' ', '')`;
  const at = (fromEnd: number) => `substring(${plain}, -${fromEnd}, 1)`;
  return `(length(${plain}) > ${SYMBOL_TAIL} AND ${at(SYMBOL_TAIL + 1)} BETWEEN '0' AND '9' AND ${at(9)} IN ('C', 'P'))`;
}

/** Shares of a standard contract, and of the others that a premium is taken to show. */
const [FEWEST_SHARES, STANDARD_SHARES, MOST_SHARES] = [10, 100, 1000];
const STANDARD_PREMIUM = `(price * size * ${STANDARD_SHARES})`;
/** What a record paid, as a part of price x size x 100; null if it does not say. */
export const PAID_PART = `CASE WHEN isFinite(premium) AND isFinite(${STANDARD_PREMIUM}) AND premium > 0 AND ${STANDARD_PREMIUM} > 0 THEN premium / ${STANDARD_PREMIUM} END`;
/** Whether that part shows another number of shares than 100, and not only a rounded premium. */
export const IS_ODD_PART = `coalesce(NOT (${PAID_PART} BETWEEN 0.75 AND 1.25), false)`;

/**
 * Shares of a contract for one in a series, by what its records paid; 0 if they show no number of shares.
 * @param odd number of records of `IS_ODD_PART` @param usual number of the others that say what was paid
 * @param part the median of `PAID_PART` of the odd ones
 */
export function readShares(odd: string, usual: string, part: string): string {
  const shares = `floor(${part} * ${STANDARD_SHARES} + 0.5)`;
  return `CASE WHEN ${odd} <= ${usual} THEN ${STANDARD_SHARES} WHEN ${shares} BETWEEN ${FEWEST_SHARES} AND ${MOST_SHARES} THEN ${shares} ELSE 0 END`;
}

/** A price, in hundredths of a cent. */
const PRICE = 'floor(price * 10000 + 0.5)';
/** The key that a cancel message shares with the print that it cancels. */
const KEY = 'symbol, contract_root, put_call, contract_strike, expiration_date, size, contract_price';
const KEY_COLUMNS = ['symbol', 'option_symbol', 'put_call', 'strike', 'expiration_date', 'size', 'price', 'premium'];
/** Numbers of the key that separate most keys cheaply: the rest is compared only if these are equal. */
// Written in another way than `THOUSANDTHS`: ClickHouse loses a column that it takes for the same in two steps of a plan.
const FEW = `floor(1000 * strike + 0.5), size, ${PRICE}`;

export const IS_CANCEL = isOneOf(CANCEL_TYPES);
export const IS_LATE = isOneOf(LATE_TYPES);

/** Columns that decide which records count. */
export const COUNTED_COLUMNS: readonly string[] = ['id', 'time', 'option_activity_type', ...KEY_COLUMNS];

/** Columns that the summary beside a drop needs. */
export const SUMMARIZED_COLUMNS: readonly string[] = [
  ...new Set(['symbol', 'oi', ...COUNTED_COLUMNS, ...PREMIUM_COLUMNS]),
];

/**
 * The prints and cancel messages of the keys that may have a cancel message, each with the running sum `level` and the
 * lowest that it has later. Both sums follow one numbering, because records of equal time and id have no order of their own.
 * @param list the columns of the result, with those of `COUNTED_COLUMNS` @param day names the day's column, if there are many
 */
function matchCancels(table: string, list: string, day?: string): string {
  const [key, few] = [KEY, FEW].map((columns) => (day === undefined ? columns : `${day}, ${columns}`));
  // Both windows start at their first row and only grow, so each row is added once: with size 1, a contract may have
  // some ten thousand prints at one price.
  const frame = 'ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW';
  return `SELECT *, min(level) OVER (PARTITION BY ${key} ORDER BY place DESC ${frame}) AS lowest FROM (
    SELECT *, sum(step) OVER (PARTITION BY ${key} ORDER BY place ${frame}) AS level FROM (
      SELECT *, row_number() OVER (PARTITION BY ${key} ORDER BY time, step DESC, id, option_activity_type, ${KNOWN_PREMIUM}) AS place FROM (
        SELECT ${list}, ${ROOT} AS contract_root, ${THOUSANDTHS} AS contract_strike, ${PRICE} AS contract_price, CASE WHEN ${IS_CANCEL} THEN -1 ELSE 1 END AS step
        FROM ${table}
        WHERE (${few}) IN (SELECT ${few} FROM ${table} WHERE ${IS_CANCEL})
      ) AS keyed
    ) AS placed
  ) AS levelled`;
}

/**
 * A query for the cancelled prints.
 * @param table the day's records, for the FROM clause
 * @param columns columns to return for each print
 * @param day the column that names the day, if the table has many
 */
export function buildCancelledQuery(table: string, columns: readonly string[], day?: string): string {
  const list = [...new Set([...columns, ...COUNTED_COLUMNS])].join(', ');
  return `SELECT ${columns.join(', ')} FROM (${matchCancels(table, list, day)}) AS matched WHERE step = 1 AND lowest < level`;
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

/**
 * The records of a file for readers, whose rows have no number: as a table for the FROM clause, with columns that show
 * which prints were cancelled. A condition on ids would take several records of one id, or all without one.
 */
function buildMatchedTable(table: string): string {
  const isAlone = `CASE WHEN (${FEW}) IN (SELECT ${FEW} FROM ${table} WHERE ${IS_CANCEL}) THEN 0 ELSE 1 END = 1`;
  return `(
  SELECT *, '' AS contract_root, 0.0 AS contract_strike, 0.0 AS contract_price, 1 AS step, 0 AS place, 0 AS level, 0 AS lowest FROM ${table} WHERE ${isAlone}
  UNION ALL
  ${matchCancels(table, '*')}
)`;
}

/** The records that count, as a table for the FROM clause that contains the full rule. */
export function buildCountedTable(table: string): string {
  return `(SELECT * FROM ${buildMatchedTable(table)} AS matched WHERE lowest >= level AND ${buildCountedCondition(null)})`;
}

/** The prints that were cancelled and the late reports, for readers, as a table for the FROM clause: `record` says which. */
export function buildLeftOutTable(table: string): string {
  const matched = `(SELECT *, ${writeFate('lowest < level')} AS record FROM ${buildMatchedTable(table)} AS matched)`;
  return `(SELECT * FROM ${matched} AS fates WHERE record IN ('cancelled print', 'late report'))`;
}

/**
 * The number and the premium of the records of each fate, and its sentiment, for readers.
 * @param premium SQL that can be summed @param hours of the report; null: all records are in these
 */
export function buildFatesQuery(table: string, premium: string, hours: string | null): string {
  const counted = hours === null ? "'counted'" : `CASE WHEN ${hours} THEN 'counted' ELSE 'other hours' END`;
  const side = (sentiment: string) => `sum(CASE WHEN sentiment = '${sentiment}' THEN ${premium} ELSE 0 END)`;
  return `SELECT ${writeFate('lowest < level', counted)} AS record, count(*) AS trades, sum(${premium}) AS total_premium,
  ${side('BULLISH')} AS bullish, ${side('BEARISH')} AS bearish\nFROM ${buildMatchedTable(table)} AS matched GROUP BY 1 ORDER BY 1`;
}

/**
 * The fate of each record: `counted`, or why it does not count. An expression over a record of the table.
 * @param name identifies a record: the engine's row number, which it need not read from the file
 */
export function buildFate(table: string, name: string): string {
  return writeFate(`${name} IN (${buildCancelledQuery(table, [name])})`);
}

function writeFate(isCancelled: string, counted = "'counted'"): string {
  return `CASE WHEN ${IS_CANCEL} THEN 'cancel message' WHEN ${isCancelled} THEN 'cancelled print' WHEN ${IS_LATE} THEN 'late report' ELSE ${counted} END`;
}

function isOneOf(types: readonly string[]): string {
  // A record without a type is none of them; without `coalesce`, the null would be neither in the list nor outside it.
  return `coalesce(option_activity_type, '') IN (${quoteList(types)})`;
}

function quoteList(values: readonly string[]): string {
  return values.map((value) => `'${value}'`).join(', ');
}
