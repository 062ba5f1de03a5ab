/**
 * The values that each column type accepts: one set of rules for both paths of a page into the stage. The fast path is
 * SQL over a whole page, and checks only that every value is in the plain form that the engine reads exactly. The slow
 * path judges the values of a refused page one by one (`column-value.ts`). Invariant: values from the slow path are
 * read back unchanged; a value that neither path accepts is never staged. Pure text.
 */
import { COLUMN_TYPES, nullMark } from '../engine/column-types.ts';
import { quoteIdentifier, quoteString } from '../engine/literal.ts';
import type { Job, JobColumn } from '../job/job.ts';

/**
 * Whether a column of the stage may have this name. Names that begin with an underscore belong to the engine (`_file`,
 * `_part`, `_row_exists`) or to the stage; an empty name cannot be a column.
 */
export function isColumnName(name: string): boolean {
  return name !== '' && !name.startsWith('_');
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

/** The context of a column: its job, and the date of the rows. */
export interface RuleContext {
  readonly job: Pick<Job, 'source'>;
  readonly date: string;
}

export const INT32 = { least: -2_147_483_648n, most: 2_147_483_647n } as const;
export const INT64 = { least: -9_223_372_036_854_775_808n, most: 9_223_372_036_854_775_807n } as const;
/** Years of a date or time, both included: the engine's range of dates. */
export const YEARS = { least: 1900, most: 2299 } as const;

/** The kind of rows: a page as the source sent it, or rows that were judged one by one. */
export type PageKind = 'plain' | 'judged';

/**
 * How a column of a page is read, as `file()` takes it, and the SQL of its staged value. Integers are read as floating-point
 * numbers: as an integer type, the engine would change a number that does not fit, and read an empty text as 0.
 */
export function readColumn({ name, type, oftenNull }: JobColumn, kind: PageKind) {
  const isText = COLUMN_TYPES[type].staged === 'String';
  const read = isText ? 'String' : 'Float64';
  const value = type === 'int32' ? `toInt64(${quoteIdentifier(name)})` : quoteIdentifier(name);
  // Judged rows have only nulls left to handle.
  if (kind === 'judged' || (oftenNull && type === 'double')) {
    return { read: `Nullable(${read})`, value: `ifNull(${value}, ${nullMark(type, oftenNull)})` };
  }
  const refusal = `throwIf(materialize(true), ${quoteString(`"${name}" is null or absent`)})`;
  return { read: `${read} DEFAULT ${oftenNull && isText ? "''" : refusal}`, value };
}

/**
 * SQL that is true if all values of a row of a plain page can be staged unchanged. Columns of one type are checked
 * together, because the engine needs as long to plan a condition of a hundred parts as to compute it.
 */
export function isPlainRow(context: RuleContext): string {
  const { columns } = context.job.source;
  const of = (wanted: (column: JobColumn) => boolean) =>
    columns.filter(wanted).map(({ name }) => quoteIdentifier(name));
  const doubles = columns
    .filter(({ type }) => type === 'double')
    .map(({ name, oftenNull }) => (oftenNull ? `assumeNotNull(${quoteIdentifier(name)})` : quoteIdentifier(name)));
  const integers = of(({ type }) => type === 'int32');
  const words = of((column) => wordsOf(column, context) !== undefined);
  return [
    // A non-finite value makes the sum non-finite. An overflow of large numbers does too, but only costs the slow path.
    ...(doubles.length > 0 ? [`isFinite(${doubles.join(' + ')})`] : []),
    ...(integers.length > 0
      ? [`arrayAll(x -> x BETWEEN ${INT32.least} AND ${INT32.most} AND toInt64(x) = x, [${integers.join(', ')}])`]
      : []),
    ...(words.length > 0 ? [`upper(concat(${words.join(', ')}, '')) = concat(${words.join(', ')}, '')`] : []),
    ...of((column) => isPartition(column, context)).map((value) => `${value} = ${quoteString(context.date)}`),
    ...of((column) => isWindowed(column, context)).map((value) => `length(${value}) = 19`),
    ...columns.flatMap((column) => {
      const isPlain = COLUMN_TYPES[column.type].isPlain?.(quoteIdentifier(column.name));
      if (isPlain === undefined || isPartition(column, context)) return [];
      return [column.oftenNull ? `(${quoteIdentifier(column.name)} = '' OR ${isPlain})` : isPlain];
    }),
    'true',
  ].join(' AND ');
}

/** The allowed words of a column of the provider's table; user SQL may produce other words. */
export function wordsOf({ words }: JobColumn, { job }: RuleContext): readonly string[] | undefined {
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
export function isPartition({ name, type }: JobColumn, { job }: RuleContext): boolean {
  return name === 'date' && type === 'date' && job.source.kind !== 'aggregate';
}

/**
 * Whether windows are cut by the text of the column. If a row's text has another form, it sorts into another window
 * than its value belongs to, so the row is bad even if the value is readable.
 */
export function isWindowed({ name, type }: JobColumn, { job }: RuleContext): boolean {
  return name === 'time' && type === 'wall' && job.source.kind === 'rows';
}
