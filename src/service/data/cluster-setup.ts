/**
 * The service's tables on a cluster of ClickHouse servers: what its configuration must have, and statements that run on
 * all nodes. A node that is away gets them from the cluster's queue when it is back, so it is no failure. The
 * statements themselves are in `server-setup.ts`.
 */
import { describeError, Fault } from '../../core/errors.ts';
import { isAtLeast, readCapabilities } from '../../engine/capabilities.ts';
import type { Engine } from '../../engine/engine.ts';
import { CLICKHOUSE_CODES, EngineFault } from '../../engine/engine-fault.ts';
import { type EngineSettings, quoteString } from '../../engine/literal.ts';
import { LOCAL, SERVER_TABLES, type ServerPlan, setUpServer } from './server-setup.ts';

/** Waiting for all nodes to run a statement, seconds; and once one of them was away. */
const PATIENCE_SECONDS = 30;
const HURRY_SECONDS = 2;

/** From this version servers have `clusterAllReplicas`. */
const ALL_REPLICAS_VERSION = [20, 4] as const;

/**
 * An administrator's settings. Rows reach their shards before the statement ends; and all statements use the same
 * replica of a shard, in the order of the configuration, and none that lags: a load finds the rows of the load before.
 */
const ADMIN_SETTINGS = {
  insert_distributed_sync: 1,
  load_balancing: 'in_order',
  max_replica_delay_for_distributed_queries: 1,
  fallback_to_stale_replicas_for_distributed_queries: 0,
} as const;

type OpenAdmin = (settings: EngineSettings) => Promise<Engine>;

/** Opens an administrator's connection to a node of a cluster. */
export async function openClusterAdmin(open: OpenAdmin, waitSeconds = PATIENCE_SECONDS): Promise<Engine> {
  return await open({ ...ADMIN_SETTINGS, distributed_ddl_task_timeout: waitSeconds });
}

/**
 * Checks the configuration and sets up every node.
 * @param onAway called once if nodes did not answer
 * @throws Fault `CLUSTER_NOT_READY` (kind `usage`), EngineFault
 */
export async function setUpCluster(
  admin: Engine,
  plan: ServerPlan & { readonly cluster: string },
  { open, onAway }: { readonly open: OpenAdmin; readonly onAway: (cause: EngineFault) => void },
): Promise<void> {
  const { cluster } = plan;
  await assertMacros(admin, cluster);
  await assertOwnTables(admin);
  let hurried: Engine | undefined;
  const run = async (statement: string) => {
    try {
      await (hurried ?? admin).command(statement);
    } catch (cause) {
      if (!(cause instanceof EngineFault)) throw cause;
      if (cause.clickhouseCode !== CLICKHOUSE_CODES.TIMEOUT_EXCEEDED) throw explain(cluster, cause);
      if (hurried === undefined) onAway(cause);
      hurried ??= await openClusterAdmin(open, HURRY_SECONDS);
    }
  };
  try {
    await setUpServer(admin, plan, run);
  } finally {
    await hurried?.close();
  }
}

/**
 * The macros decide which tables are replicas of each other. If two shards had the same, each row would be read twice;
 * one node of each shard shows that, on newer servers every node.
 */
async function assertMacros(admin: Engine, cluster: string): Promise<void> {
  const places = await admin.rows<{ cluster: string; shard: number }>(
    'SELECT cluster, shard_num AS shard FROM system.clusters',
  );
  const own = places.filter((place) => place.cluster === cluster);
  if (own.length === 0) {
    const names = [...new Set(places.map((place) => place.cluster))].join(', ') || 'none';
    throw notReady(`the server knows no cluster ${cluster}; its clusters are ${names}`);
  }
  const { version } = await readCapabilities(admin);
  const isWhole = isAtLeast(version, ...ALL_REPLICAS_VERSION);
  const read = isWhole ? 'clusterAllReplicas' : 'cluster';
  const macros = await admin
    .rows<{ macro: string; substitution: string }>(
      `SELECT macro, substitution FROM ${read}(${quoteString(cluster)}, system.macros)
       SETTINGS skip_unavailable_shards = 1`,
    )
    .catch((cause: unknown) => {
      throw cause instanceof EngineFault ? explain(cluster, cause) : cause;
    });
  const shards = new Set(own.map(({ shard }) => shard)).size;
  const valuesOf = (name: string) => macros.filter(({ macro }) => macro === name).map((row) => row.substitution);
  // Nodes that are away show nothing.
  const nodes = isWhole ? own.length : shards;
  for (const name of ['shard', 'replica']) {
    const missing = nodes - valuesOf(name).length;
    if (valuesOf(name).length === 0) throw notReady(`nodes of ${cluster} have no macro {${name}}`);
    if (missing < 0) throw notReady(`nodes of ${cluster} have several macros {${name}}`);
  }
  if (valuesOf('shard').length !== valuesOf('replica').length)
    throw notReady(`some nodes of ${cluster} lack the macro {shard} or {replica}`);
  const found = new Set(valuesOf('shard'));
  if (found.size > shards || (valuesOf('shard').length === nodes && found.size < shards)) {
    throw notReady(
      `${cluster} has ${shards} shards, but its nodes have ${found.size} values of the macro {shard}: ${[...found].join(', ')}`,
    );
  }
}

/** A table of the same name that is not over ours would be read and filled past them. */
async function assertOwnTables(admin: Engine): Promise<void> {
  const { trades } = SERVER_TABLES.load;
  const [database = '', name = ''] = trades.split('.');
  const [found] = await admin.rows<{ engine: string; definition: string }>(
    `SELECT engine, engine_full AS definition FROM system.tables
     WHERE database = ${quoteString(database)} AND name = ${quoteString(name)}`,
  );
  if (found === undefined || (found.engine === 'Distributed' && found.definition.includes(`${name}${LOCAL}`))) return;
  throw new Fault('CLUSTER_NOT_READY', `${trades} exists and is not the service's: its engine is ${found.engine}`, {
    kind: 'usage',
    hint: 'With tables of your own leave --cluster out. Otherwise rename the table, start again, and insert its rows into the new one.',
  });
}

function explain(cluster: string, cause: EngineFault): Fault {
  const lost =
    cause.clickhouseCode === CLICKHOUSE_CODES.REPLICA_IS_ALREADY_EXIST
      ? ' If a node lost its disk, remove its replica first (SYSTEM DROP REPLICA); if not, two nodes have the same macros.'
      : '';
  return notReady(`the tables cannot be created on cluster ${cluster}: ${describeError(cause)}`, lost, cause);
}

function notReady(message: string, more = '', cause?: EngineFault): Fault {
  return new Fault('CLUSTER_NOT_READY', message, {
    kind: 'usage',
    cause,
    hint: `Each node's configuration needs the cluster in <remote_servers>, <zookeeper>, <distributed_ddl>, and <macros><shard>1</shard><replica>a</replica></macros> with its own values.${more} See "Over a cluster" in docs/service.md.`,
  });
}
