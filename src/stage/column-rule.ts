/**
 * The rules by which a value of a page is judged, one for each type of column: the plain form, which is staged as it is, and
 * SQL that judges every other form: taken without loss, or refused with the reason. Invariant: a value that the rules do
 * not take is never staged. Pure text.
 */
import type { DropType } from '../api-contract/trade.ts';
import { INSTANT_DIGITS } from '../engine/column-types.ts';
import { quoteString } from '../engine/literal.ts';
import type { Job, JobColumn } from '../job/job.ts';

export interface RuleContext {
  readonly job: Pick<Job, 'source'>;
  readonly date: string;
}

/** SQL over `raw`, the bytes of a value, `t`, its text, what is read of it, and `c.more`, the text that its column adds. */
interface Rule {
  /** A regular expression of the bytes of a plain value. */
  readonly plain: (column: JobColumn, context: RuleContext) => string;
  /** The text as it is staged. */
  readonly value: string;
  /** Why it is refused; it completes the sentence that begins with the column's name. Empty if it is taken. */
  readonly reason: string;
  /** What it is called if the text changes. */
  readonly form: string;
  readonly more?: (column: JobColumn, context: RuleContext) => string;
}

export const matches = (value: string, pattern: string) => `match(${value}, ${quoteString(`(?s)${pattern}`)})`;

/** Characters that are none, although the engine lets their bytes pass as UTF-8. */
export const SURROGATES = '\\x{D800}-\\x{DFFF}';
export const JSON_NUMBER = '-?(?:0|[1-9]\\d*)(?:\\.\\d+)?(?:[eE][+-]?\\d+)?';
/** A surrogate that is not one of a pair is half of a character. */
const PAIR = '\\\\\\\\|\\\\u[dD][89abAB]..\\\\u[dD][c-fC-F]';
export const HAS_HALF = `(position(raw, '\\\\u') > 0 AND ${matches(`replaceRegexpAll(raw, ${quoteString(PAIR)}, '')`, '\\\\u[dD][89a-fA-F]')})`;

export const INT32 = { least: -2_147_483_648n, most: 2_147_483_647n } as const;
const INT64 = { least: -9_223_372_036_854_775_808n, most: 9_223_372_036_854_775_807n } as const;

const isWithin = (least: bigint, most: bigint) =>
  `ifNull(exact BETWEEN toDecimal256('${least}', 0) AND toDecimal256('${most}', 0), false)`;
/** `12`, `12.0` and `1.2e1` are the same whole number; 12.5 is not one. */
const judgeWhole = ({ least, most }: typeof INT32 | typeof INT64, unfit: string) => ({
  value: 'toString(exact)',
  reason: `multiIf(whole AND ${isWithin(least, most)}, '', whole OR ifNull(isFinite(f) AND abs(f) >= 1e18, false), '${unfit}', 'is not a whole number')`,
  form: 'other number form',
});

const MONTH_DAY =
  '(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))';
/** A date that exists, in the engine's range. */
const DAY = `(?:(?:19|2[0-2])(?:\\d\\d-${MONTH_DAY}|(?:0[48]|[2468][048]|[13579][26])-02-29)|2000-02-29)`;
const CLOCK = '(?:[01]\\d|2[0-3]):[0-5]\\d';
const ANY_TIME = `^(${DAY})[ T](${CLOCK})(?:(:[0-5]\\d)(?:\\.(\\d+?)0*)?)?(Z|[+-]\\d{2}:?\\d{2})?$`;
/** Length of a text that is compared exactly as a number. */
const DIGITS = 38;

/** What the rules read of a value beside its text: SQL by name, each after what it needs. */
export const READ = {
  f: 'toFloat64OrNull(t)',
  exact: `toDecimal256OrNull(t, ${DIGITS})`,
  // The engine takes a lone sign, and a fraction that is too long, for 0.
  whole: `length(t) <= ${DIGITS} AND ifNull(trunc(exact) = exact AND (exact != 0 OR f = 0), false)`,
  // Day, clock, seconds, fraction, zone; nothing if it is no time.
  at: `extractGroups(t, ${quoteString(ANY_TIME)})`,
} as const;

const FRACTION = "if(at[4] = '0', '', at[4])";
const IS_LONG = "length(at[4]) > 3, 'has more digits than milliseconds'";

export const RULES: Readonly<Record<DropType, Rule>> = {
  string: {
    plain: (column, context) =>
      `"[^"\\\\${SURROGATES}${wordsOf(column, context) === undefined ? '' : 'a-z'}]${isEmptyKept(column, context) ? '*' : '+'}"`,
    value: `if(has(splitByChar(',', c.more), upper(t)), upper(t), t)`,
    // Numbers and booleans become text unchanged: some servers do not quote ids in JSON.
    reason: `multiIf(startsWith(raw, '"'), if(${HAS_HALF}, 'has an incomplete character', ''), ${matches('raw', `^(?:true|false|${JSON_NUMBER})$`)}, '', 'is not JSON')`,
    form: 'other case',
    more: (column, context) => (wordsOf(column, context) ?? []).join(','),
  },
  int32: {
    plain: () => '(?:0|-?[1-9]\\d{0,8})',
    ...judgeWhole(INT32, 'does not fit into 32 bits'),
  },
  int64: {
    plain: () => '"(?:0|-?[1-9]\\d{0,17})"',
    ...judgeWhole(INT64, 'does not fit into 64 bits'),
  },
  double: {
    plain: () => '-?(?:0|[1-9]\\d{0,99})(?:\\.\\d+)?(?:[eE][+-]?\\d{1,2})?',
    value: 't',
    reason: `multiIf(isNull(f), 'is not a number', isFinite(f), '', 'is not a finite number')`,
    form: '',
  },
  date: {
    plain: (column, context) => `"${isPartition(column, context) ? context.date : DAY}"`,
    value: 'substring(t, 1, 10)',
    reason: `multiIf(NOT (startsWith(raw, '"') AND ${matches('t', `^${DAY}(?:[ T]00:00(?::00(?:\\.0+)?)?Z?)?$`)}), 'is not a date YYYY-MM-DD', c.more = '' OR startsWith(t, c.more), '', 'is not the requested date')`,
    form: 'date with a time of zero',
    more: (column, context) => (isPartition(column, context) ? context.date : ''),
  },
  wall: {
    plain: (column, context) => `"${DAY} ${CLOCK}${isWindowed(column, context) ? ':[0-5]\\d' : '(?::[0-5]\\d)?'}"`,
    value: `concat(at[1], ' ', at[2], at[3], if(${FRACTION} = '', '', concat('.', rightPad(${FRACTION}, 3, '0'))))`,
    reason: `multiIf(NOT (startsWith(raw, '"') AND notEmpty(at) AND at[5] = '' AND (c.more = '' OR (substring(t, 11, 1) = ' ' AND at[3] != ''))), 'is not a time YYYY-MM-DD HH:MM:SS', ${IS_LONG}, '')`,
    form: 'other time form',
    more: (column, context) => (isWindowed(column, context) ? 'windowed' : ''),
  },
  /** Milliseconds since the epoch in digits; or a time, which is UTC if it names no offset. */
  instant: {
    plain: () =>
      `"(?:0|[1-9]\\d{0,${INSTANT_DIGITS - 1}}|2[0-2]\\d\\d-${MONTH_DAY}[ T]${CLOCK}:[0-5]\\d(?:\\.\\d{1,3})?Z?)"`,
    // A time stays unchanged: the source counts it by this text, and the seal can read it.
    value: 'if(isNull(f), t, toString(exact))',
    reason: `multiIf(ifNull(isFinite(f), false), if(whole AND ${isWithin(0n, 10n ** BigInt(INSTANT_DIGITS) - 1n)}, '', 'is not an instant in milliseconds'), NOT startsWith(raw, '"') OR empty(at), 'is not an instant', ${IS_LONG}, ifNull(toUnixTimestamp64Milli(parseDateTime64BestEffortOrNull(t, 3, 'UTC')) >= 0, false), '', 'is not an instant in milliseconds')`,
    form: 'other number form',
  },
};

/** The bytes of a plain value of the column, or of its normal null. */
export function plainPattern(column: JobColumn, context: RuleContext): string {
  const plain = RULES[column.type].plain(column, context);
  return column.oftenNull ? `(?:${plain}|""|null)` : plain;
}

/** Empty text is a value only in text columns, but not in those of snapshots. */
export function isEmptyKept({ type }: JobColumn, { job }: RuleContext): boolean {
  return type === 'string' && job.source.kind !== 'snapshots';
}

/**
 * Columns of a model or for reference, in trades, chains and market structure: no sum and no key needs them. A value that
 * cannot be read there becomes null, and does not cost its row.
 */
const MODEL_COLUMNS: ReadonlySet<string> = new Set([
  ...['iv', 'delta', 'gamma', 'vega', 'theta', 'rho', 'dex', 'dei', 'bid', 'bid_size', 'ask', 'ask_size'],
  ...['underlying_price', 'moneyness', 'side', 'earning_date', 'market_cap', 'expiry_days', 'daily_volume'],
  ...['symbol_meta_earning_date', 'symbol_meta_market_cap'],
]);

/** Whether an unreadable value of the column becomes null. A sort column or a key of groups is never null. */
export function isModelColumn({ name, nullable }: Pick<JobColumn, 'name' | 'nullable'>): boolean {
  return nullable && MODEL_COLUMNS.has(name);
}

/** Whether the column takes every text unchanged. */
export function isAnyText(column: JobColumn, context: RuleContext): boolean {
  return column.type === 'string' && wordsOf(column, context) === undefined;
}

/** The allowed words of a column of the provider's table; user SQL may produce other words. */
function wordsOf({ words }: JobColumn, { job }: RuleContext): readonly string[] | undefined {
  return job.source.kind === 'rows' && job.source.sql === '' ? words : undefined;
}

/**
 * What stands for the date and the symbol in a row of a snapshot without them: those of the request. `undefined` for other
 * columns. An empty symbol is read from the row's window.
 */
export function askedText({ name }: JobColumn, { job, date }: RuleContext): string | undefined {
  if (job.source.kind !== 'snapshots') return undefined;
  return name === 'date' ? date : name === 'symbol' ? '' : undefined;
}

/** Whether the column holds the date of the row: groups may have another date under that name. */
function isPartition({ name, type }: JobColumn, { job }: RuleContext): boolean {
  return name === 'date' && type === 'date' && job.source.kind !== 'aggregate';
}

/**
 * Whether windows are cut by the text of the column. If a row's text has another form, it sorts into another window
 * than its value belongs to, so the row is bad even if the value is readable.
 */
function isWindowed({ name, type }: JobColumn, { job }: RuleContext): boolean {
  return name === 'time' && type === 'wall' && job.source.kind === 'rows';
}
