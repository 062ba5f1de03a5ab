/** A failure as a person or a program reads it: one block on stderr, or one JSON document on stdout. Pure. */
import { describeError, EXIT_CODES, isFault } from '../core/errors.ts';

/**
 * What the system answers when a local disk is at fault. Any file of the state directory may meet it, so it is told here
 * rather than at each of them; stores tell it themselves.
 */
const FULL_HINT =
  'The disk of FLOWDROP_STATE_DIR or of the output is full: make room, then start the same command again.';
const RIGHTS_HINT =
  'Check FLOWDROP_STATE_DIR and FLOWDROP_OUTBOX_DIR: this user needs the right to write there and to the output, on a disk that is writable.';
const PATH_HINT =
  'Check FLOWDROP_STATE_DIR and FLOWDROP_OUTBOX_DIR: each must be a folder, or a name at which one can be made.';
const DISK_HINTS: Readonly<Record<string, string>> = {
  ENOSPC: FULL_HINT,
  EDQUOT: FULL_HINT,
  EFBIG:
    'A file is larger than this process may write: raise the limit (ulimit -f), then start the same command again.',
  EROFS: RIGHTS_HINT,
  EACCES: RIGHTS_HINT,
  EPERM: RIGHTS_HINT,
  ENOTDIR: PATH_HINT,
  EEXIST: PATH_HINT,
  EISDIR: PATH_HINT,
  ENAMETOOLONG: PATH_HINT,
  EIO: 'The disk cannot be read or written: check it, then start the same command again.',
};

export interface FailureReport {
  readonly exitCode: number;
  readonly text: string;
  readonly json: { readonly error: { readonly code: string; readonly message: string; readonly hint?: string } };
}

/** @param debug adds the stack */
export function describeFailure(error: unknown, debug: boolean): FailureReport {
  const fault = isFault(error) ? error : undefined;
  const disk = fault ? undefined : findDiskHint(error);
  const code = fault?.code ?? (disk ? 'DISK_FAILED' : 'UNEXPECTED');
  const message = fault ? fault.message : describeError(error);
  const hint = fault
    ? fault.hint
    : (disk ?? 'This is a fault of flowdrop itself; run again with --debug and report it.');
  const stack = debug && error instanceof Error && error.stack ? `\n${error.stack}` : '';
  return {
    exitCode: EXIT_CODES[fault?.kind ?? 'failed'],
    text: `flowdrop: ${code}: ${message}\n${hint ? `  -> ${hint}\n` : ''}${stack}`,
    json: { error: { code, message, ...(hint ? { hint } : {}) } },
  };
}

function findDiskHint(error: unknown): string | undefined {
  if (!(error instanceof Error && 'syscall' in error && 'code' in error)) return undefined;
  // On a read-only disk Node's recursive `mkdir` says that the folder it could not make is not there.
  if (error.syscall === 'mkdir' && error.code === 'ENOENT') return RIGHTS_HINT;
  return DISK_HINTS[String(error.code)];
}
