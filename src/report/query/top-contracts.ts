/** The contracts with most premium of the day, each with its volume against its open interest. One pass. */
import { type EngineNumber, readNumber } from '../amount.ts';
import type { DropSource } from '../drop-source.ts';
import type { ContractFlow } from '../model.ts';
import { SIDE_SUMS, writeColumn } from '../number-values.ts';
import { SERIES_HASH, STRIKE } from '../records.ts';
import { formatContract } from './biggest-trades.ts';
import { buildSeriesTable, chooseOpenInterest, TRADED_AT } from './open-interest.ts';

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
  const shown = SUMS.map(writeColumn).join(', ');
  const rows = await source.rows<ContractRow>(
    `SELECT any(symbol_shown) AS root, any(right_shown) AS right, any(strike_shown) AS k, toString(any(expires)) AS expiration,
       ${chooseOpenInterest('oi', 'times', 'last')} AS open_interest, ${SUMS.map(([name]) => `sum(shown.${name}) AS ${name}`).join(', ')}
     FROM (
       SELECT ${SERIES_HASH} AS series, oi, any(symbol) AS symbol_shown, any(put_call) AS right_shown, any(${STRIKE}) AS strike_shown,
         any(expiration_date) AS expires, count() AS times, max(${TRADED_AT}) AS last, ${shown}
       FROM ${source.table} GROUP BY series, oi
     ) AS shown GROUP BY series ORDER BY total_premium DESC NULLS LAST, root, expiration, k, right LIMIT ${TOP_CONTRACTS}`,
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
