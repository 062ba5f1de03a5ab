/**
 * Earnings of symbols within days of the date, from the records' own `earning_date`: "next earnings date of the
 * underlying" in the API's document, empty where it is not known. A drop without the column has none.
 */
import type { DropSource } from '../drop-source.ts';
import type { Earnings } from '../model.ts';

/** Calendar days. */
const NEAR_DAYS = 10;
const COLUMN = 'earning_date';
/** If records of a symbol differ, the earliest date counts. */
function select(table: string): string {
  return `FROM ${table} WHERE ${COLUMN} >= date AND ${COLUMN} <= date + ${NEAR_DAYS}`;
}

/** By date, then symbol. */
export async function queryEarnings(
  source: DropSource,
  columns: ReadonlySet<string>,
  symbols: readonly string[],
): Promise<readonly Earnings[]> {
  if (symbols.length === 0 || !columns.has(COLUMN)) return [];
  const rows = await source.rows<Earnings>(
    `SELECT symbol, toString(min(${COLUMN})) AS day ${select(source.table)} AND has({symbols:Array(String)}, symbol) GROUP BY symbol ORDER BY day, symbol`,
    { symbols },
  );
  return rows.map(({ symbol, day }) => ({ symbol, day }));
}

/** The same of all symbols, for readers. */
export function buildEarningsQuery(counted: string): string {
  return `SELECT symbol, min(${COLUMN}) AS earnings\n${select(counted)} GROUP BY symbol ORDER BY 2, 1`;
}
