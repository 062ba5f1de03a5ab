/**
 * What drove the day: the calls and the puts of each symbol, in whole and by expiration, ranked by the sentiment of their
 * premium. One pass over the counted records, in SQL for ClickHouse and DuckDB. Invariant: the result is bounded.
 */
import { type EngineNumber, readNumber } from '../amount.ts';
import type { DropSource } from '../drop-source.ts';
import type { Driver, Drivers } from '../model.ts';
import { SIDE_SUMS, writeColumn } from '../number-values.ts';
import { IS_CALL, IS_PUT } from '../records.ts';

/** Rows of the table of what moved the day. */
export const TOP_DRIVERS = 5;
/** `grouping` sets the bit of a dimension that is summed over. */
const WHOLE_SIDE = 1;

interface DriverRow {
  readonly along: number;
  readonly symbol: string;
  readonly put_call: string;
  readonly expiration: string | null;
  readonly total: EngineNumber;
  readonly bullish: EngineNumber;
  readonly bearish: EngineNumber;
  readonly bullish_place: number;
  readonly bearish_place: number;
  readonly net_place: number;
}

export async function queryDrivers(source: DropSource): Promise<Drivers> {
  const rows = await source.rows<DriverRow>(
    `SELECT along, symbol, put_call, toString(expiration_date) AS expiration, total_premium AS total, bullish, bearish, bullish_place, bearish_place, net_place
     FROM (${buildRanking(source.table)})
     WHERE least(bullish_place, bearish_place) = 1 OR (along != ${WHOLE_SIDE} AND net_place <= ${TOP_DRIVERS})
     ORDER BY net_place`,
  );
  const isWhole = ({ along }: DriverRow) => along === WHOLE_SIDE;
  const findFirst = (placeOf: (row: DriverRow) => number, premiumOf: (driver: Driver) => number): Driver | null => {
    const first = rows.filter((row) => placeOf(row) === 1).map((row) => ({ row, driver: readDriver(row) }));
    const side = first.find(({ row }) => isWhole(row))?.driver;
    const expiration = first.find(({ row }) => !isWhole(row))?.driver;
    if (side === undefined || expiration === undefined || premiumOf(side) <= 0) return null;
    // The expiration is named where it has most of what its side has.
    const isSame = side.symbol === expiration.symbol && side.right === expiration.right;
    return isSame && premiumOf(expiration) > premiumOf(side) / 2 ? expiration : side;
  };
  return {
    bullish: findFirst(
      (row) => row.bullish_place,
      ({ bullish }) => bullish,
    ),
    bearish: findFirst(
      (row) => row.bearish_place,
      ({ bearish }) => bearish,
    ),
    top: rows
      .filter((row) => !isWhole(row) && row.net_place <= TOP_DRIVERS)
      .map(readDriver)
      .filter(({ bullish, bearish }) => bullish !== bearish),
  };
}

/** The columns that identify a driver, and its sums. */
const SUMS = `sum(premium) AS total_premium,
  ${SIDE_SUMS.map(writeColumn).join(',\n  ')}`;

function buildRanking(table: string): string {
  const place = (order: string) =>
    `row_number() OVER (PARTITION BY along ORDER BY ${order} DESC, symbol, put_call, expiration_date)`;
  return `SELECT *, ${place('bullish')} AS bullish_place, ${place('bearish')} AS bearish_place, ${place('abs(bullish - bearish)')} AS net_place
    FROM (
      SELECT symbol, put_call, expiration_date, grouping(symbol, put_call, expiration_date) AS along, ${SUMS}
      FROM ${table} WHERE ${IS_CALL} OR ${IS_PUT}
      GROUP BY GROUPING SETS ((symbol, put_call), (symbol, put_call, expiration_date))
    )`;
}

/** The table of what moved the day, for readers. */
export function buildDriversQuery(counted: string): string {
  return `SELECT symbol, put_call, expiration_date, ${SUMS}\nFROM ${counted} WHERE ${IS_CALL} OR ${IS_PUT}\nGROUP BY symbol, put_call, expiration_date\nORDER BY abs(bullish - bearish) DESC, symbol, put_call, expiration_date LIMIT ${TOP_DRIVERS}`;
}

function readDriver({ along, symbol, put_call, expiration, total, bullish, bearish }: DriverRow): Driver {
  return {
    symbol,
    right: put_call === 'CALL' ? 'calls' : 'puts',
    expirationDate: along === WHOLE_SIDE ? null : expiration,
    premium: readNumber(total) ?? 0,
    bullish: readNumber(bullish) ?? 0,
    bearish: readNumber(bearish) ?? 0,
  };
}
