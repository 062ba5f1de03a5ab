/**
 * The open interest of a series. The clearing house states it once before the opening, so the records of a day should show
 * one value, and one record with another must not decide. It is the last positive value that the day shows at least
 * twice, else the last positive one, else 0. Of values that were last shown at one time, the larger counts. Pure.
 */
import { writeColumn } from '../number-values.ts';
import { ROOT, STRIKE } from '../records.ts';

/** When a record traded (ClickHouse). */
export const TRADED_AT = 'toUnixTimestamp64Milli(time)';

/** A time of the date or of the weeks beside it takes so many bits, in milliseconds. */
const TIME_BITS = 33;
const MIDNIGHT = '86400000 * toInt32(date)';
/** The value of a record and then its time as one number: an array of these takes two thirds of the time of two. */
const SHOWN = `bitShiftLeft(toUInt64(oi), ${TIME_BITS}) + toUInt64(${TRADED_AT} - ${MIDNIGHT} + ${2 ** (TIME_BITS - 1)})`;
const value = (shown: string) => `bitShiftRight(${shown}, ${TIME_BITS})`;

/**
 * The open interest of a series (ClickHouse): an aggregate over its records. Nearly all series show one value. Of the
 * others, a record whose value is that of the record before it in order has a value that is shown at least twice.
 */
export const OPEN_INTEREST = `if(minIf(oi, oi > 0) < max(oi),
  toInt32(arraySort(arrayMap((n, before) -> (${value('n')} = ${value('before')}, n % ${2 ** TIME_BITS}, ${value('n')}),
    arraySort(groupArrayIf(${SHOWN}, oi > 0)) AS shown_oi, arrayPushFront(arrayPopBack(shown_oi), 0)))[-1].3), max(oi))`;

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
