/**
 * apache-arrow + parquet-wasm: rows parsed and sorted in JavaScript, made into Arrow columns, encoded by the Rust writer
 * in WebAssembly with ZSTD. One record batch is one row group; the file is built in memory, as the package has it.
 */
import { writeFile } from 'node:fs/promises';
import {
  Table as ArrowTable,
  type DataType,
  DateDay,
  Field,
  Float64,
  Int32,
  Int64,
  makeData,
  RecordBatch,
  Schema,
  Struct,
  TimestampMillisecond,
  tableToIPC,
  Utf8,
  vectorFromArray,
} from 'apache-arrow';
import { Compression, Table, WriterPropertiesBuilder, writeParquet } from 'parquet-wasm';
import { type DropType, TRADE_COLUMNS } from '../../src/api-contract/trade.ts';
import { ROW_GROUP_ROWS } from '../../src/seal/write-parquet.ts';
import { readPageSet } from '../support/pages.ts';
import { createStopwatch } from '../support/stopwatch.ts';
import type { Steps, WayInput } from '../support/way.ts';
import { type Row, readRows, sortRows, typeRows } from './rows.ts';

const TYPES: Readonly<Record<DropType, () => DataType>> = {
  string: () => new Utf8(),
  int32: () => new Int32(),
  int64: () => new Int64(),
  double: () => new Float64(),
  date: () => new DateDay(),
  wall: () => new TimestampMillisecond(),
  instant: () => new TimestampMillisecond('UTC'),
};

export async function runParquetWasm(input: WayInput): Promise<Steps> {
  const { time, steps } = createStopwatch();
  const rows = await time('parse', async () => readRows(await readPageSet(input.pages)));
  await time('sort', () => sortRows(rows));
  await time('type', () => typeRows(rows));
  const stream = await time('columns', () => tableToIPC(toArrow(rows), 'stream'));
  const file = await time('write', () => {
    const properties = new WriterPropertiesBuilder()
      .setCompression(Compression.ZSTD)
      .setMaxRowGroupSize(ROW_GROUP_ROWS)
      .build();
    return writeParquet(Table.fromIPCStream(stream), properties);
  });
  await time('save', () => writeFile(input.out, file));
  return steps();
}

function toArrow(rows: readonly Row[]): ArrowTable {
  const fields = TRADE_COLUMNS.map(({ name, drop, nullable }) => new Field(name, TYPES[drop](), nullable));
  const schema = new Schema(fields);
  const batches: RecordBatch[] = [];
  for (let from = 0; from < rows.length; from += ROW_GROUP_ROWS) {
    const part = rows.slice(from, from + ROW_GROUP_ROWS);
    const children = TRADE_COLUMNS.map(({ name, drop, nullable }) => {
      const values = part.map((row) => toArrowValue(row[name] ?? null, drop));
      // Numbers without nulls need no builder, which takes ten times as long.
      if (drop === 'int32' && !nullable)
        return makeData({ type: new Int32(), data: Int32Array.from(values as number[]) });
      if (drop === 'double' && !nullable)
        return makeData({ type: new Float64(), data: Float64Array.from(values as number[]) });
      const [data] = vectorFromArray(values, TYPES[drop]()).data;
      if (!data) throw new Error(`no column ${name}`);
      return data;
    });
    batches.push(
      new RecordBatch(schema, makeData({ type: new Struct(fields), length: part.length, nullCount: 0, children })),
    );
  }
  return new ArrowTable(schema, batches);
}

/** Times are numbers of milliseconds to Arrow; its dates are dates. */
function toArrowValue(value: Row[string], type: DropType): Row[string] {
  return value instanceof Date && type !== 'date' ? value.getTime() : value;
}
