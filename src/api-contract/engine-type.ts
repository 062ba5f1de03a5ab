/** The ClickHouse types of trade columns in answers, for both the service and the archive. Pure. */
import type { TradeColumn } from './trade.ts';

/** Text columns with about as many values as rows; the others have few. */
const DISTINCT_COLUMNS: ReadonlySet<string> = new Set(['id', 'time', 'updated_timestamp']);

/** The type in which a column is stored and answered. */
export function answerType(column: Pick<TradeColumn, 'name' | 'wire'>): string {
  if (column.wire === 'integer') return 'Int32';
  if (column.wire === 'float') return 'Float64';
  return DISTINCT_COLUMNS.has(column.name) ? 'String' : 'LowCardinality(String)';
}
