/**
 * A real Redis for the tests: Debian's, which `redis-start.sh` installs (as root on Debian) and runs. Each test file has
 * one of its own, in a temporary folder, on loopback, and stops it. Invariant: in CI there is no way without one.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createConnection } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type ServerStart, startExternal } from './external.ts';
import { findFreePort, findObstacle, hasEnded, killServer } from './server-process.ts';

export interface RedisServer {
  readonly port: number;
  /** With the password. */
  readonly url: string;
  readonly password: string;
  /** Ends it by SIGKILL; whatever it knew is lost, unless it keeps it. */
  kill(): Promise<void>;
  /** Starts it again at the same address, empty unless it kept what it knew. */
  revive(): Promise<void>;
  stop(): Promise<void>;
}

const SCRIPT = fileURLToPath(new URL('redis-start.sh', import.meta.url));
const PROGRAM = '/usr/bin/redis-server';
/** Installing takes the most of it. */
const START_TIMEOUT_MS = 240_000;
/** Between two tries to reach a server that starts. */
const POLL_MS = 20;

export interface RedisOptions {
  /** Whether it writes what it knows to its disk (`appendonly`), as a server that daemons share should. */
  readonly isKept?: boolean;
}

/** @throws when `CI` is set and there is no server: CI skips nothing */
export async function startRedis(options: RedisOptions = {}): Promise<ServerStart<RedisServer>> {
  return await startExternal('a Redis server', () => findOrStart(options));
}

async function findOrStart({ isKept = false }: RedisOptions): Promise<ServerStart<RedisServer>> {
  const reason = await findObstacle('redis-start.sh', PROGRAM, 'redis-server');
  if (reason !== undefined) return { server: undefined, reason };
  const folder = await mkdtemp(join(tmpdir(), 'flowdrop-test-redis-'));
  const port = await findFreePort();
  const password = 'redis-secret-4711';
  try {
    const start = () => launch([folder, String(port), password, isKept ? 'yes' : 'no'], port);
    let child = await start();
    const server: RedisServer = {
      port,
      url: `redis://:${password}@127.0.0.1:${port}`,
      password,
      kill: () => killServer(child),
      async revive() {
        child = await start();
      },
      async stop() {
        await killServer(child);
        await rm(folder, { recursive: true, force: true });
      },
    };
    return { server, reason: undefined };
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    return { server: undefined, reason: String(error) };
  }
}

async function launch(args: readonly string[], port: number): Promise<ChildProcess> {
  const child = spawn(SCRIPT, args, { stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  child.stderr.on('data', (data: Buffer) => {
    said += data.toString();
  });
  try {
    await untilReady(child, port);
    return child;
  } catch (error) {
    await killServer(child);
    throw new Error(`redis-start.sh failed: ${String(error)}: ${said.trim()}`);
  }
}

async function untilReady(child: ChildProcess, port: number): Promise<void> {
  const end = performance.now() + START_TIMEOUT_MS;
  while (performance.now() < end) {
    if (hasEnded(child)) throw new Error('it has ended');
    if (await answers(port)) return;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  throw new Error('it does not answer');
}

/** Whether something there speaks Redis: without the password it says so. */
async function answers(port: number): Promise<boolean> {
  const socket = createConnection(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    socket.write('PING\r\n');
    const [data] = (await once(socket, 'data')) as [Buffer];
    return /^(\+PONG|-NOAUTH)/.test(data.toString());
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
