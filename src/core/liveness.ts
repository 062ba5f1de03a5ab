/** Whether a process of this machine is there. What it is, and whether its number was given anew, this does not tell. */
import { kill } from 'node:process';
import { hasErrorCode } from './atomic-file.ts';

/** @param processId `false` also for what is no number of a process: 0 and negative numbers name groups */
export function isProcessAlive(processId: number): boolean {
  if (!Number.isSafeInteger(processId) || processId <= 0) return false;
  try {
    kill(processId, 0); // Signal 0 sends nothing: it only asks whether the process is there.
    return true;
  } catch (error) {
    // It runs, as another user.
    return hasErrorCode(error, 'EPERM');
  }
}
