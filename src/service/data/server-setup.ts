/**
 * What a ClickHouse server needs for the service: a database of data that the service's user never names, and a database
 * of views, which is all that it sees. Invariant: the bounds of the views (delay, lookback, earliest date) move with the
 * SERVER's clock, so a row is hidden whoever asks and whatever the query says. The statements are a plan, for servers of
 * any age from 18.16 on; doing it twice is doing it once. It creates no users: `docs/service.md` has their SQL.
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
  /** The views, and the tables that may be read whole. The address of the service's user names this one. */
  visible: 'flowdrop',
} as const;

/** A further table, which the service's user may read whole. */
interface VisibleTable {
  readonly name: string;
  /** ClickHouse types; dictionary encoding is left out on servers that do not know it. */
  readonly columns: readonly { readonly name: string; readonly type: string }[];
  /** Columns of the sort key. */
  readonly order: readonly string[];
}

export interface ServerPlan {
  /** First visible date, YYYY-MM-DD. */
  readonly earliest: string;
  /** The service's clock minus the server's, seconds; 0 unless the service's clock is set. */
  readonly offsetSeconds: number;
  /** What the trades are sorted by, and so which filters read few rows. */
  readonly order: TradeOrder;
  /** Rows of a granule: ClickHouse's own 8192, fewer where a scan limit is small. */
  readonly granularity: number;
  readonly tables: readonly VisibleTable[];
}

interface ServerTables {
  /** For an administrator: quoted names of the table that rows are inserted into, and of one to create and drop. */
  readonly load: { readonly trades: string; readonly incoming: string };
  /** For the service's user: what it may read, already without the rows that nobody may see. */
  readonly read: { readonly trades: string; readonly chains: string; readonly dates: string };
  /** Names that no query may spell. */
  readonly databases: readonly string[];
}

/** Where everything is, whether or not it has been made. */
export const SERVER_TABLES: ServerTables = {
  load: { trades: 'flowdrop_data.trades', incoming: 'flowdrop_data.incoming' },
  read: { trades: `flowdrop.${TABLES[0]}`, chains: 'flowdrop.chains', dates: 'flowdrop.dates' },
  databases: ['flowdrop_data', 'flowdrop'],
};

const [ALL_TRADES, LATEST_TRADES] = TABLES;

/** Servers from this version on keep few distinct texts as a dictionary. */
const DICTIONARY_VERSION = [20, 1] as const;
/** Servers from this version on replace a view in one step. */
const REPLACE_VERSION = [20, 1] as const;
/** Servers from this version on run a view with its creator's rights, so that its reader needs none on the data. */
export const DEFINER_VERSION = [24, 2] as const;

/**
 * Creates what is missing, and the views anew; `SERVER_TABLES` says where everything is then.
 * @param admin an engine whose user may create databases, tables and views
 * @throws EngineFault
 */
export async function setUpServer(admin: Engine, plan: ServerPlan): Promise<void> {
  const { version } = await readCapabilities(admin);
  for (const statement of planTables(plan, version)) await admin.command(statement);
  await fillFirstTimes(admin);
  for (const statement of planViews(plan, version)) await admin.command(statement);
}

/** The feed sees only rows that come after it: those of a table that was there before are counted once. */
async function fillFirstTimes(admin: Engine): Promise<void> {
  const { data } = SERVER_DATABASES;
  const [known] = await admin.rows<{ dates: number }>(`SELECT count() AS dates FROM ${data}.first_times`);
  if (Number(known?.dates) > 0) return;
  await admin.command(
    `INSERT INTO ${data}.first_times SELECT date, minState(time) AS first_time FROM ${data}.trades GROUP BY date`,
  );
}

/** Statements that create databases and tables where they are missing. */
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
    // The latest date is asked for with every query of its view: this finds it without reading trades.
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

/** Statements that create the views or replace them. */
export function planViews(plan: ServerPlan, version: string): readonly string[] {
  const { data, visible } = SERVER_DATABASES;
  const columns = TRADE_COLUMNS.map((column) => quoteIdentifier(column.name)).join(', ');
  // A part of a second is rounded to the careful side at both ends.
  const newest = boundSql(Math.floor(plan.offsetSeconds) - MINIMUM_DATA_DELAY_MINUTES * 60);
  const oldest = boundSql(Math.ceil(plan.offsetSeconds) - LOOKBACK_DAYS * 86_400);
  const bodies = [
    [
      ALL_TRADES,
      `SELECT ${columns} FROM ${data}.trades
     WHERE time <= ${newest} AND time >= ${oldest} AND date >= ${quoteString(plan.earliest)}`,
    ],
    [
      // Columns `date` and `first_time`, one row for each date with visible trades.
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
 * The exchange's wall clock, `seconds` from the server's present. Whole seconds and `toString` of a zoned time, because
 * old servers have no `now64` and their `formatDateTime` does not look at the value's zone.
 */
function boundSql(seconds: number): string {
  return `toString(toTimeZone(now() + toInt32(${seconds}), ${quoteString(EXCHANGE_TIME_ZONE)}))`;
}
