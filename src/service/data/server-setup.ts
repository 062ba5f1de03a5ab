/**
 * Sets up a ClickHouse server for the service: a data database that the service's user never names, and a database of
 * views, the only one that this user sees. Invariant: the bounds of the views (delay, lookback, earliest date) follow
 * the SERVER's clock, so hidden rows stay hidden for every caller and every query. Running the statements
 * twice has the same effect as once. It creates no users: `docs/service.md`
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
import { describeError, Fault } from '../../core/errors.ts';
import { isTooOld, readCapabilities } from '../../engine/capabilities.ts';
import type { Engine } from '../../engine/engine.ts';
import { EngineFault } from '../../engine/engine-fault.ts';
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
  /** ClickHouse types. */
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
  /**
   * Cluster on which everything is created. Each table is then a Distributed one over a replicated table on each node,
   * which has the rows of its shard: all else keeps its names. Default: the one server.
   */
  readonly cluster?: string | undefined;
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

/** The reader of a view needs no right on the data. */
const SECURITY = ' DEFINER = CURRENT_USER SQL SECURITY DEFINER';

/** Where ClickHouse Keeper or ZooKeeper has what replicas share; the usual place. */
const KEEPER_ROOT = '/clickhouse/tables';
/** What the name of a table on each node ends with. */
const LOCAL = '_local';

/**
 * For the administrator of a cluster. Rows reach their shards before the statement ends, and all statements use the same
 * replica of a shard, in the order of the configuration, and none that lags: a load finds the rows of the load before.
 */
export const CLUSTER_SETTINGS = {
  insert_distributed_sync: 1,
  load_balancing: 'in_order',
  max_replica_delay_for_distributed_queries: 1,
  fallback_to_stale_replicas_for_distributed_queries: 0,
  // Seconds until every node has run a statement.
  distributed_ddl_task_timeout: 30,
} as const;

/**
 * Creates missing databases and tables, and recreates the views; `SERVER_TABLES` has their names.
 * @param admin an engine whose user may create databases, tables and views; over a cluster, with `CLUSTER_SETTINGS`
 * @throws EngineFault; over a cluster Fault `CLUSTER_NOT_READY` (kind `usage`)
 */
export async function setUpServer(admin: Engine, plan: ServerPlan): Promise<void> {
  const { cluster } = plan;
  try {
    if (cluster !== undefined) {
      await assertMacros(admin, cluster);
      await assertOwnTables(admin);
    }
    const { version } = await readCapabilities(admin);
    const statements = planStatements(plan);
    for (const sql of isTooOld(version) ? statements.flatMap(toOldSql) : statements) await admin.command(sql);
    await fillFirstTimes(admin);
  } catch (cause) {
    if (cluster === undefined || !(cause instanceof EngineFault)) throw cause;
    throw notReady(`the tables cannot be created on cluster ${cluster}: ${describeError(cause)}`, cause);
  }
}

/** The macros decide which tables are replicas of each other: if two shards had the same, each row would be read twice. */
async function assertMacros(admin: Engine, cluster: string): Promise<void> {
  const clusters = await admin.rows<{ name: string; shards: number }>(
    'SELECT cluster AS name, max(shard_num) AS shards FROM system.clusters GROUP BY cluster ORDER BY cluster',
  );
  const own = clusters.find(({ name }) => name === cluster);
  if (own === undefined) {
    const names = clusters.map(({ name }) => name).join(', ') || 'none';
    throw notReady(`the server knows no cluster ${cluster}; its clusters are ${names}`);
  }
  const [found] = await admin.rows<{ shards: number }>(
    `SELECT uniqExact(substitution) AS shards FROM cluster(${quoteString(cluster)}, system.macros) WHERE macro = 'shard'`,
  );
  if (Number(found?.shards) === Number(own.shards)) return;
  throw notReady(
    `${cluster} has ${own.shards} shards, but its nodes have ${found?.shards} values of the macro {shard}`,
  );
}

/** A table of the same name that is not over ours would be read and filled past them. */
async function assertOwnTables(admin: Engine): Promise<void> {
  const [found] = await admin.rows<{ engine: string; definition: string }>(
    `SELECT engine, engine_full AS definition FROM system.tables
     WHERE database = ${quoteString(SERVER_DATABASES.data)} AND name = 'trades'`,
  );
  if (found === undefined || (found.engine === 'Distributed' && found.definition.includes(`trades${LOCAL}`))) return;
  const { trades } = SERVER_TABLES.load;
  throw new Fault('CLUSTER_NOT_READY', `${trades} exists and is not the service's: its engine is ${found.engine}`, {
    kind: 'usage',
    hint: 'With tables of your own leave --cluster out. Otherwise rename the table, start again, and insert its rows into the new one.',
  });
}

function notReady(message: string, cause?: EngineFault): Fault {
  return new Fault('CLUSTER_NOT_READY', message, {
    kind: 'usage',
    cause,
    hint: 'Every node must run, and its configuration needs the cluster in <remote_servers>, <zookeeper>, <distributed_ddl>, and <macros><shard>1</shard><replica>a</replica></macros> with its own values. See "Over a cluster" in docs/service.md.',
  });
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

/** Statements that create missing databases and tables, and create or replace the views. */
export function planStatements(plan: ServerPlan): readonly string[] {
  return [...planTables(plan), ...planViews(plan)];
}

/** A statement as the server of the tests knows it, 18.16: without dictionaries, and without replacing and rights of views. */
function toOldSql(statement: string): readonly string[] {
  const sql = statement.replaceAll(/LowCardinality\((\w+)\)/g, '$1').replace(SECURITY, '');
  const [, view] = /^CREATE OR REPLACE VIEW (\S+( ON CLUSTER \S+)?) AS/.exec(sql) ?? [];
  return view === undefined ? [sql] : [`DROP TABLE IF EXISTS ${view}`, sql.replace(' OR REPLACE', '')];
}

function planTables(plan: ServerPlan): readonly string[] {
  const { data, visible } = SERVER_DATABASES;
  const on = onCluster(plan);
  const stored = plan.cluster === undefined ? '' : LOCAL;
  return [
    `CREATE DATABASE IF NOT EXISTS ${data}${on}`,
    `CREATE DATABASE IF NOT EXISTS ${visible}${on}`,
    ...planTable(plan, {
      ...{ database: data, name: 'trades', shardBy: 'id' },
      columns: TRADE_COLUMNS.map((column) => `${quoteIdentifier(column.name)} ${answerType(column)}`),
      engine: 'MergeTree',
      rest: `PARTITION BY substring(date, 1, 7) ORDER BY (${listSortColumns('trades', plan.order).join(', ')})
     SETTINGS index_granularity = ${plan.granularity}`,
    }),
    // Each query of the latest view needs the latest date: this table finds it without reading trades.
    ...planTable(plan, {
      ...{ database: data, name: 'first_times', shardBy: 'date' },
      columns: ['date String', 'first_time AggregateFunction(min, String)'],
      engine: 'AggregatingMergeTree',
      rest: 'ORDER BY date',
    }),
    `CREATE MATERIALIZED VIEW IF NOT EXISTS ${data}.first_times_feed${on} TO ${data}.first_times${stored} AS
     SELECT date, minState(time) AS first_time FROM ${data}.trades${stored} GROUP BY date`,
    ...plan.tables.flatMap((table) =>
      planTable(plan, {
        ...{ database: visible, name: table.name, shardBy: table.order[0] ?? '' },
        columns: table.columns.map((column) => `${quoteIdentifier(column.name)} ${column.type}`),
        engine: 'MergeTree',
        rest: `ORDER BY (${table.order.map(quoteIdentifier).join(', ')})`,
      }),
    ),
  ];
}

interface TablePlan {
  readonly database: string;
  readonly name: string;
  /** Column whose values decide the shard of a row. */
  readonly shardBy: string;
  readonly columns: readonly string[];
  readonly engine: string;
  /** What follows the engine. */
  readonly rest: string;
}

function planTable(plan: ServerPlan, table: TablePlan): readonly string[] {
  const { database, engine, rest } = table;
  const name = `${database}.${quoteIdentifier(table.name)}`;
  const columns = `(${table.columns.join(', ')})`;
  if (plan.cluster === undefined) return [`CREATE TABLE IF NOT EXISTS ${name} ${columns} ENGINE = ${engine} ${rest}`];
  const { data } = SERVER_DATABASES;
  const local = `${table.name}${LOCAL}`;
  const place = `${KEEPER_ROOT}/{shard}/${data}/${local}`;
  const on = onCluster(plan);
  return [
    `CREATE TABLE IF NOT EXISTS ${data}.${quoteIdentifier(local)}${on} ${columns}
     ENGINE = Replicated${engine}(${quoteString(place)}, '{replica}') ${rest}`,
    `CREATE TABLE IF NOT EXISTS ${name}${on} ${columns} ENGINE = Distributed(
     ${[plan.cluster, data, local].map(quoteString).join(', ')}, cityHash64(${quoteIdentifier(table.shardBy)}))`,
  ];
}

function onCluster({ cluster }: ServerPlan): string {
  return cluster === undefined ? '' : ` ON CLUSTER ${quoteString(cluster)}`;
}

function planViews(plan: ServerPlan): readonly string[] {
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
  const on = onCluster(plan);
  return bodies.map(([name, body]) => `CREATE OR REPLACE VIEW ${visible}.${name}${on}${SECURITY} AS ${body}`);
}

/**
 * SQL of the exchange's wall clock, `seconds` from the server's present.
 */
function boundSql(seconds: number): string {
  return `toString(toTimeZone(now() + toInt32(${seconds}), ${quoteString(EXCHANGE_TIME_ZONE)}))`;
}
