/**
 * SQL of the two views that a query may name. Invariant: for every query, they return no rows outside the lookback,
 * younger than the delay, or before the earliest date. The views compute their bounds from the engine's clock plus a
 * constant. So the bounds move by themselves, and they fold to constants that prune on the primary key. Pure.
 */

import {
  EXCHANGE_TIME_ZONE,
  LOOKBACK_DAYS,
  MINIMUM_DATA_DELAY_MINUTES,
  TABLES,
} from '../../api-contract/published-limits.ts';
import { TRADE_COLUMNS } from '../../api-contract/trade.ts';
import { quoteIdentifier, quoteString } from '../../engine/literal.ts';

interface ViewSource {
  /** Quoted name of the table of all trades. */
  readonly trades: string;
  /** Quoted name of a table of `date` and `first_time`, one row for each date with trades. */
  readonly dates: string;
  /** First visible date, YYYY-MM-DD. */
  readonly earliest: string;
  /** The service's clock minus the engine's, milliseconds. */
  readonly offsetMs: number;
}

const [ALL_TRADES, LATEST_TRADES] = TABLES;

/** Statements that create or replace the views in the current database. */
export function listViewStatements({ trades, dates, earliest, offsetMs }: ViewSource): readonly string[] {
  const columns = TRADE_COLUMNS.map((column) => quoteIdentifier(column.name)).join(', ');
  const newest = boundSql(offsetMs, `toIntervalMinute(${MINIMUM_DATA_DELAY_MINUTES})`);
  const oldest = boundSql(offsetMs, `toIntervalDay(${LOOKBACK_DAYS})`);
  const latest = (value: string) => `(SELECT max(${value}) FROM ${dates} WHERE first_time <= ${newest})`;
  return [
    `CREATE OR REPLACE VIEW ${ALL_TRADES} AS SELECT ${columns} FROM ${trades}
     WHERE time <= ${newest} AND time >= ${oldest} AND date >= ${quoteString(earliest)}`,
    // The date filter decides; the time filter only lets the primary key skip other dates.
    `CREATE OR REPLACE VIEW ${LATEST_TRADES} AS SELECT ${columns} FROM ${ALL_TRADES}
     WHERE date = ${latest('date')} AND time >= ${latest('first_time')}`,
  ];
}

/** SQL of the exchange's wall clock, `ago` before the service's present. */
function boundSql(offsetMs: number, ago: string): string {
  const present = `now64(3) + toIntervalMillisecond(${offsetMs})`;
  return `formatDateTime(toTimeZone(${present} - ${ago}, ${quoteString(EXCHANGE_TIME_ZONE)}), '%F %T')`;
}
