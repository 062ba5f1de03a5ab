/**
 * Sets up a ClickHouse server for the service: a data database that the service's user never names, and a database of
 * views, the only one that this user sees. Invariant: the bounds of the views (delay, lookback, earliest date) follow
 * the SERVER's clock, so hidden rows stay hidden for every caller and every query. Running the statements twice has the
 * same effect as once. It creates no users: `docs/clickhouse.md` has the SQL for them.
 *
 * On a cluster each table is a Distributed one over a replicated table on each node, which has the rows of its shard: all
 * else keeps its names.
 */
import {
  EARLIEST_DATE,
  EXCHANGE_TIME_ZONE,
  LOOKBACK_DAYS,
  MINIMUM_DATA_DELAY_MINUTES,
  TABLES,
} from '../../api-contract/published-limits.ts';
import { answerType, TRADE_COLUMNS } from '../../api-contract/trade.ts';
import { describeError, Fault } from '../../core/errors.ts';
import { EngineFault } from '../../engine/engine-fault.ts';
import { quoteIdentifier, quoteString } from '../../engine/literal.ts';
import { isTooOld, readCapabilities } from '../../engine/server.ts';
import type { StatementRunner } from '../backend.ts';
import type { ServiceOptions } from '../options.ts';
import { CHAIN_COLUMNS, CHAIN_SORT, granularityFor, listSortColumns } from './tables.ts';

export interface ServerPlan extends Pick<ServiceOptions, 'earliest' | 'order' | 'scanLimit'> {
  /** The service's clock minus the server's, seconds; 0 unless the service's clock is set. */
  readonly offsetSeconds: number;
  /** Cluster on which everything is created. Default: the one server. */
  readonly cluster?: string | undefined;
}

const [ALL_TRADES, LATEST_TRADES] = TABLES;
/** The trades themselves. */
const DATA = 'flowdrop_data';
/** The views, and the tables that may be read completely. The URL of the service's user names this database. */
const VISIBLE = 'flowdrop';
/** Names that no query may contain. */
export const SERVER_DATABASES = [DATA, VISIBLE] as const;

/** Names of all tables, whether or not they exist yet. */
export const SERVER_TABLES = {
  /** For an administrator: the table to insert into, and a temporary one. */
  trades: `${DATA}.trades`,
  incoming: `${DATA}.incoming`,
  /** For the service's user: hidden rows are already excluded. */
  visibleTrades: `${VISIBLE}.${ALL_TRADES}`,
  chains: `${VISIBLE}.chains`,
  dates: `${VISIBLE}.dates`,
} as const;

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
export async function setUpServer(admin: StatementRunner, plan: ServerPlan): Promise<void> {
  const { cluster } = plan;
  try {
    if (cluster !== undefined) {
      await assertMacros(admin, cluster);
      await assertOwnTables(admin);
    }
    const { version } = await readCapabilities(admin);
    const statements = planStatements(plan);
    for (const sql of isTooOld(version) ? statements.flatMap(toOldSql) : statements) await admin.command(sql);
    await fillTimes(admin);
  } catch (cause) {
    if (cluster === undefined || !(cause instanceof EngineFault)) throw cause;
    throw notReady(`the tables cannot be created on cluster ${cluster}: ${describeError(cause)}`, cause);
  }
}

/** The macros decide which tables are replicas of each other: if two shards had the same, each row would be read twice. */
async function assertMacros(admin: StatementRunner, cluster: string): Promise<void> {
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
async function assertOwnTables(admin: StatementRunner): Promise<void> {
  const [found] = await admin.rows<{ engine: string; definition: string }>(
    `SELECT engine, engine_full AS definition FROM system.tables WHERE database = '${DATA}' AND name = 'trades'`,
  );
  if (found === undefined || (found.engine === 'Distributed' && found.definition.includes(`trades${LOCAL}`))) return;
  const { trades } = SERVER_TABLES;
  throw new Fault('CLUSTER_NOT_READY', `${trades} exists and is not the service's: its engine is ${found.engine}`, {
    kind: 'usage',
    hint: 'With tables of your own leave --cluster out. Otherwise rename the table, start again, and insert its rows into the new one.',
  });
}

function notReady(message: string, cause?: EngineFault): Fault {
  return new Fault('CLUSTER_NOT_READY', message, {
    kind: 'usage',
    cause,
    hint: 'Every node must run, and its configuration needs the cluster in <remote_servers>, <zookeeper>, <distributed_ddl>, and <macros><shard>1</shard><replica>a</replica></macros> with its own values. See "Over a cluster" in docs/clickhouse.md.',
  });
}

/** Of each date: when its first and its last trade were. */
const TIMES = `${DATA}.session_times`;
const selectTimes = (trades: string) =>
  `SELECT date, minState(time) AS first_time, maxState(time) AS last_time FROM ${trades} GROUP BY date`;

/** The materialized view sees only rows inserted after its creation; this adds the rows of an older table once. */
async function fillTimes(admin: StatementRunner): Promise<void> {
  const [known] = await admin.rows<{ dates: number }>(`SELECT count() AS dates FROM ${TIMES}`);
  if (Number(known?.dates) > 0) return;
  await admin.command(`INSERT INTO ${TIMES} ${selectTimes(`${DATA}.trades`)}`);
}

/** A statement as the server of the tests knows it, 18.16: without dictionaries, and without replacing and rights of views. */
function toOldSql(statement: string): readonly string[] {
  const sql = statement.replaceAll(/LowCardinality\((\w+)\)/g, '$1').replace(SECURITY, '');
  const [, view] = /^CREATE OR REPLACE VIEW (\S+( ON CLUSTER \S+)?) AS/.exec(sql) ?? [];
  return view === undefined ? [sql] : [`DROP TABLE IF EXISTS ${view}`, sql.replace(' OR REPLACE', '')];
}

/** Statements that create missing databases and tables, and create or replace the views. */
export function planStatements(plan: ServerPlan): readonly string[] {
  const { cluster, earliest = EARLIEST_DATE, offsetSeconds, order, scanLimit } = plan;
  const on = cluster === undefined ? '' : ` ON CLUSTER ${quoteString(cluster)}`;
  const local = cluster === undefined ? '' : LOCAL;
  /** @param shardBy column whose values decide the shard of a row */
  const table = (name: string, shardBy: string, columns: readonly string[], engine: string, rest: string) => {
    const list = `(${columns.join(', ')})`;
    if (cluster === undefined) return [`CREATE TABLE IF NOT EXISTS ${name} ${list} ENGINE = ${engine} ${rest}`];
    const own = `${name.split('.')[1]}${LOCAL}`;
    return [
      `CREATE TABLE IF NOT EXISTS ${DATA}.${own}${on} ${list}
       ENGINE = Replicated${engine}('${KEEPER_ROOT}/{shard}/${DATA}/${own}', '{replica}') ${rest}`,
      `CREATE TABLE IF NOT EXISTS ${name}${on} ${list}
       ENGINE = Distributed(${quoteString(cluster)}, '${DATA}', '${own}', cityHash64(${shardBy}))`,
    ];
  };
  const view = (name: string, select: string) =>
    `CREATE OR REPLACE VIEW ${VISIBLE}.${name}${on}${SECURITY} AS ${select}`;
  const trades = TRADE_COLUMNS.map((column) => `${quoteIdentifier(column.name)} ${answerType(column)}`);
  const names = TRADE_COLUMNS.map(({ name }) => quoteIdentifier(name)).join(', ');
  const chains = CHAIN_COLUMNS.map(({ name, type }) => `${quoteIdentifier(name)} ${type}`);
  // Fractions of a second are rounded so that both bounds hide more rows, never fewer.
  const newest = boundSql(Math.floor(offsetSeconds) - MINIMUM_DATA_DELAY_MINUTES * 60);
  const oldest = boundSql(Math.ceil(offsetSeconds) - LOOKBACK_DAYS * 86_400);
  const first = `date >= ${quoteString(earliest)}`;
  return [
    `CREATE DATABASE IF NOT EXISTS ${DATA}${on}`,
    `CREATE DATABASE IF NOT EXISTS ${VISIBLE}${on}`,
    ...table(
      `${DATA}.trades`,
      'id',
      trades,
      'MergeTree',
      `PARTITION BY substring(date, 1, 7) ORDER BY (${listSortColumns('trades', order).join(', ')})
       SETTINGS index_granularity = ${granularityFor(scanLimit)}`,
    ),
    // Each query of the latest view needs the latest date: this table finds it without reading trades.
    ...table(
      TIMES,
      'date',
      ['date String', 'first_time AggregateFunction(min, String)', 'last_time AggregateFunction(max, String)'],
      'AggregatingMergeTree',
      'ORDER BY date',
    ),
    `CREATE MATERIALIZED VIEW IF NOT EXISTS ${TIMES}_feed${on} TO ${TIMES}${local} AS
     ${selectTimes(`${DATA}.trades${local}`)}`,
    ...table(SERVER_TABLES.chains, 'symbol', chains, 'MergeTree', `ORDER BY (${CHAIN_SORT.join(', ')})`),
    view(ALL_TRADES, `SELECT ${names} FROM ${DATA}.trades WHERE time <= ${newest} AND time >= ${oldest} AND ${first}`),
    // One row for each date with visible trades.
    view(
      'dates',
      `SELECT date, first AS first_time, last AS last_time FROM (
         SELECT date, minMerge(first_time) AS first, maxMerge(last_time) AS last FROM ${TIMES} GROUP BY date)
       WHERE first <= ${newest} AND date >= substring(${oldest}, 1, 10) AND ${first}`,
    ),
    view(
      LATEST_TRADES,
      `SELECT ${names} FROM ${VISIBLE}.${ALL_TRADES} WHERE date = (SELECT max(date) FROM ${VISIBLE}.dates)`,
    ),
  ];
}

/** SQL of the exchange's wall clock, `seconds` from the server's present. */
function boundSql(seconds: number): string {
  return `toString(toTimeZone(now() + toInt32(${seconds}), ${quoteString(EXCHANGE_TIME_ZONE)}))`;
}
