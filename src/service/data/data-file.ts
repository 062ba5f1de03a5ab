/**
 * A file to load: its format, which comes from its name, its path for the engine, and what is said of its faults; and files
 * of trades, in the format of the trade record. Invariant: only the engine reads the content; a file of trades without all
 * columns of the record is refused, with the missing names, before any row is inserted. Extra columns are ignored.
 */
import { access } from 'node:fs/promises';
import { resolve } from 'node:path';
import { TRADE_COLUMNS, type TradeColumn } from '../../api-contract/trade.ts';
import { describeError, Fault } from '../../core/errors.ts';
import { localFile, quoteIdentifier } from '../../engine/literal.ts';
import type { LoadTarget, StatementRunner } from '../backend.ts';

export interface InputFile {
  /** As the user gave it. */
  readonly name: string;
  /** Absolute. */
  readonly path: string;
  /** ClickHouse's name. */
  readonly format: 'JSONEachRow' | 'CSVWithNames' | 'Parquet';
}

const FORMATS = [
  [/\.(ndjson|jsonl)(\.gz)?$/i, 'JSONEachRow'],
  [/\.csv(\.gz)?$/i, 'CSVWithNames'],
  [/\.parquet$/i, 'Parquet'],
] as const;

/** @throws Fault `DATA_INVALID` when the name does not end in an allowed format, `DATA_UNREADABLE` (kind `usage`) */
export async function findDataFile(name: string, allowsParquet = false): Promise<InputFile> {
  const format = FORMATS.find(([pattern]) => pattern.test(name))?.[1];
  if (format === undefined || (format === 'Parquet' && !allowsParquet)) {
    const allowed = allowsParquet
      ? '.ndjson, .jsonl, .csv (each also with .gz) or .parquet'
      : '.ndjson, .jsonl or .csv (each also with .gz)';
    throw invalidData(`${name}: the format comes from the file name, which must end in ${allowed}`);
  }
  const path = resolve(name);
  await access(path).catch((cause: unknown) => {
    throw new Fault('DATA_UNREADABLE', `${name}: ${describeError(cause)}`, { kind: 'usage', cause });
  });
  return { name, path, format };
}

export function invalidData(message: string, hint?: string): Fault {
  return new Fault('DATA_INVALID', message, { kind: 'usage', hint });
}

/** Reads a file. @throws Fault `DATA_INVALID`, or `DATA_UNREADABLE` for anything else that `read` throws */
export async function readData<T>(failure: string, hint: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (cause) {
    if (cause instanceof Fault && cause.code === 'DATA_INVALID') throw cause;
    const message = `${failure}: ${describeError(cause)}`;
    throw new Fault('DATA_UNREADABLE', message, { kind: 'usage', cause, hint });
  }
}

/** The cell's name in the file, SQL of its text, SQL of the condition that a valid cell meets, and what is allowed. */
export type CellCheck = readonly [cell: string, text: string, condition: string, allowed: string];

/** Rows are numbered in file order only if a single thread reads the file. */
export const READ_IN_ORDER = 'SETTINGS max_threads = 1, input_format_parallel_parsing = 0';

/**
 * Checks the cells of rows in the engine.
 * @param rows SQL table expression of the file's rows, in order, each with its `file_line`
 * @throws Fault `DATA_INVALID` for the first row with an invalid cell: its line, what came, and what is allowed
 */
export async function assertCells(
  engine: StatementRunner,
  file: InputFile,
  rows: string,
  checks: readonly CellCheck[],
): Promise<void> {
  const branches = checks.map(([, , condition], index) => `NOT ifNull(${condition}, false), ${index + 1}`);
  const texts = checks.map(([, text]) => `ifNull(toString(${text}), 'null')`);
  const [bad] = await engine.rows<{ line: number; failed: number; texts: readonly string[] }>(
    `SELECT file_line AS line, multiIf(${branches.join(', ')}, 0) AS failed, [${texts.join(', ')}] AS texts
     FROM ${rows} WHERE failed > 0 LIMIT 1 ${READ_IN_ORDER}`,
  );
  const check = bad && checks[bad.failed - 1];
  if (!check) return;
  const [cell, , , allowed] = check;
  const came = bad.texts[bad.failed - 1] ?? '';
  throw invalidData(`${file.name}: line ${bad.line}: ${cell} is "${came}"; allowed is ${allowed}`);
}

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
  file: InputFile,
  local: Pick<StatementRunner, 'rows'>,
  insert: (columns: readonly FileColumn[]) => Promise<void>,
): Promise<void> {
  const hint = 'Rows are trade records as the API returns them: one JSON object, CSV line or Parquet row each.';
  const required = TRADE_COLUMNS.map(({ name }) => name);
  await readData(`${file.name}: the rows cannot be read as ${file.format}`, hint, async () =>
    insert(await readColumns(file, local, required, hint)),
  );
}

/** The columns of a file. @throws Fault `DATA_INVALID` (kind `usage`) if a required one is missing */
export async function readColumns(
  { name: file, path, format }: InputFile,
  local: Pick<StatementRunner, 'rows'>,
  required: readonly string[],
  hint: string,
): Promise<readonly FileColumn[]> {
  const columns = await local.rows<FileColumn>(`DESCRIBE TABLE ${localFile(path, format)}`);
  const names = columns.map(({ name }) => name);
  const missing = required.filter((name) => !names.includes(name)).join(', ');
  if (missing === '') return columns;
  const message = `rows lack ${missing}; they have ${names.join(', ')}; required: ${required.join(', ')}`;
  throw invalidData(`${file}: ${message}`, hint);
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
