/**
 * The contracts with most premium of the day, each with its volume against its open interest, and the sums of all whose
 * volume is above it: more contracts traded this day than were open before it, so that at least part of the volume opened
 * positions. Volume is the sum of `size` over the counted records; open interest is that of `open-interest.ts`. One pass,
 * grouped by a hash of the series key, which takes half the time of the key itself.
 */
import { type EngineNumber, readAmount, readNumber } from '../amount.ts';
import type { DropSource } from '../drop-source.ts';
import type { ContractFlow, VolumeAboveOpenInterest } from '../model.ts';
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
  /** Of all series. */
  readonly above: number;
  readonly above_premium: EngineNumber;
  readonly of_series: number;
  readonly unknown: number;
}

const SUMS = [
  ['trades', 'count(*)'],
  ['volume', 'sum(size)'],
  ['total_premium', 'sum(premium)'],
  ...SIDE_SUMS,
] as const;

export async function queryContracts(
  source: DropSource,
): Promise<{ topContracts: readonly ContractFlow[]; volumeAboveOpenInterest: VolumeAboveOpenInterest }> {
  const isAbove = 'volume > open_interest';
  const rows = await source.rows<ContractRow>(
    `SELECT *, countIf(${isAbove}) OVER () AS above, sumOrNullIf(total_premium, ${isAbove}) OVER () AS above_premium,
       count() OVER () AS of_series, countIf(isNull(volume) OR isNull(open_interest)) OVER () AS unknown
     FROM (
       SELECT any(symbol) AS root, any(put_call) AS right, any(${STRIKE}) AS k, toString(any(expiration_date)) AS expiration,
         ${OPEN_INTEREST} AS open_interest, ${SUMS.map(writeColumn).join(', ')}
       FROM ${source.table} GROUP BY ${SERIES_HASH}
     ) ORDER BY total_premium DESC NULLS LAST, root, expiration, k, right LIMIT ${TOP_CONTRACTS}`,
  );
  const { above: series = 0, above_premium, of_series: ofSeries = 0, unknown: unknownSeries = 0 } = rows[0] ?? {};
  const premium = readAmount(above_premium, series === 0);
  return {
    topContracts: rows.map(readContract),
    volumeAboveOpenInterest: { series, ofSeries, unknownSeries, premium },
  };
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
