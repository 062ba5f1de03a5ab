/**
 * The proof that the ways wrote the same: one number from every value of a file in its order, computed by DuckDB. Types
 * that writers spell differently (a timestamp with or without zone) are brought to milliseconds first, and -0 is 0.
 */
import { TRADE_COLUMNS, type TradeColumn } from '../../src/api-contract/trade.ts';
import { queryDuckDb } from '../../test/support/drop.ts';

export interface Content {
  readonly rows: number;
  readonly hash: string;
  /** What the file says wrote it. */
  readonly writer: string;
}

export async function readContent(path: string): Promise<Content> {
  const values = TRADE_COLUMNS.map(valueSql).join(', ');
  const [row] = await queryDuckDb(
    `SELECT count(*)::INTEGER AS rows, bit_xor(hash(file_row_number, ${values}))::VARCHAR AS hash,
      (SELECT first(created_by) FROM parquet_file_metadata('${path}')) AS writer
     FROM read_parquet('${path}', file_row_number = true)`,
  );
  return {
    rows: Number(row?.['rows']),
    hash: String(row?.['hash']),
    writer: String(row?.['writer']).replace(/ \(build .*/, ''),
  };
}

function valueSql({ name, drop }: TradeColumn): string {
  if (drop === 'wall' || drop === 'instant') return `epoch_ms(${name})`;
  // Zero is zero: some writers lose the sign of -0.
  if (drop === 'double') return `(${name} + 0.0)::VARCHAR`;
  return `${name}::VARCHAR`;
}
