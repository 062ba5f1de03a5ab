/**
 * parquetjs-lite, the writer that most Node programs use: rows parsed, sorted and typed in JavaScript, then appended one
 * by one. It has no ZSTD and no dictionaries: Snappy is its usual codec; its row groups are of our size.
 */
import { createRequire } from 'node:module';
import { type DropType, TRADE_COLUMNS } from '../../src/api-contract/trade.ts';
import { ROW_GROUP_ROWS } from '../../src/seal/write-parquet.ts';
import { readPageSet } from '../support/pages.ts';
import { createStopwatch } from '../support/stopwatch.ts';
import type { Steps, WayInput } from '../support/way.ts';
import { readRows, sortRows, typeRows } from './rows.ts';

interface Writer {
  appendRow(row: Readonly<Record<string, unknown>>): Promise<void>;
  close(): Promise<void>;
}

/** The writing part of the package, which is CommonJS and ships no types. */
interface ParquetJs {
  readonly ParquetSchema: new (fields: Readonly<Record<string, unknown>>) => object;
  readonly ParquetWriter: {
    openFile(schema: object, path: string, options: Readonly<Record<string, number>>): Promise<Writer>;
  };
}

const TYPES: Readonly<Record<DropType, string>> = {
  string: 'UTF8',
  int32: 'INT32',
  int64: 'INT64',
  double: 'DOUBLE',
  date: 'DATE',
  wall: 'TIMESTAMP_MILLIS',
  instant: 'TIMESTAMP_MILLIS',
};

/** Its default of 8,192 rows a page gives about the same file. */
const PAGE_ROWS = 8192;

export async function runParquetJs(input: WayInput): Promise<Steps> {
  const { time, steps } = createStopwatch();
  const rows = await time('parse', async () => readRows(await readPageSet(input.pages)));
  await time('sort', () => sortRows(rows));
  await time('type', () => typeRows(rows));
  const fields = TRADE_COLUMNS.map(({ name, drop, nullable }) => [
    name,
    { type: TYPES[drop], optional: nullable, compression: 'SNAPPY' },
  ]);
  const { ParquetSchema, ParquetWriter } = createRequire(import.meta.url)('parquetjs-lite') as ParquetJs;
  const schema = new ParquetSchema(Object.fromEntries(fields));
  await time('write', async () => {
    const options = { rowGroupSize: ROW_GROUP_ROWS, pageSize: PAGE_ROWS };
    const writer = await ParquetWriter.openFile(schema, input.out, options);
    for (const row of rows) await writer.appendRow(row);
    await writer.close();
  });
  return steps();
}
