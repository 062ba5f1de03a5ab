/**
 * That the state folder can be used, asked before anything is opened: otherwise the first of many files would tell it, in
 * words of its own. It does not look for room on the disk, which may end at any time and is told where it happens.
 */
import { constants } from 'node:fs';
import { access, mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { describeError, Fault } from '../core/errors.ts';
import { makeFolder } from '../core/folder.ts';

/** Makes the folder where there is none. Idempotent. @throws Fault `STATE_UNUSABLE` */
export async function assertStateFolder(path: string): Promise<void> {
  try {
    await makeFolder(path);
    await access(path, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (cause) {
    throw new Fault(
      'STATE_UNUSABLE',
      `the state folder ${path} cannot be made, or not be written: ${describeError(cause)}`,
      {
        cause,
        hint: 'Let FLOWDROP_STATE_DIR be a folder on a local disk in which this user may write, or a name at which one can be made; no file and no broken link may have the name.',
      },
    );
  }
}

/** What is older was left by a command that was killed: a folder in use gets and loses files all the time. */
const STALE_AFTER_MS = 24 * 3_600_000;
const SCRATCH = 'verify-';

/** A folder for the files of one command; the caller removes it. Removes those that killed commands left. */
export async function makeScratchFolder(stateDir: string, nowMs: number): Promise<string> {
  for (const name of (await readdir(stateDir)).filter((one) => one.startsWith(SCRATCH))) {
    const path = join(stateDir, name);
    const found = await stat(path).catch(() => undefined);
    // Ignorable: another command may remove it at the same moment, and else the next one does.
    if (found && nowMs - found.mtimeMs > STALE_AFTER_MS) await rm(path, { recursive: true, force: true });
  }
  return await mkdtemp(join(stateDir, SCRATCH));
}
