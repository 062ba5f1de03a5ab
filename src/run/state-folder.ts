/**
 * That the state folder can be used, asked before anything is opened: otherwise the first of many files would tell it, in
 * words of its own. It does not look for room on the disk, which may end at any time and is told where it happens.
 */
import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
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
