/** What the tests' own servers have in common: a free port on loopback, and an end without ceremony. */
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { access } from 'node:fs/promises';
import { createServer } from 'node:net';

export async function findFreePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const address = probe.address();
  probe.close();
  await once(probe, 'close');
  if (address === null || typeof address === 'string') throw new Error('no TCP port');
  return address.port;
}

/** Nothing of it is kept, so it need not end in good order. */
export async function killServer(child: ChildProcess): Promise<void> {
  if (hasEnded(child)) return;
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
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
