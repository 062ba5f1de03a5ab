/**
 * Implied volatility of the watchlist, by expiration: at the money, the 25-delta skew, and the move that it expects. From the
 * whole chain of a symbol if a drop of the date has it, else from the latest record of each series that traded. One small
 * query: only the records of these symbols are read. `docs/formulas.md` has the formulas and their sources.
 */
import { type EngineNumber, readNumber } from '../amount.ts';
import type { DropSource } from '../drop-source.ts';
import type { ExpirationVolatility } from '../model.ts';
import { isSettledOn, SERIES_HASH, STRIKE } from '../records.ts';
import type { ExposureScope } from './exposure-query.ts';
import { KNOWN_IV, placeOfLast, readLast, selectLast } from './series-state.ts';

/** Expirations of a symbol that are listed: the term structure from days to about a year. */
export const EXPIRATIONS = 12;
/** The delta of the skew, and how far from it a contract may be. */
export const SKEW_DELTA = 0.25;
export const SKEW_REACH = 0.1;
/** How far the strike at the money may be from the spot, as a part of it: contracts that traded have gaps. */
export const NEAR_MONEY = 0.05;
/** Calendar days of a year, as for an implied volatility that is quoted per year. */
export const YEAR_DAYS = 365;

interface VolatilityRow {
  readonly root: string;
  readonly expiration: string;
  readonly days: number;
  readonly price: number;
  readonly nearest: number;
  readonly at_the_money: EngineNumber;
  readonly put_wing: EngineNumber;
  readonly call_wing: EngineNumber;
}

/** @param spots the price of the underlying of each symbol; others have no volatility */
export async function queryVolatility(
  source: DropSource,
  { date, chain }: Pick<ExposureScope, 'date' | 'chain'>,
  spots: ReadonlyMap<string, number>,
): Promise<readonly ExpirationVolatility[]> {
  const symbols = [...spots.keys()];
  if (symbols.length === 0) return [];
  const own = chain === null ? [] : symbols.filter((symbol) => chain.symbols.includes(symbol));
  const rows = await source.rows<VolatilityRow>(buildQuery(source.table, date, own.length > 0 ? chain : null), {
    symbols: symbols.filter((symbol) => !own.includes(symbol)),
    chained: own,
    all: symbols,
    prices: [...spots.values()],
  });
  return rows.map(readRow);
}

function buildQuery(table: string, date: string, chain: ExposureScope['chain']): string {
  // Volatility and delta are of one record.
  const traded = `SELECT root, expires, k, right, ivs[${placeOfLast('ivs')}] AS sigma, deltas[${placeOfLast('ivs')}] AS own_delta FROM (
      SELECT any(symbol) AS root, any(expiration_date) AS expires, any(${STRIKE}) AS k, any(put_call) AS right,
        ${selectLast('iv', KNOWN_IV, { beside: 'delta' })} AS records, ${readLast('records', 1)} AS ivs, ${readLast('records')} AS deltas
      FROM ${table} WHERE has({symbols:Array(String)}, symbol) AND NOT ${isSettledOn(date)} GROUP BY ${SERIES_HASH}
    )`;
  const whole =
    chain === null
      ? ''
      : `UNION ALL SELECT symbol AS root, expiration_date AS expires, ${STRIKE} AS k, put_call AS right, iv AS sigma, delta AS own_delta
    FROM ${chain.table} WHERE has({chained:Array(String)}, symbol) AND NOT ${isSettledOn(date)}`;
  const wing = (right: string, delta: number) =>
    `argMinIf(sigma, (abs(own_delta - ${delta}), k), right = '${right}' AND abs(own_delta - ${delta}) <= ${SKEW_REACH})`;
  const hasWing = (right: string, delta: number) =>
    `countIf(right = '${right}' AND abs(own_delta - ${delta}) <= ${SKEW_REACH}) > 0`;
  return `WITH series AS (
      SELECT *, transform(root, {all:Array(String)}, {prices:Array(Float64)}, 0.) AS spot FROM (${traded} ${whole})
      WHERE sigma > 0 AND isFinite(sigma) AND k > 0 AND isFinite(k) AND expires >= toDate32('${date}')
    )
    SELECT root, toString(expires) AS expiration, dateDiff('day', toDate32('${date}'), expires) AS days, any(spot) AS price,
      argMin(k, (abs(k - spot), k)) AS nearest, argMin(mean_sigma, (abs(k - spot), k)) AS at_the_money,
      if(${hasWing('PUT', -SKEW_DELTA)}, ${wing('PUT', -SKEW_DELTA)}, NULL) AS put_wing,
      if(${hasWing('CALL', SKEW_DELTA)}, ${wing('CALL', SKEW_DELTA)}, NULL) AS call_wing
    FROM (SELECT *, avg(sigma) OVER (PARTITION BY root, expires, k) AS mean_sigma FROM series WHERE spot > 0)
    GROUP BY root, expires ORDER BY root, expires LIMIT ${EXPIRATIONS} BY root`;
}

function readRow(row: VolatilityRow): ExpirationVolatility {
  const isNear = Math.abs(row.nearest - row.price) <= NEAR_MONEY * row.price;
  const atTheMoney = isNear ? readNumber(row.at_the_money) : null;
  const [put, call] = [readNumber(row.put_wing), readNumber(row.call_wing)];
  return {
    symbol: row.root,
    expirationDate: row.expiration,
    days: row.days,
    atTheMoney,
    strike: isNear ? row.nearest : null,
    skew: put === null || call === null ? null : put - call,
    expectedMove:
      atTheMoney === null || row.days === 0 ? null : row.price * atTheMoney * Math.sqrt(row.days / YEAR_DAYS),
  };
}
