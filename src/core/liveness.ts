/** Whether a process is alive on this machine, and why one has ended that could not say it itself. */
import { readFile } from 'node:fs/promises';
import { kill } from 'node:process';
import { hasErrorCode } from './atomic-file.ts';

/**
 * It does not tell which program it is, or whether its id was reused.
 * @param processId `false` also for numbers that are not process ids: 0 and negative numbers name groups
 */
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

/**
 * When a process was started, in the kernel's own unit: with its id it names a process for good, because ids are reused,
 * in a container at each start. Empty where the system does not say, or if there is no such process.
 */
export async function readProcessStart(processId: number): Promise<string> {
  const text = await readFile(`/proc/${processId}/stat`, 'utf8').catch(() => '');
  // Field 22. The second field is the name, in parentheses; it may contain anything.
  return text.slice(text.lastIndexOf(')') + 2).split(' ')[19] ?? '';
}

/** Whether a process that was noted with its start is still there. */
export async function isSameProcess({ pid, started }: { readonly pid: number; readonly started: string }) {
  return isProcessAlive(pid) && (await readProcessStart(pid)) === started;
}

/** Exit code of a shell and of Node for SIGABRT: 128 plus the signal's number. */
const ABORT_CODE = 134;

/** What the system reports to the parent. */
interface ProcessEnd {
  /** `undefined` when a signal ended it. */
  readonly code: number | undefined;
  readonly signal: string | undefined;
}

/** What to do after V8 or a native library aborted the process, in sentences; empty for every other end. */
export function explainAbort({ code, signal }: ProcessEnd): string {
  if (signal !== 'SIGABRT' && code !== ABORT_CODE) return '';
  return 'It ran out of memory, or a native part aborted: its last lines say which. Give it more memory with NODE_OPTIONS=--max-old-space-size=4096 (megabytes), or have fewer requests in flight: a lower FLOWDROP_MAX_RUNS or FLOWDROP_REQUESTS_PER_SECOND.';
}
