/** How trades and chains are stored: columns with their types, and sort keys. A table of data. */
import { answerType } from '../../api-contract/engine-type.ts';
import { TRADE_COLUMNS } from '../../api-contract/trade.ts';
import { CHAIN_COLUMNS, CHAIN_SORT } from './chain-table.ts';

export type TradeOrder = 'time' | 'symbol';

export interface StoredTable {
  readonly name: 'trades' | 'chains';
  readonly columns: readonly { readonly name: string; readonly type: string }[];
}

/** ClickHouse's own default, rows. */
const MAX_GRANULARITY = 8192;
/** Below this the index costs more than it saves. */
const MIN_GRANULARITY = 16;
/** A range scan reads up to two granules more than the range: granules must be small compared with the scan limit. */
const GRANULES_PER_SCAN_LIMIT = 64;

/** Id of the load that a row belongs to; each load is its own partition, so an interrupted load can be removed. */
export const SOURCE_COLUMN = 'source_of_load';

export const STORED_TABLES: readonly StoredTable[] = [
  { name: 'trades', columns: TRADE_COLUMNS.map((column) => ({ name: column.name, type: answerType(column) })) },
  { name: 'chains', columns: CHAIN_COLUMNS.map(({ name, type }) => ({ name, type })) },
];

/** The date is a prefix of the time, so it does not change the order; it lets filters on the date use the index too. */
export function listSortColumns(table: StoredTable['name'], order: TradeOrder): readonly string[] {
  if (table === 'chains') return CHAIN_SORT;
  return order === 'time' ? ['date', 'time', 'id'] : ['symbol', 'date', 'time', 'id'];
}

/** Rows per index granule for a scan limit. */
export function granularityFor(scanLimit: number): number {
  return Math.min(MAX_GRANULARITY, Math.max(MIN_GRANULARITY, Math.floor(scanLimit / GRANULES_PER_SCAN_LIMIT)));
}
