/**
 * The biggest single trades of the day by premium, of all and of sweeps, each with the data to judge it. An underlying price or implied
 * volatility of 0 counts as missing: the first records of a session have no quotes yet.
 */
import { isMultiLegType, isSweepType } from '../../api-contract/record-type.ts';
import { type EngineNumber, readNumber } from '../amount.ts';
import type { DropSource } from '../drop-source.ts';
import type { BigTrade } from '../model.ts';
import { IS_SWEEP } from '../records.ts';

export const BIGGEST_TRADES = 10;

interface TradeRow {
  readonly id: string;
  readonly clock: string;
  readonly symbol: string;
  readonly put_call: string | null;
  readonly strike: EngineNumber;
  readonly expiration: string | null;
  readonly size: EngineNumber;
  readonly price: EngineNumber;
  readonly premium: number;
  readonly side: string | null;
  readonly sentiment: string | null;
  readonly underlying_price: EngineNumber;
  readonly oi: EngineNumber;
  readonly iv: EngineNumber;
  readonly days: EngineNumber;
  readonly option_activity_type: string | null;
}

export async function queryBiggestTrades(source: DropSource): Promise<readonly BigTrade[]> {
  return await queryTrades(source, 'isFinite(premium)');
}

/** The biggest executions of intermarket sweep orders. */
export async function queryBiggestSweeps(source: DropSource): Promise<readonly BigTrade[]> {
  return await queryTrades(source, `isFinite(premium) AND ${IS_SWEEP}`);
}

/**
 * Finds the threshold on one column first, so that wide rows are read only from the row groups with the largest
 * premiums (0.25 s instead of 0.7 s over 7 M rows). Equal premiums are ordered by time and id.
 */
async function queryTrades(source: DropSource, condition: string): Promise<readonly BigTrade[]> {
  const rows = await source.rows<TradeRow>(
    `SELECT id, formatDateTime(fromUnixTimestamp64Milli(toUnixTimestamp64Milli(time), 'UTC'), '%H:%i:%S') AS clock,
       symbol, put_call, strike, toString(expiration_date) AS expiration, size, price, premium, side, sentiment,
       underlying_price, oi, iv, option_activity_type,
       dateDiff('day', date, expiration_date) AS days
     FROM ${source.table}
     WHERE ${condition} AND premium >= (SELECT min(premium) FROM (SELECT premium FROM ${source.table} WHERE ${condition} ORDER BY premium DESC LIMIT ${BIGGEST_TRADES}))
     ORDER BY premium DESC, time, id LIMIT ${BIGGEST_TRADES}`,
  );
  return rows.map(readTrade);
}

function readTrade(row: TradeRow): BigTrade {
  return {
    id: row.id,
    time: row.clock,
    symbol: row.symbol,
    contract: formatContract(row.symbol, row.expiration, readNumber(row.strike), row.put_call),
    size: readNumber(row.size),
    price: readNumber(row.price),
    premium: row.premium,
    side: row.side ?? '',
    sentiment: row.sentiment ?? '',
    spot: positiveOrNull(row.underlying_price),
    openInterest: readNumber(row.oi),
    impliedVolatility: positiveOrNull(row.iv),
    days: readNumber(row.days),
    activityType: row.option_activity_type ?? '',
    multiLeg: isMultiLegType(row.option_activity_type ?? ''),
    sweep: isSweepType(row.option_activity_type ?? ''),
  };
}

/** `SPY 2026-11-20 600 C`: symbol, expiration, strike without trailing zeros, C or P; `?` for a missing part. */
export function formatContract(
  symbol: string,
  expiration: string | null,
  strike: number | null,
  putCall: string | null,
): string {
  const right = putCall === 'CALL' ? 'C' : putCall === 'PUT' ? 'P' : (putCall ?? '?');
  return `${symbol} ${expiration ?? '?'} ${strike ?? '?'} ${right}`;
}

function positiveOrNull(value: EngineNumber): number | null {
  const number = readNumber(value);
  return number !== null && number > 0 ? number : null;
}
