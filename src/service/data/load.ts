/**
 * Loads trades from files: NDJSON, CSV (both may be gzipped) and Parquet, in the format of the trade record. Invariant:
 * the engine reads the file; a file without all columns of the record is refused, with the missing names, before any
 * row is inserted. Extra columns are ignored.
 */

import { TRADE_COLUMNS, type TradeColumn } from '../../api-contract/trade.ts';
import { describeError, Fault } from '../../core/errors.ts';
import { localFile, quoteIdentifier } from '../../engine/literal.ts';
import type { LoadTarget, StatementRunner } from '../dataset.ts';
import { DATA_FILES, findFile, readFormat } from './data-file.ts';

interface FileColumn {
  readonly name: string;
  readonly type: string;
}

/**
 * Inserts the rows of `file`.
 * @throws Fault `DATA_UNREADABLE` or `DATA_INVALID` (kind `usage`)
 */
export async function loadFile(file: string, target: LoadTarget): Promise<void> {
  const format = readFormat(file, DATA_FILES);
  await readRecords(file, format, target.engine, async (path, columns) => {
    // Read text formats with the types of the record: guessed types would turn a wall clock time into an instant.
    const typed = localFile(path, format, format === 'Parquet' ? undefined : readStructure());
    const values = TRADE_COLUMNS.map((column) => valueSql(column, format === 'Parquet' ? columns : []));
    await target.engine.command(target.insertSql(`SELECT ${values.join(', ')} FROM ${typed}`));
  });
}

/**
 * Calls `insert` for a file with all columns of the record.
 * @param local an engine of this machine, which has the file
 * @throws Fault as `loadFile`, for whatever `insert` throws too
 */
export async function readRecords(
  file: string,
  format: string,
  local: Pick<StatementRunner, 'rows'>,
  insert: (path: string, columns: readonly FileColumn[]) => Promise<void>,
): Promise<void> {
  const path = await findFile(file);
  try {
    const columns = await local.rows<FileColumn>(`DESCRIBE TABLE ${localFile(path, format)}`);
    assertColumns(file, columns);
    await insert(path, columns);
  } catch (cause) {
    if (cause instanceof Fault && cause.code === 'DATA_INVALID') throw cause;
    throw new Fault('DATA_UNREADABLE', `${file}: the rows cannot be read as ${format}: ${describeError(cause)}`, {
      kind: 'usage',
      cause,
      hint: 'Rows are trade records as the API returns them: one JSON object, CSV line or Parquet row each.',
    });
  }
}

/** Checks a file without reading its rows. @throws Fault as `loadFile`, for the faults that this can find */
export async function assertLoadable(file: string): Promise<void> {
  readFormat(file, DATA_FILES);
  await findFile(file);
}

function assertColumns(file: string, columns: readonly FileColumn[]): void {
  const present = new Set(columns.map((column) => column.name));
  const missing = TRADE_COLUMNS.filter((column) => !present.has(column.name)).map((column) => column.name);
  if (missing.length === 0) return;
  const came = columns.map((column) => column.name).join(', ');
  const wanted = TRADE_COLUMNS.map((column) => column.name).join(', ');
  throw new Fault('DATA_INVALID', `${file}: rows lack ${missing.join(', ')}; they have ${came}; required: ${wanted}`, {
    kind: 'usage',
    hint: 'Rows are trade records as the API returns them.',
  });
}

function readStructure(): string {
  return TRADE_COLUMNS.map(
    ({ name, wire }) => `${quoteIdentifier(name)} ${wire === 'string' ? 'String' : engineType(wire)}`,
  ).join(', ');
}

/** SQL that converts a column to the record's type, from the type that it has in a typed file. */
function valueSql({ name, wire, drop }: TradeColumn, columns: readonly FileColumn[]): string {
  const column = quoteIdentifier(name);
  const type = columns.find((candidate) => candidate.name === name)?.type;
  if (type === undefined) return column;
  if (wire !== 'string') return `ifNull(CAST(${column}, 'Nullable(${engineType(wire)})'), 0)`;
  if (type.includes('DateTime')) {
    return drop === 'instant'
      ? `ifNull(toString(toUnixTimestamp64Milli(CAST(${column}, 'Nullable(DateTime64(3))'))), '')`
      : `ifNull(substring(toString(${column}), 1, 19), '')`;
  }
  return `ifNull(toString(${column}), '')`;
}

function engineType(wire: 'integer' | 'float'): string {
  return wire === 'integer' ? 'Int32' : 'Float64';
}
