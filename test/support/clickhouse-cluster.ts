/**
 * A real cluster for the tests: two shards of two replicas, each one of Debian's ClickHouse servers, and Debian's
 * ZooKeeper. It shows replication, `ON CLUSTER` and `Distributed`; Keeper and a network it does not.
 */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { findClickHouseObstacle, type LaunchedServer, launchClickHouse } from './clickhouse-server.ts';
import type { ServerStart } from './external.ts';
import { findFreePort, findObstacle, killServer, launchServer, readGreeting, startServer } from './server-process.ts';

/** The cluster's name in the configuration of every node. */
export const CLUSTER = 'main';

export interface ClickHouseCluster {
  /** Two shards of two replicas: 1a, 1b, 2a, 2b. */
  readonly nodes: readonly [LaunchedServer, LaunchedServer, LaunchedServer, LaunchedServer];
  stop(): Promise<void>;
}

const PLACES = [
  ['1', 'a'],
  ['1', 'b'],
  ['2', 'a'],
  ['2', 'b'],
] as const;

/** A port may be taken between its choice and the start, and these old servers do not survive a ZooKeeper that hangs up. */
const STARTS = 3;

/**
 * @param macros of a node instead of its own, to try what a wrong configuration does
 * @throws when `CI` is set and there is no cluster: CI skips nothing
 */
export async function startCluster({ macros = macrosXml } = {}): Promise<ServerStart<ClickHouseCluster>> {
  const obstacle =
    (await findClickHouseObstacle()) ??
    (await findObstacle('zookeeper-start.sh', '/usr/share/java/zookeeper.jar', 'zookeeper'));
  return await startServer('a ClickHouse cluster', obstacle, async (folder) => {
    for (let tries = 1; ; tries += 1) {
      try {
        return await start(join(folder, String(tries)), macros);
      } catch (error) {
        if (tries === STARTS) throw error;
      }
    }
  });
}

async function start(folder: string, macros: typeof macrosXml): Promise<ClickHouseCluster> {
  const ends: (() => Promise<void>)[] = [];
  const stop = async () => {
    for (const end of ends.splice(0).reverse()) await end();
  };
  try {
    const keeper = await findFreePort();
    // It listens a moment before it serves, and these old servers do not survive to be hung up on.
    const isReady = async () => (await readGreeting(keeper, 'srvr')).includes('Mode: standalone');
    const child = await launchServer('zookeeper-start.sh', [join(folder, 'zookeeper'), String(keeper)], isReady);
    ends.push(() => killServer(child));
    const ports: NodePorts[] = [];
    for (const _place of PLACES)
      ports.push({ http: await findFreePort(), tcp: await findFreePort(), interserver: await findFreePort() });
    const launch = async ([shard, replica]: (typeof PLACES)[number], index: number) => {
      const own = ports[index] as NodePorts;
      const place = join(folder, `${shard}${replica}`);
      await mkdir(place, { recursive: true });
      const parts = [clusterXml(ports, keeper), portsXml(own), macros(shard, replica)];
      return await launchClickHouse(place, own.http, parts.join('\n'));
    };
    const launched = await Promise.allSettled(PLACES.map(launch));
    const nodes = launched.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
    for (const node of nodes) ends.push(() => node.kill());
    const failed = launched.find((one) => one.status === 'rejected');
    if (failed) throw failed.reason;
    return { nodes: nodes as unknown as ClickHouseCluster['nodes'], stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

interface NodePorts {
  readonly http: number;
  readonly tcp: number;
  readonly interserver: number;
}

export function macrosXml(shard: string, replica: string): string {
  return `<macros><shard>${shard}</shard><replica>${replica}</replica></macros>`;
}

function portsXml({ tcp, interserver }: NodePorts): string {
  return `<tcp_port>${tcp}</tcp_port><interserver_http_port>${interserver}</interserver_http_port>
  <interserver_http_host>127.0.0.1</interserver_http_host>`;
}

function clusterXml(ports: readonly NodePorts[], keeper: number): string {
  const shards = ['1', '2'].map((shard) => {
    const replicas = ports
      .filter((_port, index) => PLACES[index]?.[0] === shard)
      .map(({ tcp }) => `<replica><host>127.0.0.1</host><port>${tcp}</port><user>admin</user></replica>`);
    return `<shard><internal_replication>true</internal_replication>${replicas.join('')}</shard>`;
  });
  return `<remote_servers><${CLUSTER}>${shards.join('')}</${CLUSTER}></remote_servers>
  <zookeeper><node><host>127.0.0.1</host><port>${keeper}</port></node><session_timeout_ms>5000</session_timeout_ms></zookeeper>
  <distributed_ddl><path>/clickhouse/task_queue/ddl</path></distributed_ddl>`;
}
