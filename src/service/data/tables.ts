/** How trades and loaded chains are stored: columns with their types, and sort keys. A table of data. */
import { answerType, TRADE_COLUMNS } from '../../api-contract/trade.ts';
import type { ServiceOptions } from '../options.ts';

/** @param type ClickHouse's; a file may omit a nullable column */
const typed = (type: string, ...names: readonly string[]) => names.map((name) => ({ name, type }));

/**
 * One row per contract of one symbol's chain at one instant: `as_of` is UTC, ISO 8601 with milliseconds and Z; `spot` is
 * the price of the underlying, dollars, 0 if unknown. The contract columns are named as in the answer of the option
 * chain endpoint.
 */
export const CHAIN_COLUMNS: readonly { readonly name: string; readonly type: string }[] = [
  ...typed('LowCardinality(String)', 'symbol', 'date', 'as_of'),
  ...typed('Float64', 'spot'),
  ...typed('String', 'option_symbol'),
  ...typed('LowCardinality(String)', 'expiration_date', 'put_call'),
  ...typed('Float64', 'strike'),
  ...typed('Nullable(Float64)', 'bid'),
  ...typed('Nullable(Int32)', 'bid_size'),
  ...typed('Nullable(Float64)', 'ask'),
  ...typed('Nullable(Int32)', 'ask_size'),
  ...typed('Nullable(Float64)', 'last'),
  ...typed('Nullable(String)', 'last_time'),
  ...typed('Int32', 'volume', 'open_interest'),
  ...typed('Nullable(Float64)', 'iv', 'delta', 'gamma', 'theta', 'vega', 'rho'),
];

export const REQUIRED_CHAIN_COLUMNS: readonly string[] = CHAIN_COLUMNS.flatMap(({ name, type }) =>
  type.startsWith('Nullable') ? [] : [name],
);

/** Sort key of the table. */
export const CHAIN_SORT: readonly string[] = ['symbol', 'date', 'as_of', 'expiration_date', 'strike', 'put_call'];

/** Members of an answered row, in order; the other columns identify the chain. */
export const CONTRACT_COLUMNS: readonly string[] = CHAIN_COLUMNS.map(({ name }) => name).filter(
  (name) => !['symbol', 'date', 'as_of', 'spot'].includes(name),
);

export interface StoredTable {
  readonly name: 'trades' | 'chains';
  readonly columns: readonly { readonly name: string; readonly type: string }[];
}

export const STORED_TABLES: readonly StoredTable[] = [
  { name: 'trades', columns: TRADE_COLUMNS.map((column) => ({ name: column.name, type: answerType(column) })) },
  { name: 'chains', columns: CHAIN_COLUMNS },
];

/** The date is a prefix of the time, so it does not change the order; it lets filters on the date use the index too. */
export function listSortColumns(table: StoredTable['name'], order: ServiceOptions['order']): readonly string[] {
  if (table === 'chains') return CHAIN_SORT;
  return order === 'time' ? ['date', 'time', 'id'] : ['symbol', 'date', 'time', 'id'];
}

/** ClickHouse's own default, rows. */
const MAX_GRANULARITY = 8192;
/** Below this the index costs more than it saves. */
const MIN_GRANULARITY = 16;
/** A range scan reads up to two granules more than the range: granules must be small compared with the scan limit. */
const GRANULES_PER_SCAN_LIMIT = 64;

/** Rows per index granule for a scan limit. */
export function granularityFor(scanLimit: number): number {
  return Math.min(MAX_GRANULARITY, Math.max(MIN_GRANULARITY, Math.floor(scanLimit / GRANULES_PER_SCAN_LIMIT)));
}
