/**
 * The open interest of a series. The clearing house states it once before the opening, so the records of a day should show
 * one value, and one record with another must not decide. It is the last positive value that the day shows at least
 * twice, else the last positive one, else 0. Of values that were last shown at one time, the larger counts. Pure.
 */
import { writeColumn } from '../number-values.ts';
import { ROOT, STRIKE } from '../records.ts';

/** When a record traded, for `last` (ClickHouse). */
export const TRADED_AT = 'toUnixTimestamp64Milli(time)';

/**
 * The open interest of a series (ClickHouse): an aggregate over one row for each value that the series shows.
 * @param times records that show the value @param last when the last of them traded
 */
export function chooseOpenInterest(value: string, times: string, last: string): string {
  return `if(countIf(${value} > 0) > 0, argMaxIf(${value}, (${times} > 1, ${last}, ${value}), ${value} > 0), max(${value}))`;
}

/** The names of a contract's key in `buildSeriesTable`. */
const KEY = 'symbol, series_root, put_call, strike_price, expiration_date';

/**
 * One row for each series with its key, the sums, and `open_interest`, for readers and for the FROM clause.
 * @param sums name and SQL, an aggregate that can be summed
 */
export function buildSeriesTable(counted: string, sums: readonly (readonly [name: string, sql: string])[]): string {
  const own = sums.map(writeColumn).join(', ');
  const all = sums.map(([name]) => `sum(chosen.${name}) AS ${name}`).join(', ');
  return `(
  SELECT ${KEY}, CASE WHEN max(oi) > 0 THEN max(CASE WHEN choice = 1 THEN oi END) ELSE max(oi) END AS open_interest, ${all}
  FROM (
    SELECT *, row_number() OVER (PARTITION BY ${KEY} ORDER BY CASE WHEN oi > 0 THEN 0 ELSE 1 END, CASE WHEN times > 1 THEN 0 ELSE 1 END, last_time DESC, oi DESC) AS choice
    FROM (
      SELECT symbol, ${ROOT} AS series_root, put_call, ${STRIKE} AS strike_price, expiration_date, oi, count(*) AS times, max(time) AS last_time, ${own}
      FROM ${counted} GROUP BY ${KEY}, oi
    ) AS shown
  ) AS chosen GROUP BY ${KEY}
)`;
}
