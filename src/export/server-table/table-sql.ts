/**
 * The SQL that reads one date of a ClickHouse server's table as a drop, and its counts. Values of every type are first written
 * as the stage would hold them, then typed by the same expressions as in every drop, so that a column means the same
 * wherever its rows came from.
 */
import { SESSION_END_SECOND } from '../../calendar/segments.ts';
import type { CalendarOverride } from '../../calendar/session.ts';
import { formatSecond } from '../../calendar/wall-clock.ts';
import { COLUMN_TYPES } from '../../engine/column-types.ts';
import { quoteIdentifier, quoteString } from '../../engine/literal.ts';
import { HAS_ID, selectRepeatedIds, selectSharedIds, tradeKeySql, versionKeySql } from '../../engine/repeated-ids.ts';
import { repeatsSql } from '../../engine/update-mark.ts';
import type { JobColumn, ServerSource } from '../../job/job.ts';
import type { CountTotals } from '../../plan/counts.ts';
import { lateSecond, tailSecond } from '../../plan/session-end.ts';
import type { OpenedTable } from '../../run/open-source.ts';
import { quoteTable } from '../../source/server-table.ts';

/** ClickHouse type of each column of the table. */
type ColumnTypes = ReadonlyMap<string, string>;

export class TableSql {
  readonly #source: ServerSource;
  readonly #types: ColumnTypes;
  readonly #names: readonly string[];
  readonly #table: string;
  /** The date of a row, comparable with a literal; the plain column where it can be, for the sake of the table's index. */
  readonly #day: string;
  readonly hasId: boolean;

  constructor(source: ServerSource, types: ColumnTypes) {
    this.#source = source;
    this.#types = types;
    this.#names = source.columns.map(({ name }) => name);
    this.#table = quoteTable(source.table);
    this.#day = types.get('date')?.includes('DateTime') ? 'toDate(date)' : 'date';
    this.hasId = this.#names.includes('id');
  }

  /** `d, n`: dates of `[from, to]` with rows, and their rows. @param isAll whatever the job's condition */
  dates(from: string, to: string, isAll = false): string {
    const range = `${this.#day} >= ${quoteString(from)} AND ${this.#day} <= ${quoteString(to)}`;
    const where = isAll ? range : this.#condition(range);
    return `SELECT toString(${this.#day}) AS d, count() AS n FROM ${this.#table} WHERE ${where} GROUP BY d ORDER BY d`;
  }

  /** `n, u`: rows of a date, and their distinct ids. */
  counts(date: string): string {
    const ids = this.hasId ? 'uniqExact(id)' : 'count()';
    return `SELECT count() AS n, ${ids} AS u FROM ${this.#table} WHERE ${this.#of(date)}`;
  }

  /** `n`: whether the table has rows of a later date; 0 or 1. */
  later(date: string): string {
    return `SELECT count() AS n FROM (SELECT 1 FROM ${this.#table} WHERE ${this.#day} > ${quoteString(date)} LIMIT 1)`;
  }

  /**
   * `n, late, newest`: the end of a session in the whole table, without the job's filter: rows, rows after the close of stock
   * options, and the newest time of day.
   */
  tail(date: string, calendar?: CalendarOverride): string {
    const clock = 'substring(toString(time), 12, 8)';
    const at = (second: number) => quoteString(formatSecond(second));
    const late = `countIf(${clock} >= ${at(lateSecond(date, calendar))}) AS late`;
    const end = `${clock} >= ${at(tailSecond(date, calendar))} AND ${clock} < ${at(SESSION_END_SECOND)}`;
    return `SELECT count() AS n, ${late}, max(${clock}) AS newest FROM ${this.#table} WHERE ${this.#day} = ${quoteString(date)} AND ${end}`;
  }

  /** `n`: rows of a date beyond one for each `version` of a trade, each `trade`, or each id, symbol, time and contract (`key`). */
  repeats(date: string, one: 'version' | 'trade' | 'key'): string {
    const where = `${this.#of(date)} AND ${HAS_ID}`;
    const repeated = `${where} AND id IN (${selectRepeatedIds(this.#table, where)})`;
    const names = this.#names;
    const number =
      one === 'trade'
        ? `count() - uniqExact(${versionKeySql(names, selectSharedIds(this.#table, repeated, names))})`
        : repeatsSql(tradeKeySql(names), one === 'version' && names.includes('updated_timestamp'));
    return `SELECT ${number} AS n FROM ${this.#table} WHERE ${repeated}`;
  }

  /** `id, rows, trades`: ids of a date that several trades have, the most frequent first. */
  examples(date: string): string {
    const trade = `arrayStringConcat([${tradeKeySql(this.#names)}], ' ')`;
    return `SELECT toString(id) AS id, count() AS rows, arraySlice(groupUniqArray(2)(${trade}), 1, 2) AS trades FROM ${this.#table} WHERE ${this.#of(date)} GROUP BY id HAVING rows > 1 ORDER BY uniq(${trade}) DESC, rows DESC, id LIMIT 3`;
  }

  /**
   * The typed rows of a date, unordered and with the drop's order.
   * @param hasDuplicates whether trades repeat: then only the row with the newest `updated_timestamp` is read
   */
  rows(sort: readonly string[], date: string, hasDuplicates: boolean): Readonly<Record<'select' | 'sorted', string>> {
    const { columns } = this.#source;
    const names = this.#names.map(quoteIdentifier).join(', ');
    const where = this.#of(date);
    const newest = this.#names.includes('updated_timestamp') ? 'updated_timestamp DESC, ' : '';
    const repeated = `${where} AND id IN (${selectRepeatedIds(this.#table, where)})`;
    const key = versionKeySql(this.#names, selectSharedIds(this.#table, repeated, this.#names));
    // The hash decides where the timestamps do not, so that every statement picks the same row.
    const once = hasDuplicates ? ` ORDER BY ${newest}cityHash64(${names}) LIMIT 1 BY ${key}, ${NO_ID_APART}` : '';
    // Conditions are in a subquery: otherwise they would see the renamed columns.
    const raw = `SELECT ${names} FROM ${this.#table} WHERE ${where}${once}`;
    const staged = columns.map((column) => `${stageValue(column, this.#types)} AS ${quoteIdentifier(column.name)}`);
    const typed = columns.map((column) => `${typedValue(column)} AS ${quoteIdentifier(column.name)}`);
    const select = `SELECT ${typed.join(', ')} FROM (SELECT ${staged.join(', ')} FROM (${raw}) AS r) AS s`;
    const order = sort.map((name) => {
      const column = columns.find((candidate) => candidate.name === name);
      return column ? `${typedValue(column)} ASC NULLS LAST` : `s.${quoteIdentifier(name)}`;
    });
    return { select, sorted: `${select} ORDER BY ${order.join(', ')}` };
  }

  #of(date: string): string {
    return this.#condition(`${this.#day} = ${quoteString(date)}`);
  }

  #condition(dates: string): string {
    const { where } = this.#source;
    return where === '' ? dates : `${dates} AND (${where})`;
  }
}

/** Rows without an id are distinguished by their number: all are kept. */
const NO_ID_APART = `if(${HAS_ID}, 0, rowNumberInAllBlocks() + 1)`;

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

export interface TableCounts extends CountTotals {
  /** Without the rows that a newer version of the same trade replaces. Without ids, each row is a trade. */
  readonly trades: number;
}

/** The server's count of a date. */
export async function countTable(opened: OpenedTable, sql: TableSql, date: string): Promise<TableCounts> {
  const { source, signal } = opened;
  const [counted] = await source.rows<{ n: number; u: number }>(sql.counts(date), { signal });
  const [rows, ids] = [Number(counted?.n ?? 0), Number(counted?.u ?? 0)];
  return { rows, ids, trades: ids < rows ? rows - (await countRepeats(opened, sql, date, 'trade')) : rows };
}

export async function countRepeats(
  { source, signal }: OpenedTable,
  sql: TableSql,
  date: string,
  one: 'version' | 'trade' | 'key',
): Promise<number> {
  const [beyond] = await source.rows<{ n: number }>(sql.repeats(date, one), { signal });
  return Number(beyond?.n ?? 0);
}
