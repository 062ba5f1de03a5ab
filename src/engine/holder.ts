/**
 * Whose a data path of the embedded engine is: by the status file in it, which the engine locks while it is open and which
 * stays behind after a kill. It takes and frees nothing.
 */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { pid } from 'node:process';
import { readFileIfExists } from '../core/atomic-file.ts';
import { Fault } from '../core/errors.ts';
import { isProcessAlive } from '../core/liveness.ts';

const STATUS_FILE = 'status';

/** Why a data path does not open: who has it. */
export async function describeBusy(path: string, cause?: unknown): Promise<Fault> {
  const holder = await findHolder(path);
  const who = holder === undefined ? 'another process, perhaps in another container,' : `another process (${holder})`;
  return new Fault('ENGINE_BUSY', `${who} is using ${path}`, {
    kind: 'active',
    cause,
    hint: 'Wait for the other run to finish, or stop it.',
  });
}

/** Whether another process has it open; what this one has open the engine itself may share. */
export async function isHeldElsewhere(path: string): Promise<boolean> {
  return (await readHolder(path)) !== pid && (await readLock(path)) === 'held';
}

/** Of a path that did not open: who cannot be told from a holder is taken for one. */
export async function isProbablyHeld(path: string): Promise<boolean> {
  return (await findHolder(path)) !== undefined || (await readLock(path)) !== 'free';
}

/** The running process that has the path open. The engine tells the reason of its refusal only to its own stderr. */
async function findHolder(path: string): Promise<number | undefined> {
  const holder = await readHolder(path);
  return holder !== pid && isProcessAlive(holder) ? holder : undefined;
}

/** Number of the process that opened the path last; not a number where none did. */
async function readHolder(path: string): Promise<number> {
  const status = await readFileIfExists(join(path, STATUS_FILE));
  return Number(/^PID: (\d+)/m.exec(status ?? '')?.[1]);
}

/** Exit code of `flock` when somebody else has the lock. */
const LOCKED = 75;

/**
 * Whether the status file is locked: by a process of another container too, whose number says nothing here. A machine
 * without `flock` cannot tell; a path that does not open and has a status file then counts as held, because taking it for
 * broken would cost the rows of a running process.
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
