/**
 * A real ClickHouse server for the tests: Debian's, which `clickhouse-start.sh` installs (as root on Debian) and runs. It
 * is older than what flowdrop supports, and has its reader from `clickhouse-users.xml`. Each test file has one of its own, in a temporary
 * folder, on loopback, and stops it. Invariant: in CI there is no way without one.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type ServerStart, startExternal } from './external.ts';
import { findFreePort, findObstacle, hasEnded, killServer } from './server-process.ts';

export interface ClickHouseServer {
  readonly version: string;
  /** An administrator. */
  readonly adminUrl: string;
  /** The service's user, in the database of its views. */
  readonly readerUrl: string;
  stop(): Promise<void>;
}

const SCRIPT = fileURLToPath(new URL('clickhouse-start.sh', import.meta.url));
/** Installing takes the most of it. */
const START_TIMEOUT_MS = 240_000;
/** Between two tries to reach a server that starts. */
const POLL_MS = 50;

const ADMIN = { headers: { 'x-clickhouse-user': 'admin' } };

/** @throws when `CI` is set and there is no server: CI skips nothing */
export async function startClickHouse(): Promise<ServerStart<ClickHouseServer>> {
  return await startExternal('a ClickHouse server', findOrStart);
}

async function findOrStart(): Promise<ServerStart<ClickHouseServer>> {
  const reason = await findObstacle('clickhouse-start.sh', '/usr/sbin/clickhouse-server', 'clickhouse-server');
  if (reason !== undefined) return { server: undefined, reason };
  const folder = await mkdtemp(join(tmpdir(), 'flowdrop-test-clickhouse-'));
  try {
    const server = await launchClickHouse(folder, await findFreePort());
    const stop = async () => {
      await server.kill();
      await rm(folder, { recursive: true, force: true });
    };
    return { server: { ...server, stop }, reason: undefined };
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    return { server: undefined, reason: String(error) };
  }
}

export interface LaunchedServer extends Omit<ClickHouseServer, 'stop'> {
  kill(): Promise<void>;
}

/** Runs a server on a folder, which stays. @param more further elements of its configuration */
export async function launchClickHouse(folder: string, port: number, more = ''): Promise<LaunchedServer> {
  const child = spawn(SCRIPT, [folder, String(port), more], { stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  child.stderr.on('data', (data: Buffer) => {
    said += data.toString();
  });
  await untilReady(child, port).catch(async (error: unknown) => {
    await killServer(child);
    throw new Error(`clickhouse-start.sh failed: ${String(error)}: ${said.trim()}`);
  });
  const address = `127.0.0.1:${port}`;
  const version = await (await fetch(`http://${address}/?query=SELECT+version()`, ADMIN)).text();
  return {
    version: version.trim(),
    adminUrl: `http://admin:@${address}/default`,
    readerUrl: `http://flowdrop:change-me@${address}/flowdrop`,
    kill: () => killServer(child),
  };
}

async function untilReady(child: ChildProcess, port: number): Promise<void> {
  const end = performance.now() + START_TIMEOUT_MS;
  while (performance.now() < end) {
    if (hasEnded(child)) throw new Error('it has ended');
    const isReady = await fetch(`http://127.0.0.1:${port}/ping`).then(
      (response) => response.ok,
      () => false,
    );
    if (isReady) return;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  throw new Error('it does not answer');
}
