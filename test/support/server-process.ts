/**
 * What the tests' own servers have in common: a free port on loopback, a start, and an end without ceremony. Each test file
 * has servers of its own. Their scripts install what is missing, as root on Debian.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { access, mkdtemp, rm } from 'node:fs/promises';
import { createConnection, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type ServerStart, startExternal } from './external.ts';

/** Installing takes the most of it. */
const START_TIMEOUT_MS = 240_000;
/** Between two tries to reach a server that starts. */
const POLL_MS = 20;
/** Of what a start script complains about. */
const TAIL = 2_000;

export async function findFreePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const address = probe.address();
  probe.close();
  await once(probe, 'close');
  if (address === null || typeof address === 'string') throw new Error('no TCP port');
  return address.port;
}

/** @returns whether it still ran */
export async function endProcess(child: ChildProcess, signal: NodeJS.Signals): Promise<boolean> {
  if (hasEnded(child)) return false;
  const ended = once(child, 'exit');
  child.kill(signal);
  await ended;
  return true;
}

/** Nothing of it is kept, so it need not end in good order. */
export async function killServer(child: ChildProcess): Promise<void> {
  await endProcess(child, 'SIGKILL');
}

export function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}

/** Why a start script cannot have its program here, `undefined` when it can: it installs what is missing from Debian. */
export async function findObstacle(script: string, program: string, packageName: string): Promise<string | undefined> {
  const exists = (path: string) =>
    access(path).then(
      () => true,
      () => false,
    );
  if (process.platform !== 'linux') return `${script} works on Linux only`;
  if (await exists(program)) return undefined;
  if (process.getuid?.() !== 0) return `${script} installs ${packageName} as root`;
  return (await exists('/usr/bin/apt-get')) ? undefined : `${script} needs apt-get`;
}

/**
 * Starts a server in a temporary folder, which goes with it.
 * @param obstacle why it cannot be had here, if so
 * @throws when `CI` is set and there is no server: CI skips nothing
 */
export async function startServer<Server extends { stop(): Promise<void> }>(
  what: string,
  obstacle: string | undefined,
  start: (folder: string) => Promise<Server>,
): Promise<ServerStart<Server>> {
  return await startExternal<Server>(what, async () => {
    if (obstacle !== undefined) return { server: undefined, reason: obstacle };
    const folder = await mkdtemp(join(tmpdir(), 'flowdrop-test-server-'));
    // The children of one that was killed end when they find that it has gone, and may write until then.
    const remove = () => rm(folder, { recursive: true, force: true, maxRetries: 10 });
    try {
      const server = await start(folder);
      const stop = () => server.stop().finally(remove);
      return { server: { ...server, stop }, reason: undefined };
    } catch (error) {
      await remove();
      return { server: undefined, reason: String(error) };
    }
  });
}

/** Runs a start script of this folder until its server can be used. @throws with what the script said */
export async function launchServer(
  script: string,
  args: readonly string[],
  isReady: () => Promise<boolean>,
): Promise<ChildProcess> {
  const path = fileURLToPath(new URL(script, import.meta.url));
  const child = spawn(path, args, { stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  child.stderr.on('data', (data: Buffer) => {
    said = (said + data.toString()).slice(-TAIL);
  });
  const end = performance.now() + START_TIMEOUT_MS;
  while (performance.now() < end && !hasEnded(child)) {
    if (await isReady()) return child;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  const why = hasEnded(child) ? 'it has ended' : 'it does not answer';
  await killServer(child);
  throw new Error(`${script} failed: ${why}: ${said.trim()}`);
}

/** What a server answers to a first word, or says without one; nothing while nobody listens. */
export async function readGreeting(port: number, word = ''): Promise<string> {
  const socket = createConnection(port, '127.0.0.1');
  try {
    socket.write(word);
    for await (const data of socket) return String(data);
    return '';
  } catch {
    return '';
  } finally {
    socket.destroy();
  }
}
