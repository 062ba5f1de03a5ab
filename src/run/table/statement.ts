/**
 * The SQL that reads one date of a ClickHouse server's table as a drop. Pure text. Whatever types the table has, its
 * values are first written as the stage would hold them, and then typed by the same expressions as those of every drop,
 * so that a column means the same wherever its rows came from.
 */
import { quoteIdentifier, quoteString } from '../../engine/literal.ts';
import { repeatsSql } from '../../engine/update-mark.ts';
import type { JobColumn, ServerSource } from '../../job/job.ts';
import { convertColumn, type DropColumn } from '../../seal/columns.ts';
import { quoteTable } from '../../source/server-table.ts';

/** ClickHouse type of each column of the table. */
export type ColumnTypes = ReadonlyMap<string, string>;

/** `d, n, u`: the dates of `[from, to]` that have rows, with those and their distinct ids. */
export function buildTableCounts(source: ServerSource, types: ColumnTypes, from: string, to: string): string {
  const day = dateOf(types);
  const ids = hasId(source) ? 'uniqExact(id)' : 'count()';
  const where = condition(source, `${day} >= ${quoteString(from)} AND ${day} <= ${quoteString(to)}`);
  return `SELECT toString(${day}) AS d, count() AS n, ${ids} AS u FROM ${quoteTable(source.table)} WHERE ${where} GROUP BY d ORDER BY d`;
}

/** `n`: the rows of a date beyond one for each version of an id. */
export function buildTableRepeats(source: ServerSource, types: ColumnTypes, date: string): string {
  const where = condition(source, `${dateOf(types)} = ${quoteString(date)}`);
  const hasUpdates = source.columns.some(({ name }) => name === 'updated_timestamp');
  const from = `FROM ${quoteTable(source.table)} WHERE ${where}`;
  return `SELECT ${repeatsSql(hasUpdates)} AS n ${from} AND id IN (SELECT id ${from} GROUP BY id HAVING count() > 1)`;
}

export interface TableQuery {
  /** The typed rows of the date, in no order. */
  readonly select: string;
  /** The same with the drop's order. */
  readonly sorted: string;
}

/** @param hasDuplicates whether ids repeat: the row with the newest `updated_timestamp` then stands for the others */
export function buildTableQuery(
  source: ServerSource,
  types: ColumnTypes,
  sort: readonly string[],
  date: string,
  hasDuplicates: boolean,
): TableQuery {
  const names = source.columns.map(({ name }) => quoteIdentifier(name)).join(', ');
  const where = condition(source, `${dateOf(types)} = ${quoteString(date)}`);
  const newest = names.includes('`updated_timestamp`') ? 'updated_timestamp DESC, ' : '';
  // The hash decides where the timestamps do not, so that every statement picks the same row.
  const once = hasDuplicates ? ` ORDER BY ${newest}cityHash64(${names}) LIMIT 1 BY id` : '';
  // Renamed columns apart from the conditions: a condition would take a renamed one for the table's own.
  const raw = `SELECT ${names} FROM ${quoteTable(source.table)} WHERE ${where}${once}`;
  const staged = source.columns.map((column) => `${stageValue(column, types)} AS ${quoteIdentifier(column.name)}`);
  const typed = source.columns.map((column) => `${typedValue(column)} AS ${quoteIdentifier(column.name)}`);
  const select = `SELECT ${typed.join(', ')} FROM (SELECT ${staged.join(', ')} FROM (${raw}) AS r) AS s`;
  const order = sort.map((name) => {
    const column = source.columns.find((candidate) => candidate.name === name);
    return column ? `${typedValue(column)} ASC NULLS LAST` : `s.${quoteIdentifier(name)}`;
  });
  return { select, sorted: `${select} ORDER BY ${order.join(', ')}` };
}

export function hasId(source: ServerSource): boolean {
  return source.columns.some(({ name }) => name === 'id');
}

/** A value as the stage would hold it: numbers with fractions as such, all else as text, empty where it is null. */
function stageValue({ name, type, nullable }: JobColumn, types: ColumnTypes): string {
  const value = `r.${quoteIdentifier(name)}`;
  const from = types.get(name) ?? '';
  const isInstant = type === 'instant' && from.includes('DateTime');
  const text = isInstant ? `toString(toUnixTimestamp64Milli(toDateTime64(${value}, 3)))` : `toString(${value})`;
  if (type === 'double') {
    if (!nullable) return `CAST(${value} AS Float64)`;
    const isText = from.includes('String');
    return isText ? `if(${text} = '', NULL, toFloat64(${value}))` : `CAST(${value} AS Nullable(Float64))`;
  }
  if (!nullable) return `CAST(${text} AS String)`;
  return isNullableText({ type, nullable }) ? `CAST(${text} AS Nullable(String))` : `ifNull(${text}, '')`;
}

/** Of a server's text an empty one and a null are told apart, as the API's are not. */
function typedValue(column: DropColumn): string {
  return isNullableText(column) ? `s.${quoteIdentifier(column.name)}` : convertColumn(column);
}

function isNullableText({ type, nullable }: Pick<JobColumn, 'type' | 'nullable'>): boolean {
  return type === 'string' && nullable;
}

/** The date of a row, comparable with a literal; the plain column where it can be, for the sake of the table's index. */
function dateOf(types: ColumnTypes): string {
  return types.get('date')?.includes('DateTime') ? 'toDate(date)' : 'date';
}

function condition(source: ServerSource, dates: string): string {
  return source.where === '' ? dates : `${dates} AND (${source.where})`;
}
