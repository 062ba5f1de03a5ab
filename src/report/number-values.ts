/**
 * The numbers of `numbers.ts` as SQL and as values, which are read from the engine's rows, a summary or a report. One
 * list of SQL serves the whole day, a symbol, a half hour and the summary beside a drop, so that parts are computed
 * like the total. The SQL runs in ClickHouse and DuckDB. Pure.
 */
import { type Amount, divide, type EngineNumber, readAmount } from './amount.ts';
import {
  type Compared,
  forCompared,
  KEY_NUMBERS,
  NUMBERS,
  type NumberSource,
  PART_KEYS,
  PREMIUM_NUMBERS,
  type Premium,
  type ReportedNumber,
  type ReportNumber,
} from './numbers.ts';

/** A column and its SQL aggregate. */
type ColumnSql = readonly [column: string, sql: string];

/** A row with the columns of `buildPremiumList`, and perhaps others; columns that the list lacks are missing. */
export type PremiumRow = Readonly<Record<string, unknown>>;

const ALL = NUMBERS.flatMap((number) => (number.sum ? [{ ...number, sum: number.sum }] : []));
const COUNTS = ALL.filter(({ sum }) => sum === 'records');
const SUMS = ALL.filter(({ sum }) => sum !== 'records');

const COUNT_ALL: readonly ColumnSql[] = COUNTS.flatMap(({ name, where }) => (where ? [] : [[name, 'count(*)']]));
const COUNT_GAPS: readonly ColumnSql[] = COUNTS.flatMap(({ name, where }) =>
  where ? [[name, sumWhere(where, '1')]] : [],
);

/** Sums for files whose records all have their numbers. */
const PLAIN: readonly ColumnSql[] = [...COUNT_ALL, ...listSums(sumWhere)];

/** Sums for files whose records may lack numbers: parts without a number are null, and records left out are counted. */
export const SUMS_WITH_GAPS: readonly ColumnSql[] = [...COUNT_ALL, ...listSums(sumKnown), ...COUNT_GAPS];

/** Records missing from each sum: distinguishes a part with unknown numbers from a part without records. */
const LACKS: readonly ColumnSql[] = SUMS.map((number) => {
  const isLacking = `${number.sum === 'size' ? 'size' : 'premium'} IS NULL`;
  const condition = number.where === undefined ? isLacking : `${number.where} AND ${isLacking}`;
  return [`${columnOf(number)}_lacks`, sumWhere(condition, '1')];
});

/** The numbers that a summary beside a drop contains. */
const IN_SUMMARY = NUMBERS.filter(
  ({ sum, where, key }) =>
    (sum === 'records' ? where === undefined : sum !== undefined) || key === 'volumeAboveOpenInterest',
);
export const SUMMARY_COLUMNS = IN_SUMMARY.map(columnOf);

function listSums(write: typeof sumWhere): readonly ColumnSql[] {
  return SUMS.map((number) => [
    columnOf(number),
    number.where === undefined ? `sum(${number.sum})` : write(number.where, number.sum),
  ]);
}

function columnOf({ column, name }: ReportedNumber): string {
  return column ?? name;
}

export function sumWhere(condition: string, value: string): string {
  return `sum(CASE WHEN ${condition} THEN ${value} ELSE 0 END)`;
}

/** Bullish and bearish premium of a group of contracts; a record without a premium adds nothing. */
export const SIDE_SUMS: readonly ColumnSql[] = [
  ['bullish', sumWhere("sentiment = 'BULLISH' AND premium IS NOT NULL", 'premium')],
  ['bearish', sumWhere("sentiment = 'BEARISH' AND premium IS NOT NULL", 'premium')],
];

/** Null if no record that satisfies the condition has a number. */
export function sumKnown(condition: string, value: string): string {
  return `sum(CASE WHEN ${condition} THEN ${value} END)`;
}

/** @param hasGaps whether some records lack numbers */
export function listPremiumColumns(hasGaps: boolean): readonly ColumnSql[] {
  return hasGaps ? [...SUMS_WITH_GAPS, ...LACKS] : PLAIN;
}

/** The sums as a SELECT list. */
export function buildPremiumList(hasGaps: boolean): string {
  return listPremiumColumns(hasGaps).map(writeColumn).join(',\n  ');
}

/** The columns for a part of the day, by expiration or moneyness. */
export function buildPartList(hasGaps: boolean): string {
  const parts = NUMBERS.filter(({ key }) => PART_KEYS.some((part) => part === key)).map(columnOf);
  return listPremiumColumns(hasGaps)
    .filter(([column]) => parts.includes(column.replace(/_lacks$/, '')))
    .map(writeColumn)
    .join(', ');
}

/** A column of a SELECT list. */
export function writeColumn([column, sql]: ColumnSql): string {
  return `${sql} AS ${column}`;
}

/** Reads the engine's row. A sum over no records is 0; a sum over records without a number is unknown. */
export function readPremium(row: PremiumRow | undefined): Premium {
  const read = (column: string) => row?.[column] as EngineNumber | undefined; // A column of `buildPremiumList`.
  const counts = COUNTS.map(({ key, name }) => [key, Number(read(name) ?? 0)]);
  const sums: Readonly<Record<string, Amount>> = Object.fromEntries(
    SUMS.map((number) => {
      const column = columnOf(number);
      return [number.key, readAmount(read(column), Number(read(`${column}_lacks`) ?? 0) === 0)];
    }),
  );
  const amounts = PREMIUM_NUMBERS.filter(({ sum }) => sum !== 'records').map((number) => [
    number.key,
    readValue(number, sums),
  ]);
  return Object.fromEntries([...counts, ...amounts]) as Premium; // One entry for each count, sum and ratio.
}

export function pickNumbers<Key extends keyof Premium>(premium: Premium, keys: readonly Key[]): Pick<Premium, Key> {
  return Object.fromEntries(keys.map((key) => [key, premium[key]])) as Pick<Premium, Key>; // One entry for each key.
}

/** The compared numbers as SQL over the columns of a summary, by their names. */
export const COMPARED_SQL: readonly ColumnSql[] = KEY_NUMBERS.map(({ quotient, ...number }) => {
  const columnFor = (key: string) => IN_SUMMARY.filter((candidate) => candidate.key === key).map(columnOf)[0] ?? key;
  const sql = quotient ? `${columnFor(quotient[0])} / nullif(${columnFor(quotient[1])}, 0)` : columnFor(number.key);
  return [number.name, sql];
});

/** The key numbers of a date. */
export function readKeyNumbers(headline: Premium, volumeAboveOpenInterest: Amount): Readonly<Record<Compared, Amount>> {
  const values = { ...headline, volumeAboveOpenInterest };
  return forCompared((number) => readValue(number, values));
}

function readValue({ key, quotient }: ReportedNumber, values: Readonly<Record<string, Amount>>): Amount {
  if (quotient === undefined) return values[key] ?? null;
  const [part, whole] = quotient;
  return divide(values[part] ?? null, values[whole] ?? null);
}

/** A number of a report by its name; null if it is unknown, never 0. */
export function readReportNumber(report: NumberSource, name: ReportNumber): Amount {
  return readNumber(report, findNumber(name));
}

export function readNumber(report: NumberSource, number: ReportedNumber): Amount {
  if (number.read !== undefined) return number.read(report);
  const { headline } = report;
  // A quotient may be in the headline, null where it cannot be computed.
  return Object.hasOwn(headline, number.key) ? (headline[number.key] ?? null) : readValue(number, headline);
}

/**
 * Whether the number exists but the day's records do not give it: they lack values, or a sum overflows. If false, a
 * null means that the number does not exist.
 */
export function isUncomputable(report: NumberSource, name: ReportNumber): boolean {
  const { key, quotient, parts } = findNumber(name);
  const { headline } = report;
  return (parts?.(report) ?? (quotient ?? [key]).map((part) => headline[part])).includes(null);
}

/** Finds a number by its name in job files. */
export function findNumber(name: ReportNumber): ReportedNumber {
  const number = NUMBERS.find((candidate) => candidate.name === name);
  if (number === undefined) throw new RangeError(`no number is named ${name}`);
  return number;
}
