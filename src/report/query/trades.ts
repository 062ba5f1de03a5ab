/**
 * What stands out of the day: the biggest trades and sweeps, the contracts with most premium, the symbols' calls and puts
 * that drove the sentiment, and earnings that are near. Invariant: each result is bounded.
 */
import { isMultiLegType, isSweepType } from '../../api-contract/record-type.ts';
import type { Amount } from '../amount.ts';
import type { DropSource } from '../drop-source.ts';
import type { BigTrade, ContractFlow, Driver, Drivers, Earnings, VolumeAboveOpenInterest } from '../model.ts';
import { SIDE_SUMS, writeColumn } from '../number-values.ts';
import { IS_CALL, IS_PUT, IS_SWEEP } from '../records.ts';
import { selectContracts } from './series-state.ts';
import { fillSql } from './sql.ts';

export const BIGGEST_TRADES = 10;
/** Rows of the table of what moved the day. */
export const TOP_DRIVERS = 5;
/** Calendar days. */
const NEAR_DAYS = 10;

interface Contract {
  readonly symbol: string;
  readonly right: string | null;
  readonly strike: Amount;
  readonly expiration: string | null;
}

type TradeRow = Omit<BigTrade, 'time' | 'contract' | 'multiLeg' | 'sweep'> & Contract & { readonly clock: string };

export async function queryBiggestTrades(source: DropSource): Promise<readonly BigTrade[]> {
  return await queryTrades(source, 'isFinite(premium)');
}

/** The biggest executions of intermarket sweep orders. */
export async function queryBiggestSweeps(source: DropSource): Promise<readonly BigTrade[]> {
  return await queryTrades(source, `isFinite(premium) AND ${IS_SWEEP}`);
}

/**
 * Finds the threshold on one column first, so that wide rows are read only from the row groups with the largest
 * premiums (0.25 s instead of 0.7 s over 7 M rows). Equal premiums are ordered by time and id. An underlying price or
 * implied volatility of 0 counts as missing: the first records of a session have no quotes yet.
 */
async function queryTrades(source: DropSource, condition: string): Promise<readonly BigTrade[]> {
  const known = (column: string) => `if(isFinite(${column}) AND ${column} > 0, ${column}, NULL)`;
  const rows = await source.known<TradeRow>(
    `SELECT id, formatDateTime(fromUnixTimestamp64Milli(toUnixTimestamp64Milli(time), 'UTC'), '%H:%i:%S') AS clock,
       symbol, put_call AS right, strike, expiration_date AS expiration, size,
       price, premium, ifNull(side, '') AS side, ifNull(sentiment, '') AS sentiment,
       ${known('underlying_price')} AS spot, oi AS openInterest, ${known('iv')} AS impliedVolatility,
       ifNull(option_activity_type, '') AS activityType, dateDiff('day', date, expiration_date) AS days
     FROM ${source.table}
     WHERE ${condition} AND premium >= (SELECT min(premium) FROM (SELECT premium FROM ${source.table} WHERE ${condition} ORDER BY premium DESC LIMIT ${BIGGEST_TRADES}))
     ORDER BY premium DESC, time, id LIMIT ${BIGGEST_TRADES}`,
  );
  return rows.map(({ clock, right, strike, expiration, ...row }) => ({
    ...row,
    time: clock,
    contract: formatContract({ symbol: row.symbol, right, strike, expiration }),
    multiLeg: isMultiLegType(row.activityType),
    sweep: isSweepType(row.activityType),
  }));
}

/** `SPY 2026-11-20 600 C`: symbol, expiration, strike without trailing zeros, C or P; `?` for a missing part. */
function formatContract({ symbol, expiration, strike, right }: Contract): string {
  const side = right === 'CALL' ? 'C' : right === 'PUT' ? 'P' : (right ?? '?');
  return `${symbol} ${expiration ?? '?'} ${strike ?? '?'} ${side}`;
}

interface ContractRow {
  readonly putCall: string | null;
  readonly strikePrice: Amount;
  readonly expirationDate: string | null;
  readonly totalPremium: Amount;
}

/** The contracts with most premium, and the sums of all whose volume is above their open interest, from `states`. */
export async function queryContracts(
  source: DropSource,
): Promise<{ topContracts: readonly ContractFlow[]; volumeAboveOpenInterest: VolumeAboveOpenInterest }> {
  const contracts = await source.known<Omit<ContractFlow, 'contract' | 'premium'> & ContractRow>(selectContracts());
  const [above] = await source.known<VolumeAboveOpenInterest>(fillSql('volume-above'));
  return {
    topContracts: contracts.map(({ putCall: right, strikePrice: strike, expirationDate: expiration, ...row }) => ({
      symbol: row.symbol,
      contract: formatContract({ symbol: row.symbol, right, strike, expiration }),
      trades: row.trades,
      volume: row.volume,
      openInterest: row.openInterest,
      premium: row.totalPremium,
      bullish: row.bullish ?? 0,
      bearish: row.bearish ?? 0,
    })),
    volumeAboveOpenInterest: {
      ...{ series: 0, ofSeries: 0, unknownSeries: 0 },
      ...above,
      premium: above?.series ? above.premium : 0,
    },
  };
}

type Side = 'bullish' | 'bearish';
type DriverRow = Readonly<Record<Side, Amount>> &
  Readonly<Record<'isWhole' | `${Side | 'net'}Place`, number>> & {
    readonly symbol: string;
    readonly putCall: string;
    readonly expirationDate: string | null;
    readonly totalPremium: Amount;
  };

export const DRIVER_SUMS = `sum(premium) AS total_premium,
  ${SIDE_SUMS.map(writeColumn).join(',\n  ')}`;

/** The calls and the puts of each symbol, in whole and by expiration, ranked by the sentiment of their premium. */
export async function queryDrivers(source: DropSource): Promise<Drivers> {
  const place = (order: string) =>
    `row_number() OVER (PARTITION BY is_whole ORDER BY ${order} DESC, symbol, put_call, expiration_date)`;
  const rows = await source.known<DriverRow>(
    `SELECT is_whole, symbol, put_call, expiration_date, total_premium, bullish, bearish, bullish_place, bearish_place, net_place
     FROM (
       SELECT *, ${place('bullish')} AS bullish_place, ${place('bearish')} AS bearish_place, ${place('abs(bullish - bearish)')} AS net_place
       FROM (
         SELECT symbol, put_call, expiration_date, grouping(expiration_date) AS is_whole, ${DRIVER_SUMS}
         FROM ${source.table} WHERE ${IS_CALL} OR ${IS_PUT}
         GROUP BY GROUPING SETS ((symbol, put_call), (symbol, put_call, expiration_date))
       )
     )
     WHERE least(bullish_place, bearish_place) = 1 OR (NOT is_whole AND net_place <= ${TOP_DRIVERS})
     ORDER BY net_place`,
  );
  const findFirst = (side: Side): Driver | null => {
    const first = rows.filter((row) => row[`${side}Place`] === 1);
    const [whole] = first.filter(({ isWhole }) => isWhole === 1).map(readDriver);
    const [dated] = first.filter(({ isWhole }) => isWhole === 0).map(readDriver);
    if (whole === undefined || dated === undefined || whole[side] <= 0) return null;
    // The expiration is named where it has most of what its side has.
    const isSame = whole.symbol === dated.symbol && whole.right === dated.right;
    return isSame && dated[side] > whole[side] / 2 ? dated : whole;
  };
  return {
    bullish: findFirst('bullish'),
    bearish: findFirst('bearish'),
    top: rows
      .filter((row) => row.isWhole === 0 && row.netPlace <= TOP_DRIVERS)
      .map(readDriver)
      .filter(({ bullish, bearish }) => bullish !== bearish),
  };
}

function readDriver({ isWhole, symbol, putCall, expirationDate, totalPremium, bullish, bearish }: DriverRow): Driver {
  return {
    symbol,
    right: putCall === 'CALL' ? 'calls' : 'puts',
    expirationDate: isWhole === 1 ? null : expirationDate,
    premium: totalPremium ?? 0,
    bullish: bullish ?? 0,
    bearish: bearish ?? 0,
  };
}

/**
 * "Next earnings date of the underlying" in the API's document, empty where it is not known; a drop without the column has
 * none. If records of a symbol differ, the earliest date counts.
 */
const EARNINGS = 'earning_date';
export const IS_NEAR = `${EARNINGS} >= date AND ${EARNINGS} <= date + ${NEAR_DAYS}`;

/** Earnings of symbols within days of the date, by date, then symbol. */
export async function queryEarnings(
  source: DropSource,
  columns: ReadonlySet<string>,
  symbols: readonly string[],
): Promise<readonly Earnings[]> {
  if (symbols.length === 0 || !columns.has(EARNINGS)) return [];
  return await source.rows<Earnings>(
    `SELECT symbol, toString(min(${EARNINGS})) AS day FROM ${source.table} WHERE ${IS_NEAR} AND has({symbols:Array(String)}, symbol) GROUP BY symbol ORDER BY day, symbol`,
    { symbols },
  );
}
