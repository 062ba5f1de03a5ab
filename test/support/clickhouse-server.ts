/**
 * A real ClickHouse server for the tests: Debian's, which `clickhouse-start.sh` runs. It is older than what flowdrop
 * supports, and has its reader from `clickhouse-users.xml`.
 */
import type { ServerStart } from './external.ts';
import { findFreePort, findObstacle, killServer, launchServer, startServer } from './server-process.ts';

export interface ClickHouseServer {
  readonly version: string;
  /** An administrator. */
  readonly adminUrl: string;
  /** The service's user, in the database of its views. */
  readonly readerUrl: string;
  stop(): Promise<void>;
}

const ADMIN = { headers: { 'x-clickhouse-user': 'admin' } };

/** @throws when `CI` is set and there is no server: CI skips nothing */
export async function startClickHouse(): Promise<ServerStart<ClickHouseServer>> {
  return await startServer('a ClickHouse server', await findClickHouseObstacle(), async (folder) => {
    const server = await launchClickHouse(folder, await findFreePort());
    return { ...server, stop: server.kill };
  });
}

export async function findClickHouseObstacle(): Promise<string | undefined> {
  return await findObstacle('clickhouse-start.sh', '/usr/sbin/clickhouse-server', 'clickhouse-server');
}

export interface LaunchedServer extends Omit<ClickHouseServer, 'stop'> {
  kill(): Promise<void>;
}

/** Runs a server on a folder, which stays. @param more further elements of its configuration */
export async function launchClickHouse(folder: string, port: number, more = ''): Promise<LaunchedServer> {
  const address = `127.0.0.1:${port}`;
  const isReady = async () =>
    await fetch(`http://${address}/ping`).then(
      (response) => response.ok,
      () => false,
    );
  const child = await launchServer('clickhouse-start.sh', [folder, String(port), more], isReady);
  const version = await (await fetch(`http://${address}/?query=SELECT+version()`, ADMIN)).text();
  return {
    version: version.trim(),
    adminUrl: `http://admin:@${address}/default`,
    readerUrl: `http://flowdrop:change-me@${address}/flowdrop`,
    kill: () => killServer(child),
  };
}
