/**
 * Codes that the API's contract does not have: a right that is neither call nor put, a sentiment, a side, a type of trade.
 * Such a record is in the total, and in no part that the code decides. So it is counted and named here, with its premium.
 */

import type { UnknownCodes } from '../model.ts';
import type { DropSource } from '../source.ts';
import { CODES } from '../sums/premium-sums.ts';
import { type EngineNumber, readAmount } from './premium.ts';

/** Values of a column that are named: what a reader takes in, and what an unbounded column cannot exceed. */
const MAX_VALUES = 5;

interface CodeRow {
  readonly value: string | null;
  readonly trades: number;
  readonly all_trades: number;
  readonly all_premium: EngineNumber;
}

/** One pass for each of the four columns; asked only where the file has such records. @param source the counted records */
export async function queryUnknownCodes(source: DropSource): Promise<readonly UnknownCodes[]> {
  const found: UnknownCodes[] = [];
  for (const [column, condition] of CODES) {
    const rows = await source.rows<CodeRow>(
      `SELECT value, trades, sum(trades) OVER () AS all_trades, sum(dollars) OVER () AS all_premium
       FROM (SELECT ${column} AS value, count() AS trades, sum(premium) AS dollars FROM ${source.table} WHERE ${buildUnknown(condition)} GROUP BY value)
       ORDER BY trades DESC, value LIMIT ${MAX_VALUES}`,
    );
    const [first] = rows;
    if (first === undefined) continue;
    const values = rows.map(({ value, trades }) => ({ value, trades }));
    found.push({ column, trades: first.all_trades, premium: readAmount(first.all_premium, false), values });
  }
  return found;
}

/** The records that a condition on a code does not hold for, those without the code included. */
export function buildUnknown(condition: string): string {
  return `CASE WHEN ${condition} THEN 0 ELSE 1 END = 1`;
}
