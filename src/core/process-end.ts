/**
 * Explains the end of a child process that could not explain it itself. Pure. It knows only what the system reports to
 * the parent: an exit code, or the signal that ended the child.
 */

/** Exit code of a shell and of Node for SIGABRT: 128 plus the signal's number. */
const ABORT_CODE = 134;

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
