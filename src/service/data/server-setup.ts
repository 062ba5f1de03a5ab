/**
 * Sets up a ClickHouse server for the service: a data database that the service's user never names, and a database of
 * views, the only one that this user sees. Invariant: the bounds of the views (delay, lookback, earliest date) follow
 * the SERVER's clock, so hidden rows stay hidden for every caller and every query. The statements are a plan for all
 * servers since version 18.16; running them twice has the same effect as once. It creates no users: `docs/service.md`
 * has the SQL for them.
 */

import { answerType } from '../../api-contract/engine-type.ts';
import {
  EXCHANGE_TIME_ZONE,
  LOOKBACK_DAYS,
  MINIMUM_DATA_DELAY_MINUTES,
  TABLES,
} from '../../api-contract/published-limits.ts';
import { TRADE_COLUMNS } from '../../api-contract/trade.ts';
import { isAtLeast, readCapabilities } from '../../engine/capabilities.ts';
import type { Engine } from '../../engine/engine.ts';
import { quoteIdentifier, quoteString } from '../../engine/literal.ts';
import { listSortColumns, type TradeOrder } from './stored-tables.ts';

const SERVER_DATABASES = {
  /** The trades themselves. */
  data: 'flowdrop_data',
  /** The views, and the tables that may be read completely. The URL of the service's user names this database. */
  visible: 'flowdrop',
} as const;

/** An additional table that the service's user may read completely. */
interface VisibleTable {
  readonly name: string;
  /** ClickHouse types; dictionary encoding is left out on servers without it. */
  readonly columns: readonly { readonly name: string; readonly type: string }[];
  /** Columns of the sort key. */
  readonly order: readonly string[];
}

export interface ServerPlan {
  /** First visible date, YYYY-MM-DD. */
  readonly earliest: string;
  /** The service's clock minus the server's, seconds; 0 unless the service's clock is set. */
  readonly offsetSeconds: number;
  /** Sort order of the trades; it decides which filters read few rows. */
  readonly order: TradeOrder;
  /** Rows per granule: ClickHouse's default of 8192, or fewer for a small scan limit. */
  readonly granularity: number;
  readonly tables: readonly VisibleTable[];
}

interface ServerTables {
  /** For an administrator: quoted names of the table to insert into, and of a temporary table. */
  readonly load: { readonly trades: string; readonly incoming: string };
  /** For the service's user: tables and views that it may read; hidden rows are already excluded. */
  readonly read: { readonly trades: string; readonly chains: string; readonly dates: string };
  /** Names that no query may contain. */
  readonly databases: readonly string[];
}

/** Names of all tables, whether or not they exist yet. */
export const SERVER_TABLES: ServerTables = {
  load: { trades: 'flowdrop_data.trades', incoming: 'flowdrop_data.incoming' },
  read: { trades: `flowdrop.${TABLES[0]}`, chains: 'flowdrop.chains', dates: 'flowdrop.dates' },
  databases: ['flowdrop_data', 'flowdrop'],
};

const [ALL_TRADES, LATEST_TRADES] = TABLES;

/** From this version servers store texts with few distinct values as a dictionary. */
const DICTIONARY_VERSION = [20, 1] as const;
/** From this version servers replace a view in one step. */
const REPLACE_VERSION = [20, 1] as const;
/** From this version servers run a view with its creator's rights, so that its reader needs none on the data. */
export const DEFINER_VERSION = [24, 2] as const;

/**
 * Creates missing databases and tables, and recreates the views; `SERVER_TABLES` has their names.
 * @param admin an engine whose user may create databases, tables and views
 * @throws EngineFault
 */
export async function setUpServer(admin: Engine, plan: ServerPlan): Promise<void> {
  const { version } = await readCapabilities(admin);
  for (const statement of planTables(plan, version)) await admin.command(statement);
  await fillFirstTimes(admin);
  for (const statement of planViews(plan, version)) await admin.command(statement);
}

/** The materialized view sees only rows inserted after its creation; this adds the rows of an older table once. */
async function fillFirstTimes(admin: Engine): Promise<void> {
  const { data } = SERVER_DATABASES;
  const [known] = await admin.rows<{ dates: number }>(`SELECT count() AS dates FROM ${data}.first_times`);
  if (Number(known?.dates) > 0) return;
  await admin.command(
    `INSERT INTO ${data}.first_times SELECT date, minState(time) AS first_time FROM ${data}.trades GROUP BY date`,
  );
}

/** Statements that create missing databases and tables. */
export function planTables(plan: ServerPlan, version: string): readonly string[] {
  const { data, visible } = SERVER_DATABASES;
  const type = (name: string) =>
    isAtLeast(version, ...DICTIONARY_VERSION) ? name : name.replace(/LowCardinality\((\w+)\)/, '$1');
  const columns = TRADE_COLUMNS.map((column) => `${quoteIdentifier(column.name)} ${type(answerType(column))}`);
  const sortKey = listSortColumns('trades', plan.order).join(', ');
  return [
    `CREATE DATABASE IF NOT EXISTS ${data}`,
    `CREATE DATABASE IF NOT EXISTS ${visible}`,
    `CREATE TABLE IF NOT EXISTS ${data}.trades (${columns.join(', ')}) ENGINE = MergeTree
     PARTITION BY substring(date, 1, 7) ORDER BY (${sortKey}) SETTINGS index_granularity = ${plan.granularity}`,
    // Each query of the latest view needs the latest date: this table finds it without reading trades.
    `CREATE TABLE IF NOT EXISTS ${data}.first_times (date String, first_time AggregateFunction(min, String))
     ENGINE = AggregatingMergeTree ORDER BY date`,
    `CREATE MATERIALIZED VIEW IF NOT EXISTS ${data}.first_times_feed TO ${data}.first_times AS
     SELECT date, minState(time) AS first_time FROM ${data}.trades GROUP BY date`,
    ...plan.tables.map((table) => {
      const list = table.columns.map((column) => `${quoteIdentifier(column.name)} ${type(column.type)}`).join(', ');
      return `CREATE TABLE IF NOT EXISTS ${visible}.${quoteIdentifier(table.name)} (${list})
     ENGINE = MergeTree ORDER BY (${table.order.map(quoteIdentifier).join(', ')})`;
    }),
  ];
}

/** Statements that create or replace the views. */
export function planViews(plan: ServerPlan, version: string): readonly string[] {
  const { data, visible } = SERVER_DATABASES;
  const columns = TRADE_COLUMNS.map((column) => quoteIdentifier(column.name)).join(', ');
  // Fractions of a second are rounded so that both bounds hide more rows, never fewer.
  const newest = boundSql(Math.floor(plan.offsetSeconds) - MINIMUM_DATA_DELAY_MINUTES * 60);
  const oldest = boundSql(Math.ceil(plan.offsetSeconds) - LOOKBACK_DAYS * 86_400);
  const bodies = [
    [
      ALL_TRADES,
      `SELECT ${columns} FROM ${data}.trades
     WHERE time <= ${newest} AND time >= ${oldest} AND date >= ${quoteString(plan.earliest)}`,
    ],
    [
      // Columns `date` and `first_time`: one row for each date with visible trades.
      'dates',
      `SELECT date, first AS first_time FROM (
       SELECT date, minMerge(first_time) AS first FROM ${data}.first_times GROUP BY date)
     WHERE first <= ${newest} AND date >= substring(${oldest}, 1, 10) AND date >= ${quoteString(plan.earliest)}`,
    ],
    [
      LATEST_TRADES,
      `SELECT ${columns} FROM ${visible}.${ALL_TRADES} WHERE date = (SELECT max(date) FROM ${visible}.dates)`,
    ],
  ] as const;
  const security = isAtLeast(version, ...DEFINER_VERSION) ? ' DEFINER = CURRENT_USER SQL SECURITY DEFINER' : '';
  if (isAtLeast(version, ...REPLACE_VERSION))
    return bodies.map(([name, body]) => `CREATE OR REPLACE VIEW ${visible}.${name}${security} AS ${body}`);
  return bodies.flatMap(([name, body]) => [
    `DROP TABLE IF EXISTS ${visible}.${name}`,
    `CREATE VIEW ${visible}.${name} AS ${body}`,
  ]);
}

/**
 * SQL of the exchange's wall clock, `seconds` from the server's present. It uses whole seconds and `toString` of a
 * zoned time: old servers have no `now64`, and their `formatDateTime` ignores the value's time zone.
 */
function boundSql(seconds: number): string {
  return `toString(toTimeZone(now() + toInt32(${seconds}), ${quoteString(EXCHANGE_TIME_ZONE)}))`;
}
