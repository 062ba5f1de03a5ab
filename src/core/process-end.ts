/**
 * What the end of a child process means that could not tell it itself. Pure. It knows only what the system tells the
 * parent: an exit code, or the signal that ended it.
 */

/** What a shell and Node make of SIGABRT: 128 and the signal's number. */
const ABORT_CODE = 134;

interface ProcessEnd {
  /** `undefined` where a signal ended it. */
  readonly code: number | undefined;
  readonly signal: string | undefined;
}

/** What to do about a process that V8 or a native library has aborted, in sentences; empty for every other end. */
export function explainAbort({ code, signal }: ProcessEnd): string {
  if (signal !== 'SIGABRT' && code !== ABORT_CODE) return '';
  return 'It ran out of memory, or a native part aborted: its last lines say which. Give it more by NODE_OPTIONS=--max-old-space-size=4096 (megabytes), or have fewer requests in flight: a lower FLOWDROP_MAX_RUNS or FLOWDROP_REQUESTS_PER_SECOND.';
}
