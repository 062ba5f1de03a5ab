/**
 * Rows of a sealed drop as staged rows, for a restatement that fetches only a part of the date: the reverse of what sealing
 * does to a value. Pure text. Invariant: sealing a row that was staged from a drop gives the same row again. Only drops of
 * single trades without nulls where the contract allows none are read; the others are fetched again as a whole.
 */
import { formatWindow, type Stretch } from '../calendar/window.ts';
import { parquetFile, quoteIdentifier, quoteString } from '../engine/literal.ts';
import { nullMark } from '../engine/null-mark.ts';
import type { Job, JobColumn } from '../job/job.ts';
import { placeOf, type RepairPlan } from '../plan/moved-windows.ts';
import { secondKey } from './count.ts';
import { WINDOW_COLUMN } from './stage-table.ts';

export interface SealedFile {
  /** Local copy of the drop. */
  readonly path: string;
  /** Its columns that are not the job's. */
  readonly extraFields: readonly string[];
  /** All symbols of the date in their order, if the plan's stretches are along the symbols. */
  readonly symbols: readonly string[];
}

/** Few rows at once, however large the drop is: a block holds all columns. */
export const SEALED_READ_SETTINGS = [
  'max_threads = 2',
  'max_insert_threads = 1',
  'max_block_size = 8192',
  'input_format_parquet_max_block_size = 8192',
  'input_format_parquet_memory_high_watermark = 33554432',
  'min_insert_block_size_rows = 65536',
  'min_insert_block_size_bytes = 67108864',
].join(', ');

/** The rows of a drop with the values and columns of a stage, as a table without windows. */
export function readSealedRows({ source }: Pick<Job, 'source'>, { path, extraFields }: SealedFile): string {
  const columns = [
    ...source.columns.map((column) => `${stagedValue(column)} AS ${quoteIdentifier(column.name)}`),
    ...extraFields.map((name) => `ifNull(toString(s.${quoteIdentifier(name)}), '') AS ${quoteIdentifier(name)}`),
  ];
  return `(SELECT ${columns.join(', ')} FROM ${parquetFile(path)} AS s)`;
}

/** The same with the window in which a row lies: one of the plan's stretches. */
export function readPlacedRows(job: Job, date: string, file: SealedFile, plan: RepairPlan): string {
  const symbols = new Map(file.symbols.map((symbol, index) => [symbol, index]));
  const stretches = [...plan.fetched, ...plan.kept]
    .map((stretch) => ({ name: formatWindow(stretch), place: placeOf(stretch.from, symbols) }))
    .sort((a, b) => a.place - b.place);
  const places = `[${stretches.map(({ place }) => `toInt64(${place})`).join(', ')}]`;
  const names = `[${stretches.map(({ name }) => quoteString(name)).join(', ')}]`;
  const second = `toInt64(${secondKey(job, date)})`;
  // A multiple of the step for each symbol, as in `placeOf`.
  const symbol =
    symbols.size === 0
      ? ''
      : `toInt64(transform(ifNull(toString(symbol), ''), [${file.symbols.map(quoteString).join(', ')}], [${file.symbols.map((name) => placeOf({ symbol: name, second: 0 }, symbols)).join(', ')}], 0)) + `;
  const window = `transform(roundDown(${symbol}${second}, ${places}), ${places}, ${names}, '')`;
  return `(SELECT *, ${window} AS ${WINDOW_COLUMN} FROM ${readSealedRows(job, file)})`;
}

export function isIn(stretches: readonly Stretch[]): string {
  if (stretches.length === 0) return 'false';
  return `${WINDOW_COLUMN} IN (${stretches.map((stretch) => quoteString(formatWindow(stretch))).join(', ')})`;
}

function stagedValue(column: JobColumn): string {
  const value = `s.${quoteIdentifier(column.name)}`;
  return `ifNull(${textOf(column, value)}, ${nullMark({ type: column.type, emptyIsNull: column.oftenNull })})`;
}

function textOf({ type }: JobColumn, value: string): string {
  switch (type) {
    case 'string':
    case 'double':
      return value;
    case 'int32':
      return `toInt64(${value})`;
    case 'int64':
    case 'date':
      return `toString(${value})`;
    case 'wall':
      return `substring(toString(${value}), 1, 19)`;
    case 'instant':
      return `toString(toUnixTimestamp64Milli(${value}))`;
    default:
      return type satisfies never;
  }
}
