/**
 * Loads trades from files: NDJSON, CSV (both may be gzipped) and Parquet, in the format of the trade record. Invariant:
 * the engine reads the file; a file without all columns of the record is refused, with the missing names, before any
 * row is inserted. Extra columns are ignored.
 */

import { TRADE_COLUMNS, type TradeColumn } from '../../api-contract/trade.ts';
import { localFile, quoteIdentifier } from '../../engine/literal.ts';
import type { LoadTarget, StatementRunner } from '../backend.ts';
import { type InputFile, invalidData, readData } from './data-file.ts';

interface FileColumn {
  readonly name: string;
  readonly type: string;
}

/** ClickHouse's types of the record. */
const WIRE_TYPES = { string: 'String', integer: 'Int32', float: 'Float64' } as const;

/** Inserts the rows of `file`. @throws Fault `DATA_UNREADABLE` or `DATA_INVALID` (kind `usage`) */
export async function loadTradeFile(file: InputFile, target: LoadTarget): Promise<void> {
  const { path, format } = file;
  await readRecords(file, target.engine, async (columns) => {
    const isTyped = format === 'Parquet';
    // Read text formats with the types of the record: guessed types would turn a wall clock time into an instant.
    const record = TRADE_COLUMNS.map(({ name, wire }) => `${quoteIdentifier(name)} ${WIRE_TYPES[wire]}`).join(', ');
    const values = TRADE_COLUMNS.map((column) => valueSql(column, isTyped ? columns : []));
    const rows = localFile(path, format, isTyped ? undefined : record);
    await target.engine.command(target.insertSql(`SELECT ${values.join(', ')} FROM ${rows}`));
  });
}

/**
 * Calls `insert` for a file with all columns of the record.
 * @param local an engine of this machine, which has the file
 * @throws Fault `DATA_UNREADABLE` or `DATA_INVALID` (kind `usage`), for whatever `insert` throws too
 */
export async function readRecords(
  { name: file, path, format }: InputFile,
  local: Pick<StatementRunner, 'rows'>,
  insert: (columns: readonly FileColumn[]) => Promise<void>,
): Promise<void> {
  const hint = 'Rows are trade records as the API returns them: one JSON object, CSV line or Parquet row each.';
  await readData(`${file}: the rows cannot be read as ${format}`, hint, async () => {
    const columns = await local.rows<FileColumn>(`DESCRIBE TABLE ${localFile(path, format)}`);
    const listNames = (list: readonly { readonly name: string }[]) => list.map(({ name }) => name).join(', ');
    const missing = TRADE_COLUMNS.filter(({ name }) => !columns.some((column) => column.name === name));
    if (missing.length > 0) {
      throw invalidData(
        `${file}: rows lack ${listNames(missing)}; they have ${listNames(columns)}; required: ${listNames(TRADE_COLUMNS)}`,
        hint,
      );
    }
    await insert(columns);
  });
}

/** SQL that converts a column to the record's type, from the type that it has in a typed file. */
function valueSql({ name, wire, drop }: TradeColumn, columns: readonly FileColumn[]): string {
  const column = quoteIdentifier(name);
  const type = columns.find((candidate) => candidate.name === name)?.type;
  if (type === undefined) return column;
  if (wire !== 'string') return `ifNull(CAST(${column}, 'Nullable(${WIRE_TYPES[wire]})'), 0)`;
  if (type.includes('DateTime')) {
    return drop === 'instant'
      ? `ifNull(toString(toUnixTimestamp64Milli(CAST(${column}, 'Nullable(DateTime64(3))'))), '')`
      : `ifNull(substring(toString(${column}), 1, 19), '')`;
  }
  return `ifNull(toString(${column}), '')`;
}
