/** Whether a process is alive on this machine. It does not tell which program it is, or whether its id was reused. */
import { kill } from 'node:process';
import { hasErrorCode } from './atomic-file.ts';

/** @param processId `false` also for numbers that are not process ids: 0 and negative numbers name groups */
export function isProcessAlive(processId: number): boolean {
  if (!Number.isSafeInteger(processId) || processId <= 0) return false;
  try {
    kill(processId, 0); // Signal 0 sends nothing: it only checks that the process exists.
    return true;
  } catch (error) {
    // The process runs as another user.
    return hasErrorCode(error, 'EPERM');
  }
}
