/**
 * The sealed Parquet file as a table of the engine. Invariant: a file that lacks a column of the report is refused,
 * with the column's name, before any number is computed, because half a report looks like a whole one.
 */

import { type Families, writeIsRenamed } from '../api-contract/family.ts';
import { TRADE_COLUMNS } from '../api-contract/trade.ts';
import { Fault } from '../core/errors.ts';
import type { Engine, SqlParams, StatementOptions } from '../engine/engine.ts';
import { formatSettings, parquetFile } from '../engine/literal.ts';
import type { SealedDrop } from './model.ts';
import { COUNTED_COLUMNS, PREMIUM_COLUMNS } from './records.ts';

/** The columns that the numbers are computed from. */
const REQUIRED: readonly string[] = [
  ...new Set([
    ...COUNTED_COLUMNS,
    ...PREMIUM_COLUMNS,
    ...['oi', 'underlying_price', 'iv', 'moneyness', 'delta', 'gamma'],
  ]),
];

/** The input of all queries: a table of the drop's records, and the engine that reads it. */
export interface DropSource {
  /** For the FROM clause: the whole file, or its counted records. */
  readonly table: string;
  /**
   * Runs one query with a small result. NaN and infinities are texts: null would look like no value.
   * @throws EngineFault
   */
  rows<Row extends object>(sql: string, params?: SqlParams): Promise<readonly Row[]>;
  /**
   * The same for numbers that are known or null: a number that is not finite is null, and a negative zero is 0. The names of
   * columns are in camel case.
   */
  known<Row extends object>(sql: string, params?: SqlParams): Promise<readonly Row[]>;
  /** Runs a statement without a result. @throws EngineFault */
  command(sql: string): Promise<void>;
  /** The same also where the report was interrupted. */
  cleanUp(sql: string): Promise<void>;
}

/** The whole file, including records that do not count. @param options `signal` ends the running query; `beside` as in `StatementOptions` */
export function openDropFile(
  engine: Pick<Engine, 'rows' | 'command'>,
  path: string,
  options: Pick<StatementOptions, 'signal' | 'beside'>,
): DropSource {
  const settings = formatSettings({ output_format_json_quote_denormals: 1 });
  return {
    table: parquetFile(path),
    rows: async (sql, params) => await engine.rows(`${sql}\n${settings}`, { params, ...options }),
    known: async <Row extends object>(sql: string, params?: SqlParams) =>
      (await engine.rows(sql, { params, ...options })).map(nameInCamelCase) as Row[], // The columns of the statement.
    command: async (sql) => await engine.command(sql, options),
    cleanUp: async (sql) => await engine.command(sql, { ...options, signal: undefined }),
  };
}

function nameInCamelCase(row: object): object {
  const entries = Object.entries(row).map(([name, value]) => [
    name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()),
    value === 0 ? 0 : value,
  ]);
  return Object.fromEntries(entries) as object;
}

/**
 * The records of a file that satisfy the conditions; the file itself without any.
 * @param columns those of `writeColumns`
 */
export function keepRecords(file: DropSource, conditions: readonly (string | null)[], columns: string): DropSource {
  const kept = conditions.filter((condition) => condition !== null);
  if (kept.length === 0 && columns === '*') return file;
  const where = kept.length === 0 ? '' : ` WHERE ${kept.join(' AND ')}`;
  return { ...file, table: `(SELECT ${columns} FROM ${file.table}${where})` };
}

/** The symbols of the file that are shown under another: its statistics say where there can be any. */
export async function queryRenamed(file: DropSource, families: Families): Promise<readonly string[]> {
  const found = await file.rows<{ readonly symbol: string }>(
    `SELECT DISTINCT symbol FROM ${file.table} WHERE ${writeIsRenamed(families)}`,
  );
  return found.map(({ symbol }) => symbol);
}

/**
 * @returns the names of all columns
 * @throws Fault `REPORT_COLUMNS_MISSING` (kind `usage`): the job's column list lacks columns that the report needs
 */
export async function assertColumns(source: DropSource, drop: SealedDrop): Promise<ReadonlySet<string>> {
  return await assertPresent(source, source.table, REQUIRED, {
    what: `${drop.dataset} ${drop.date}`,
    why: ', which the flow report needs',
    hint: `Remove \`columns\` from the job, or add these to it. All columns: ${TRADE_COLUMNS.map((column) => column.name).join(', ')}.`,
  });
}

/** @returns the names of all columns of a table @throws Fault `REPORT_COLUMNS_MISSING` (kind `usage`) */
export async function assertPresent(
  source: DropSource,
  table: string,
  needed: readonly string[],
  { what, why = '', hint }: { readonly what: string; readonly why?: string; readonly hint: string },
): Promise<ReadonlySet<string>> {
  const described = await source.rows<{ readonly name: string }>(`DESCRIBE TABLE ${table}`);
  const present = new Set(described.map((column) => column.name));
  const missing = needed.filter((name) => !present.has(name));
  if (missing.length === 0) return present;
  throw new Fault('REPORT_COLUMNS_MISSING', `${what} has no column ${missing.join(', ')}${why}`, {
    kind: 'usage',
    hint,
  });
}
