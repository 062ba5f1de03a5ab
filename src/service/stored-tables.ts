/** How trades and chains are stored: columns with their types, and what they are sorted by. A table of data. */
import { TRADE_COLUMNS, type TradeColumn } from '../wire/trade.ts';

export type TradeOrder = 'time' | 'symbol';

export interface StoredTable {
  readonly name: 'trades' | 'chains';
  readonly columns: readonly { readonly name: string; readonly type: string }[];
}

/** Names the load that a row came with; a partition of its own, so that an interrupted load can be taken back. */
export const SOURCE_COLUMN = 'source_of_load';

/** Text columns with as many values as rows; the others have few. */
const DISTINCT_COLUMNS: ReadonlySet<string> = new Set(['id', 'time', 'updated_timestamp']);

export const STORED_TABLES: readonly StoredTable[] = [
  { name: 'trades', columns: TRADE_COLUMNS.map((column) => ({ name: column.name, type: storedType(column) })) },
];

/** The date is the first part of the time, so it does not change the order; it lets a filter on the date prune as well. */
export function sortKey(table: StoredTable, order: TradeOrder): string {
  if (table.name === 'chains') return 'symbol, date, expiration_date, strike, put_call';
  return order === 'time' ? 'date, time, id' : 'symbol, date, time, id';
}

/** The type that a column is stored with and answered as. */
function storedType(column: TradeColumn): string {
  if (column.wire === 'integer') return 'Int32';
  if (column.wire === 'float') return 'Float64';
  return DISTINCT_COLUMNS.has(column.name) ? 'String' : 'LowCardinality(String)';
}
