/**
 * hyparquet-writer, a Parquet writer in JavaScript: rows parsed, sorted and typed in JavaScript, row groups of our size.
 * Its package compresses with Snappy only; ZSTD needs a compressor of one's own, which Node 20 does not have.
 */
import type { SchemaElement } from 'hyparquet';
import { fileWriter, parquetWriteRows } from 'hyparquet-writer';
import { type DropType, TRADE_COLUMNS } from '../../src/api-contract/trade.ts';
import { ROW_GROUP_ROWS } from '../../src/seal/write-parquet.ts';
import { readPageSet } from '../support/pages.ts';
import { createStopwatch } from '../support/stopwatch.ts';
import type { Steps, WayInput } from '../support/way.ts';
import { readRows, sortRows, typeRows } from './rows.ts';

export async function runHyparquetWriter(input: WayInput): Promise<Steps> {
  const { time, steps } = createStopwatch();
  const rows = await time('parse', async () => readRows(await readPageSet(input.pages)));
  await time('sort', () => sortRows(rows));
  await time('type', () => typeRows(rows));
  const columns = TRADE_COLUMNS.map(({ name }) => ({
    name,
    columnIndex: true,
    bloomFilter: name === 'symbol' || name === 'option_symbol',
  }));
  await time('write', () =>
    parquetWriteRows({ writer: fileWriter(input.out), rows, columns, schema: schema(), rowGroupSize: ROW_GROUP_ROWS }),
  );
  return steps();
}

function schema(): SchemaElement[] {
  const leaves = TRADE_COLUMNS.map(
    ({ name, drop, nullable }): SchemaElement => ({
      name,
      repetition_type: nullable ? 'OPTIONAL' : 'REQUIRED',
      ...TYPES[drop],
    }),
  );
  return [{ name: 'root', num_children: leaves.length }, ...leaves];
}

const TYPES: Readonly<Record<DropType, Omit<SchemaElement, 'name'>>> = {
  string: { type: 'BYTE_ARRAY', converted_type: 'UTF8' },
  int32: { type: 'INT32' },
  int64: { type: 'INT64' },
  double: { type: 'DOUBLE' },
  date: { type: 'INT32', converted_type: 'DATE' },
  wall: { type: 'INT64', logical_type: { type: 'TIMESTAMP', isAdjustedToUTC: false, unit: 'MILLIS' } },
  instant: { type: 'INT64', logical_type: { type: 'TIMESTAMP', isAdjustedToUTC: true, unit: 'MILLIS' } },
};
