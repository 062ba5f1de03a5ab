/**
 * Finds out which process holds a data path of the embedded engine, from the status file in it. The engine locks that
 * file while it is open; the file stays behind after a kill. This module neither locks nor unlocks anything.
 */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { pid } from 'node:process';
import { readFileIfExists } from '../core/atomic-file.ts';
import { Fault } from '../core/errors.ts';
import { isProcessAlive } from '../core/liveness.ts';

const STATUS_FILE = 'status';

/** Explains why a data path does not open: names its holder. */
export async function describeBusy(path: string, cause?: unknown): Promise<Fault> {
  const holder = await findHolder(path);
  const who = holder === undefined ? 'another process, perhaps in another container,' : `another process (${holder})`;
  return new Fault('ENGINE_BUSY', `${who} is using ${path}`, {
    kind: 'active',
    cause,
    hint: 'Wait for the other run to finish, or stop it.',
  });
}

/** Whether another process has the path open; the engine itself may share a path that this process has open. */
export async function isHeldElsewhere(path: string): Promise<boolean> {
  return (await readHolder(path)) !== pid && (await readLock(path)) === 'held';
}

/** For a path that did not open: if the lock cannot be checked, it counts as held. */
export async function isProbablyHeld(path: string): Promise<boolean> {
  return (await findHolder(path)) !== undefined || (await readLock(path)) !== 'free';
}

/** The running process that has the path open. The engine reports why it refuses a path only on its own stderr. */
async function findHolder(path: string): Promise<number | undefined> {
  const holder = await readHolder(path);
  return holder !== pid && isProcessAlive(holder) ? holder : undefined;
}

/** Id of the process that last opened the path; NaN if there was none. */
async function readHolder(path: string): Promise<number> {
  const status = await readFileIfExists(join(path, STATUS_FILE));
  return Number(/^PID: (\d+)/m.exec(status ?? '')?.[1]);
}

/** Exit code of `flock` if another process has the lock. */
const LOCKED = 75;

/**
 * Whether the status file is locked, possibly by a process of another container, whose id means nothing here. A machine
 * without `flock` cannot tell. A path that does not open and has a status file then counts as held, because treating it
 * as broken would cost the rows of a running process.
 */
async function readLock(path: string): Promise<'free' | 'held' | 'unknown'> {
  const status = join(path, STATUS_FILE);
  if ((await readFileIfExists(status)) === undefined) return 'free';
  return await new Promise((resolve) => {
    execFile('flock', ['-n', '-E', String(LOCKED), status, 'true'], (error) => {
      resolve(error === null ? 'free' : error.code === LOCKED ? 'held' : 'unknown');
    });
  });
}
