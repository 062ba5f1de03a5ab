/**
 * Processes as the operating system lists them, from `/proc`: a service's engine processes, their environment, and their
 * end. Invariant: nothing is found by name, so that no one else's process is ever meant.
 */
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { expect, vi } from 'vitest';

export const hasProcesses = existsSync('/proc/self/stat');
if (!hasProcesses) console.warn('SKIPPED: there is no /proc here; the tests that look at processes need it');

/** An ended process that its parent has not heard of. */
const ZOMBIE = 'Z';

/** Numbers of the processes that `pid` has started and that have not ended. */
export async function listChildren(pid: number): Promise<readonly number[]> {
  const all = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number);
  const parents = await Promise.all(all.map(async (child) => ({ child, stat: await readStat(child) })));
  return parents.flatMap(({ child, stat }) => (stat?.parent === pid && stat.state !== ZOMBIE ? [child] : []));
}

/** Waits until none of them runs. */
export async function untilEnded(pids: readonly number[], timeoutMs = 10_000): Promise<void> {
  await vi.waitFor(async () => expect(await listRunning(pids)).toEqual([]), { timeout: timeoutMs, interval: 20 });
}

export async function listRunning(pids: readonly number[]): Promise<readonly number[]> {
  const stats = await Promise.all(pids.map(readStat));
  return pids.filter((_pid, at) => stats[at] !== undefined && stats[at]?.state !== ZOMBIE);
}

/** The environment that the process was started with. */
export async function readEnvironment(pid: number): Promise<Readonly<Record<string, string>>> {
  const entries = (await readFile(`/proc/${pid}/environ`, 'utf8')).split('\0').filter((entry) => entry !== '');
  return Object.fromEntries(entries.map((entry) => [entry.split('=')[0] ?? '', entry.slice(entry.indexOf('=') + 1)]));
}

/** Memory of the process that is in RAM, megabytes: its own and what it shares, without its children. */
export async function readResidentMb(pid: number): Promise<number> {
  const [, kilobytes] = /^VmRSS:\s+(\d+) kB$/m.exec(await readFile(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kilobytes) / 1024;
}

async function readStat(pid: number): Promise<{ readonly state: string; readonly parent: number } | undefined> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined);
  // The second field is the program's name in parentheses, which may hold any character.
  const [state = '', parent] = text?.slice(text.lastIndexOf(')') + 2).split(' ') ?? [];
  return text === undefined ? undefined : { state, parent: Number(parent) };
}
