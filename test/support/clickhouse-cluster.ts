/**
 * A real cluster for the tests: two shards of two replicas, each one of Debian's ClickHouse servers, and Debian's
 * ZooKeeper, all on loopback and in temporary folders. Each test file has one of its own and stops it. It shows
 * replication, `ON CLUSTER` and `Distributed`; Keeper and a network it does not.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { createConnection } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type LaunchedServer, launchClickHouse } from './clickhouse-server.ts';
import { type ServerStart, startExternal } from './external.ts';
import { findFreePort, findObstacle, hasEnded, killServer } from './server-process.ts';

/** The cluster's name in the configuration of every node. */
export const CLUSTER = 'main';

export interface ClickHouseCluster {
  /** Two shards of two replicas: 1a, 1b, 2a, 2b. */
  readonly nodes: readonly [LaunchedServer, LaunchedServer, LaunchedServer, LaunchedServer];
  stop(): Promise<void>;
}

export interface ClusterOptions {
  /** Macros of a node instead of its own, to try what a wrong configuration does. */
  readonly macros?: (shard: string, replica: string) => string;
}

const SCRIPT = fileURLToPath(new URL('zookeeper-start.sh', import.meta.url));
const PLACES = [
  ['1', 'a'],
  ['1', 'b'],
  ['2', 'a'],
  ['2', 'b'],
] as const;
/** Installing takes the most of it. */
const START_TIMEOUT_MS = 240_000;
/** Between two tries to reach a server that starts. */
const POLL_MS = 50;

/** @throws when `CI` is set and there is no cluster: CI skips nothing */
export async function startCluster(options: ClusterOptions = {}): Promise<ServerStart<ClickHouseCluster>> {
  return await startExternal('a ClickHouse cluster', () => findOrStart(options));
}

/** A port may be taken between its choice and the start, and these old servers do not survive a ZooKeeper that hangs up. */
const STARTS = 3;

async function findOrStart(options: ClusterOptions): Promise<ServerStart<ClickHouseCluster>> {
  const reason =
    (await findObstacle('clickhouse-start.sh', '/usr/sbin/clickhouse-server', 'clickhouse-server')) ??
    (await findObstacle('zookeeper-start.sh', '/usr/share/java/zookeeper.jar', 'zookeeper'));
  if (reason !== undefined) return { server: undefined, reason };
  for (let tries = 1; ; tries += 1) {
    try {
      return { server: await start(options), reason: undefined };
    } catch (error) {
      if (tries === STARTS) return { server: undefined, reason: String(error) };
    }
  }
}

async function start(options: ClusterOptions): Promise<ClickHouseCluster> {
  const folder = await mkdtemp(join(tmpdir(), 'flowdrop-test-cluster-'));
  const ends: (() => Promise<void>)[] = [() => rm(folder, { recursive: true, force: true })];
  const stop = async () => {
    for (const end of ends.splice(0).reverse()) await end();
  };
  try {
    const keeper = await findFreePort();
    const child = await launchKeeper(join(folder, 'zookeeper'), keeper);
    ends.push(() => killServer(child));
    const ports: NodePorts[] = [];
    for (const _place of PLACES)
      ports.push({ http: await findFreePort(), tcp: await findFreePort(), interserver: await findFreePort() });
    const launch = async ([shard, replica]: (typeof PLACES)[number], index: number) => {
      const own = ports[index] as NodePorts;
      const macros = options.macros?.(shard, replica) ?? macrosXml(shard, replica);
      const place = join(folder, `${shard}${replica}`);
      await mkdir(place);
      return await launchClickHouse(place, own.http, [clusterXml(ports, keeper), portsXml(own), macros].join('\n'));
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

async function launchKeeper(folder: string, port: number): Promise<ChildProcess> {
  await mkdir(folder);
  const child = spawn(SCRIPT, [folder, String(port)], { stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  child.stderr.on('data', (data: Buffer) => {
    said = (said + data.toString()).slice(-2_000);
  });
  const end = performance.now() + START_TIMEOUT_MS;
  while (performance.now() < end && !hasEnded(child)) {
    if (await serves(port)) return child;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  await killServer(child);
  throw new Error(`zookeeper-start.sh failed: ${said.trim()}`);
}

/** Whether it serves: it listens a moment before, and these old servers do not survive to be hung up on. */
async function serves(port: number): Promise<boolean> {
  const socket = createConnection(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    socket.write('srvr');
    const [data] = (await once(socket, 'data')) as [Buffer];
    return data.toString().includes('Mode: standalone');
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
