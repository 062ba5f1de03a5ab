/** The ClickHouse types in which trades are answered, by the service and by the archive alike. Pure. */
import type { TradeColumn } from './trade.ts';

/** Text columns with as many values as rows; the others have few. */
const DISTINCT_COLUMNS: ReadonlySet<string> = new Set(['id', 'time', 'updated_timestamp']);

/** The type that a column is stored with and answered as. */
export function answerType(column: Pick<TradeColumn, 'name' | 'wire'>): string {
  if (column.wire === 'integer') return 'Int32';
  if (column.wire === 'float') return 'Float64';
  return DISTINCT_COLUMNS.has(column.name) ? 'String' : 'LowCardinality(String)';
}
