/**
 * DuckDB: its JSON reader over the answers' files, then COPY TO Parquet with ZSTD, sorted and typed like our drop, with
 * row groups of our size. The rows never become JavaScript objects.
 */
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { TRADE_COLUMNS, type TradeColumn } from '../../src/api-contract/trade.ts';
import { createStopwatch } from '../support/stopwatch.ts';
import type { Steps, WayInput } from '../support/way.ts';

/** Bytes of one answer at most; DuckDB's own default is 16 MiB. */
const MAX_ANSWER_BYTES = 64 << 20;

export async function runDuckDb(input: WayInput): Promise<Steps> {
  const { time, steps } = createStopwatch();
  const instance = await DuckDBInstance.create(':memory:', { temp_directory: input.scratch });
  const connection = await instance.connect();
  try {
    await connection.run("SET TimeZone = 'UTC'");
    await time('read, sort and write', () => connection.run(copySql(input)));
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
  return steps();
}

function copySql({ pages, out }: WayInput): string {
  const fields = TRADE_COLUMNS.map((column) => `${column.name} ${WIRE[column.wire]}`).join(', ');
  const columns = `{data: 'STRUCT(${fields})[]'}`;
  const files = `'${join(pages, '0*.json')}'`;
  const reader = `read_json(${files}, format = 'unstructured', columns = ${columns}, maximum_object_size = ${MAX_ANSWER_BYTES})`;
  const rows = `SELECT unnest(data, recursive := true) FROM ${reader}`;
  const select = `SELECT ${TRADE_COLUMNS.map(typeSql).join(', ')} FROM (${rows}) ORDER BY symbol, time, id`;
  return `COPY (${select}) TO '${out}' (FORMAT parquet, COMPRESSION zstd)`;
}

const WIRE: Readonly<Record<TradeColumn['wire'], string>> = { string: 'VARCHAR', integer: 'INTEGER', float: 'DOUBLE' };

function typeSql({ name, drop, nullable }: TradeColumn): string {
  const value = nullable ? `nullif(${name}, '')` : name;
  switch (drop) {
    case 'string':
    case 'int32':
    case 'double':
      return name;
    case 'int64':
      return `CAST(${value} AS BIGINT) AS ${name}`;
    case 'date':
      return `CAST(${value} AS DATE) AS ${name}`;
    case 'wall':
      return `CAST(${value} AS TIMESTAMP_MS) AS ${name}`;
    case 'instant':
      return `to_timestamp(CAST(${value} AS BIGINT) / 1000) AS ${name}`;
    default:
      return drop satisfies never;
  }
}
