/**
 * The SQL that reads one date of a ClickHouse server's table as a drop. Pure text. Values of every type are first written
 * as the stage would hold them, then typed by the same expressions as in every drop, so that a column means the same
 * wherever its rows came from.
 */
import type { CalendarOverride } from '../../calendar/session.ts';
import { formatSecond } from '../../calendar/wall-clock.ts';
import { COLUMN_TYPES } from '../../engine/column-types.ts';
import { quoteIdentifier, quoteString } from '../../engine/literal.ts';
import { HAS_ID, selectRepeatedIds, selectSharedIds, tradeKeySql, versionKeySql } from '../../engine/repeated-ids.ts';
import { repeatsSql } from '../../engine/update-mark.ts';
import type { JobColumn, ServerSource } from '../../job/job.ts';
import { lastTradeSecond, lateSecond, tailSecond } from '../../plan/session-end.ts';
import { quoteTable } from '../../source/server-table.ts';

/** ClickHouse type of each column of the table. */
type ColumnTypes = ReadonlyMap<string, string>;

/** `d, n`: dates of `[from, to]` with rows, and their rows. */
export function buildTableDates(source: ServerSource, types: ColumnTypes, from: string, to: string): string {
  const day = dateOf(types);
  const where = condition(source, `${day} >= ${quoteString(from)} AND ${day} <= ${quoteString(to)}`);
  return `SELECT toString(${day}) AS d, count() AS n FROM ${quoteTable(source.table)} WHERE ${where} GROUP BY d ORDER BY d`;
}

/** `n, u`: rows of a date, and their distinct ids. */
export function buildTableCounts(source: ServerSource, types: ColumnTypes, date: string): string {
  const ids = hasId(source) ? 'uniqExact(id)' : 'count()';
  return `SELECT count() AS n, ${ids} AS u FROM ${quoteTable(source.table)} WHERE ${datedCondition(source, types, date)}`;
}

/** `n`: whether the table has rows of a later date; 0 or 1. */
export function buildTableLater(source: ServerSource, types: ColumnTypes, date: string): string {
  const where = `${dateOf(types)} > ${quoteString(date)}`;
  return `SELECT count() AS n FROM (SELECT 1 FROM ${quoteTable(source.table)} WHERE ${where} LIMIT 1)`;
}

/**
 * `n, late, newest`: the end of a session in the whole table, without the job's filter: rows, rows after the close of stock
 * options, and the newest time of day.
 */
export function buildTableTail(
  source: ServerSource,
  types: ColumnTypes,
  date: string,
  calendar?: CalendarOverride,
): string {
  const clock = 'substring(toString(time), 12, 8)';
  const at = (second: number) => quoteString(formatSecond(second));
  const late = `countIf(${clock} >= ${at(lateSecond(date, calendar))}) AS late`;
  const end = `${clock} >= ${at(tailSecond(date, calendar))} AND ${clock} < ${at(lastTradeSecond(date, calendar))}`;
  return `SELECT count() AS n, ${late}, max(${clock}) AS newest FROM ${quoteTable(source.table)} WHERE ${dateOf(types)} = ${quoteString(date)} AND ${end}`;
}

/** `n`: rows of a date beyond one for each `version` of a trade, each `trade`, or each id, symbol, time and contract (`key`). */
export function buildTableRepeats(
  source: ServerSource,
  types: ColumnTypes,
  date: string,
  one: 'version' | 'trade' | 'key',
): string {
  const where = `${datedCondition(source, types, date)} AND ${HAS_ID}`;
  const table = quoteTable(source.table);
  const columns = namesOf(source);
  const repeated = `${where} AND id IN (${selectRepeatedIds(table, where)})`;
  const number =
    one === 'trade'
      ? `count() - uniqExact(${versionKeySql(columns, selectSharedIds(table, repeated, columns))})`
      : repeatsSql(tradeKeySql(columns), one === 'version' && columns.includes('updated_timestamp'));
  return `SELECT ${number} AS n FROM ${table} WHERE ${repeated}`;
}

/** `id, rows, trades`: ids of a date that several trades have, the most frequent first. */
export function buildTableExamples(source: ServerSource, types: ColumnTypes, date: string): string {
  const trade = `arrayStringConcat([${tradeKeySql(namesOf(source))}], ' ')`;
  return `SELECT toString(id) AS id, count() AS rows, arraySlice(groupUniqArray(2)(${trade}), 1, 2) AS trades FROM ${quoteTable(source.table)} WHERE ${datedCondition(source, types, date)} GROUP BY id HAVING rows > 1 ORDER BY uniq(${trade}) DESC, rows DESC, id LIMIT 3`;
}

function namesOf({ columns }: ServerSource): readonly string[] {
  return columns.map(({ name }) => name);
}

function datedCondition(source: ServerSource, types: ColumnTypes, date: string): string {
  return condition(source, `${dateOf(types)} = ${quoteString(date)}`);
}

interface TableQuery {
  /** The typed rows of the date, unordered. */
  readonly select: string;
  /** The same with the drop's order. */
  readonly sorted: string;
}

/** @param hasDuplicates whether trades repeat: then only the row with the newest `updated_timestamp` is read */
export function buildTableQuery(
  source: ServerSource,
  types: ColumnTypes,
  sort: readonly string[],
  date: string,
  hasDuplicates: boolean,
): TableQuery {
  const columns = namesOf(source);
  const names = columns.map(quoteIdentifier).join(', ');
  const table = quoteTable(source.table);
  const where = datedCondition(source, types, date);
  const newest = columns.includes('updated_timestamp') ? 'updated_timestamp DESC, ' : '';
  const shared = selectSharedIds(table, `${where} AND id IN (${selectRepeatedIds(table, where)})`, columns);
  // The hash decides where the timestamps do not, so that every statement picks the same row.
  const once = hasDuplicates
    ? ` ORDER BY ${newest}cityHash64(${names}) LIMIT 1 BY ${versionKeySql(columns, shared)}, ${NO_ID_APART}`
    : '';
  // Conditions are in a subquery: otherwise they would see the renamed columns.
  const raw = `SELECT ${names} FROM ${table} WHERE ${where}${once}`;
  const staged = source.columns.map((column) => `${stageValue(column, types)} AS ${quoteIdentifier(column.name)}`);
  const typed = source.columns.map((column) => `${typedValue(column)} AS ${quoteIdentifier(column.name)}`);
  const select = `SELECT ${typed.join(', ')} FROM (SELECT ${staged.join(', ')} FROM (${raw}) AS r) AS s`;
  const order = sort.map((name) => {
    const column = source.columns.find((candidate) => candidate.name === name);
    return column ? `${typedValue(column)} ASC NULLS LAST` : `s.${quoteIdentifier(name)}`;
  });
  return { select, sorted: `${select} ORDER BY ${order.join(', ')}` };
}

/** Rows without an id are distinguished by their number: all are kept. */
const NO_ID_APART = `if(${HAS_ID}, 0, rowNumberInAllBlocks() + 1)`;

export function hasId(source: ServerSource): boolean {
  return source.columns.some(({ name }) => name === 'id');
}

/** A value as the stage would hold it: numbers with fractions and short integers as such, all else as text; null where it is null. */
function stageValue({ name, type, nullable }: JobColumn, types: ColumnTypes): string {
  const value = `r.${quoteIdentifier(name)}`;
  const from = types.get(name) ?? '';
  const isInstant = type === 'instant' && from.includes('DateTime');
  const text = isInstant ? `toString(toUnixTimestamp64Milli(toDateTime64(${value}, 3)))` : `toString(${value})`;
  // In a server's text, empty and null are two values; in the API's answers they are one.
  const known = nullable && type !== 'string' && from.includes('String') ? `nullIf(${text}, '')` : text;
  const to = (wanted: string) => (nullable ? `Nullable(${wanted})` : wanted);
  if (type === 'double') return `CAST(${from.includes('String') ? known : value} AS ${to('Float64')})`;
  if (type === 'int32') return `accurateCast(${from.includes('String') ? known : value}, '${to('Int32')}')`;
  return `CAST(${known} AS ${to('String')})`;
}

function typedValue({ name, type, nullable }: JobColumn): string {
  const value = `s.${quoteIdentifier(name)}`;
  if (!nullable) return COLUMN_TYPES[type].seal(value);
  return type === 'string' || type === 'double'
    ? value
    : `if(isNull(${value}), NULL, ${COLUMN_TYPES[type].seal(`assumeNotNull(${value})`)})`;
}

/** The date of a row, comparable with a literal; the plain column where it can be, for the sake of the table's index. */
function dateOf(types: ColumnTypes): string {
  return types.get('date')?.includes('DateTime') ? 'toDate(date)' : 'date';
}

function condition(source: ServerSource, dates: string): string {
  return source.where === '' ? dates : `${dates} AND (${source.where})`;
}
