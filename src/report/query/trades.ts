/**
 * What stands out of the day: the biggest trades and sweeps, the contracts with most premium, the symbols' calls and puts
 * that drove the sentiment, and earnings that are near. Invariant: each result is bounded.
 */
import type { DropSource } from '../drop-source.ts';
import type { BigTrade, ContractFlow, Driver, Drivers, Earnings, VolumeAboveOpenInterest } from '../model.ts';
import { SIDE_SUMS, writeColumn } from '../number-values.ts';
import { IS_MULTI_LEG, IS_SWEEP } from '../records.ts';
import { selectContracts } from './series-state.ts';
import { fillSql } from './sql.ts';

const BIGGEST_TRADES = 10;
/** Rows of the table of what moved the day. */
const TOP_DRIVERS = 5;
/** Calendar days. */
const NEAR_DAYS = 10;

/** A sum over no number is 0 here. */
const orZero = (sum: string) => `if(isFinite(${sum}), ${sum}, 0) AS ${sum}`;

/** `SPY 2026-11-20 600 C`: symbol, expiration, strike without trailing zeros, C or P; `?` for a missing part. */
export function writeContract(strike: string): string {
  const known = (text: string) => `ifNull(${text}, '?')`;
  return `concat(symbol, ' ', ${known('toString(expiration_date)')}, ' ', if(ifNull(isFinite(${strike}), 0), ${known(`toString(${strike})`)}, '?'), ' ', ${known("multiIf(put_call = 'CALL', 'C', put_call = 'PUT', 'P', put_call)")})`;
}

/**
 * The biggest trades, or those of a condition. @param counted the counted records, for the FROM clause
 * @param hasGaps whether some have no premium @param also another column of these
 */
export function selectBiggestTrades(
  counted: string,
  hasGaps: boolean,
  { isChosen = 'true', also = '' }: { readonly isChosen?: string; readonly also?: string } = {},
): string {
  const condition = hasGaps ? `premium IS NOT NULL AND ${isChosen}` : isChosen;
  return fillSql('biggest-trades', { counted, condition, also, count: BIGGEST_TRADES });
}

/** A price of the underlying or a volatility of 0 counts as missing: the first records of a session have no quotes yet. */
export async function queryBiggestTrades<Trade extends BigTrade>(
  source: DropSource,
  hasGaps: boolean,
  chosen: Parameters<typeof selectBiggestTrades>[2] = {},
) {
  const known = (column: string) => `if(isFinite(${column}) AND ${column} > 0, ${column}, NULL)`;
  const ofType = (isOfType: string) => `toBool(ifNull(${isOfType}, 0))`;
  return await source.known<Trade>(
    `SELECT * EXCEPT (clock), clock AS time FROM (SELECT id, formatDateTime(fromUnixTimestamp64Milli(toUnixTimestamp64Milli(time), 'UTC'), '%H:%i:%S') AS clock,
       symbol, ${writeContract('strike')} AS contract, size,
       price, premium, ifNull(side, '') AS side, ifNull(sentiment, '') AS sentiment,
       ${known('underlying_price')} AS spot, oi AS open_interest, ${known('iv')} AS implied_volatility,
       dateDiff('day', date, expiration_date) AS days, ifNull(option_activity_type, '') AS activity_type,
       ${ofType(IS_MULTI_LEG)} AS multi_leg, ${ofType(IS_SWEEP)} AS sweep${chosen.also ?? ''}
     FROM (${selectBiggestTrades(source.table, hasGaps, chosen)}))`,
  );
}

/** The contracts with most premium, and the sums of all whose volume is above their open interest, from `states`. */
export async function queryContracts(
  source: DropSource,
): Promise<{ topContracts: readonly ContractFlow[]; volumeAboveOpenInterest: VolumeAboveOpenInterest }> {
  const topContracts = await source.known<ContractFlow>(
    `SELECT symbol, ${writeContract('strike_price')} AS contract, trades, volume, open_interest, total_premium AS premium,
       ${orZero('bullish')}, ${orZero('bearish')}
     FROM (${selectContracts()})`,
  );
  const [above] = await source.known<VolumeAboveOpenInterest>(fillSql('volume-above'));
  return {
    topContracts,
    volumeAboveOpenInterest: {
      ...{ series: 0, ofSeries: 0, unknownSeries: 0 },
      ...above,
      premium: above?.series ? above.premium : 0,
    },
  };
}

type Side = 'bullish' | 'bearish';
type DriverRow = Driver & { readonly isWhole: boolean } & Readonly<Record<`${Side | 'net'}Place`, number>>;

/** The calls and the puts of each symbol, in whole and by expiration, ranked by the sentiment of their premium. */
export function selectMoved(counted: string): string {
  return fillSql('moved', { counted, sideSums: SIDE_SUMS.map(writeColumn).join(', '), count: TOP_DRIVERS });
}

export async function queryDrivers(source: DropSource): Promise<Drivers> {
  const rows = await source.known<DriverRow>(
    `SELECT toBool(is_whole) AS is_whole, symbol, if(put_call = 'CALL', 'calls', 'puts') AS right, expiration_date,
       if(isFinite(total_premium), total_premium, 0) AS premium, ${orZero('bullish')}, ${orZero('bearish')},
       bullish_place, bearish_place, net_place
     FROM (${selectMoved(source.table)}) ORDER BY net_place`,
  );
  const findFirst = (side: Side): Driver | null => {
    const first = rows.filter((row) => row[`${side}Place`] === 1);
    const [whole, dated] = [true, false].map((isWhole) => first.find((row) => row.isWhole === isWhole));
    if (whole === undefined || dated === undefined || whole[side] <= 0) return null;
    // The expiration is named where it has most of what its side has.
    const isSame = whole.symbol === dated.symbol && whole.right === dated.right;
    return pickDriver(isSame && dated[side] > whole[side] / 2 ? dated : whole);
  };
  return {
    bullish: findFirst('bullish'),
    bearish: findFirst('bearish'),
    top: rows
      .filter((row) => !row.isWhole && row.netPlace <= TOP_DRIVERS && row.bullish !== row.bearish)
      .map(pickDriver),
  };
}

function pickDriver({ symbol, right, expirationDate, premium, bullish, bearish }: DriverRow): Driver {
  return { symbol, right, expirationDate, premium, bullish, bearish };
}

/**
 * "Next earnings date of the underlying" in the API's document, empty where it is not known; a drop without the column has
 * none. If records of a symbol differ, the earliest date counts.
 */
const EARNINGS = 'earning_date';

export function selectEarnings(counted: string): string {
  return fillSql('earnings', { counted, nearDays: NEAR_DAYS });
}

/** Earnings of symbols within days of the date, by date, then symbol. */
export async function queryEarnings(
  source: DropSource,
  columns: ReadonlySet<string>,
  symbols: readonly string[],
): Promise<readonly Earnings[]> {
  if (symbols.length === 0 || !columns.has(EARNINGS)) return [];
  return await source.rows<Earnings>(
    `SELECT symbol, toString(earnings) AS day FROM (${selectEarnings(source.table)}) WHERE has({symbols:Array(String)}, symbol) ORDER BY day, symbol`,
    { symbols },
  );
}
