/** The contracts with most premium of the day, each with its volume against its open interest. One pass. */
import { type EngineNumber, readNumber } from '../amount.ts';
import type { DropSource } from '../drop-source.ts';
import type { ContractFlow } from '../model.ts';
import { SIDE_SUMS, writeColumn } from '../number-values.ts';
import { SERIES_HASH, STRIKE } from '../records.ts';
import { formatContract } from './biggest-trades.ts';
import { buildSeriesTable, OPEN_INTEREST } from './open-interest.ts';

const TOP_CONTRACTS = 10;

interface ContractRow {
  readonly root: string;
  readonly right: string | null;
  readonly k: EngineNumber;
  readonly expiration: string | null;
  readonly trades: number;
  readonly volume: EngineNumber;
  readonly open_interest: EngineNumber;
  readonly total_premium: EngineNumber;
  readonly bullish: EngineNumber;
  readonly bearish: EngineNumber;
}

const SUMS = [
  ['trades', 'count(*)'],
  ['volume', 'sum(size)'],
  ['total_premium', 'sum(premium)'],
  ...SIDE_SUMS,
] as const;

export async function queryTopContracts(source: DropSource): Promise<readonly ContractFlow[]> {
  const rows = await source.rows<ContractRow>(
    `SELECT any(symbol) AS root, any(put_call) AS right, any(${STRIKE}) AS k, toString(any(expiration_date)) AS expiration,
       ${OPEN_INTEREST} AS open_interest, ${SUMS.map(writeColumn).join(', ')}
     FROM ${source.table} GROUP BY ${SERIES_HASH} ORDER BY total_premium DESC NULLS LAST, root, expiration, k, right LIMIT ${TOP_CONTRACTS}`,
  );
  return rows.map(readContract);
}

/** The same for readers. */
export function buildContractsQuery(counted: string): string {
  const names = SUMS.map(([name]) => name).join(', ');
  return `SELECT symbol, series_root, put_call, strike_price, expiration_date, open_interest, ${names}\nFROM ${buildSeriesTable(counted, SUMS)} AS series\nORDER BY total_premium DESC NULLS LAST, symbol, expiration_date, strike_price, put_call LIMIT ${TOP_CONTRACTS}`;
}

function readContract(row: ContractRow): ContractFlow {
  return {
    symbol: row.root,
    contract: formatContract(row.root, row.expiration, readNumber(row.k), row.right),
    trades: row.trades,
    volume: readNumber(row.volume),
    openInterest: readNumber(row.open_interest),
    premium: readNumber(row.total_premium),
    bullish: readNumber(row.bullish) ?? 0,
    bearish: readNumber(row.bearish) ?? 0,
  };
}
