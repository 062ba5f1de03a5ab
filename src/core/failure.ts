/**
 * Turns any thrown value into code, message, next step and causes, for a person or a program to read. Secrets are
 * masked here, before the text is laid out in lines. Pure, except that it reads the limit of open files.
 */
import { createInterruption, describeError, isFault, type Place } from './errors.ts';
import { NEEDED_FILES, RAISE_FILES_HINT, readFileLimit } from './machine.ts';

/**
 * Hints for system errors of local disks. They are here because any file of the state directory can cause them. Stores
 * explain their own errors.
 */
const FULL_HINT =
  'The disk of FLOWDROP_STATE_DIR or of the output is full: make room, then start the same command again.';
const RIGHTS_HINT =
  'Check FLOWDROP_STATE_DIR and FLOWDROP_OUTBOX_DIR: this user needs write permission there and for the output, on a writable disk.';
const PATH_HINT =
  'Check FLOWDROP_STATE_DIR and FLOWDROP_OUTBOX_DIR: each must be a folder, or a path where one can be created.';
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

/** For Node's errors when files of the program are missing. */
const INSTALL_HINT =
  'The installation is incomplete: run `npm ci` and `npm run build` where flowdrop is, or install it again.';

const CWD_HINT = 'The current folder was removed: change to another one.';

const UNEXPECTED_HINT = 'This is a bug in flowdrop; run again with --debug and report it.';

/** Causes shown, outermost first; deeper ones appear only with --debug. */
const MAX_CAUSES = 4;

/** @param redact masks secrets */
export function readFailure(error: unknown, redact = (text: string): string => text) {
  const fault = isFault(error) ? error : undefined;
  const known = fault ?? findCondition(error);
  return {
    code: known?.code ?? 'UNEXPECTED',
    message: redact(fault ? fault.message : describeError(error)).trimEnd(),
    hint: known ? known.hint && redact(known.hint) : UNEXPECTED_HINT,
    kind: fault?.kind ?? 'failed',
    /** Messages of the causes that add information, outermost first. */
    causes: fault ? listCauses(fault).map((cause) => redact(cause)) : [],
    places: (fault?.places ?? []).map((place): Place => ({ ...place, text: redact(place.text) })),
  };
}

/** After a signal, any failure counts as the interruption, unless it is a fault with a kind other than `failed`. */
export function tellInterruption(error: unknown, signal: AbortSignal): unknown {
  if (!signal.aborted || (isFault(error) && error.kind !== 'failed')) return error;
  return createInterruption(error);
}

/**
 * Messages of the causes that add to the messages above them. Empty for refused SQL: the engine's message can contain
 * rows and paths, and the refusal is complete without it.
 */
function listCauses(fault: Error): readonly string[] {
  if (fault.name === 'Refusal') return [];
  const told = [fault.message];
  const causes: string[] = [];
  for (let cause = fault.cause; cause !== undefined && causes.length < MAX_CAUSES; ) {
    const text = (cause instanceof Error ? cause.message || cause.name : String(cause)).trim();
    const isNews = text !== '' && !told.some((known) => known.includes(text) || text.includes(known));
    if (isNews) causes.push(text.replace(/\s*\n\s*/g, ' '));
    told.push(text);
    cause = cause instanceof Error ? cause.cause : undefined;
  }
  return causes;
}

/** Read when the process starts: without free file handles it cannot be read any more. */
const FILE_LIMIT = readFileLimit() ?? NEEDED_FILES;

/** Recognizes failures that are not flowdrop's fault, although the code that hit them did not expect them. */
function findCondition(error: unknown): { readonly code: string; readonly hint: string } | undefined {
  // The modules come from two different builds.
  if (error instanceof SyntaxError && error.message.includes('does not provide an export'))
    return { code: 'INSTALLATION_BROKEN', hint: INSTALL_HINT };
  if (!(error instanceof Error && 'code' in error)) return undefined;
  const isOutOfFiles = error.code === 'EMFILE' || error.code === 'ENFILE';
  const isModuleMissing = error.code === 'ERR_MODULE_NOT_FOUND' || error.code === 'MODULE_NOT_FOUND';
  // Out of file handles, Node reports a library that it could not open as missing.
  if (isOutOfFiles || (isModuleMissing && FILE_LIMIT < NEEDED_FILES))
    return { code: 'FILES_TOO_FEW', hint: `${NEEDED_FILES} open files are needed. ${RAISE_FILES_HINT}` };
  if (isModuleMissing) return { code: 'INSTALLATION_BROKEN', hint: INSTALL_HINT };
  if ('syscall' in error && error.syscall === 'uv_cwd') return { code: 'FOLDER_MISSING', hint: CWD_HINT };
  const hint = findDiskHint(error);
  if (hint === undefined) return undefined;
  return { code: hint === FULL_HINT ? 'DISK_FULL' : 'DISK_FAILED', hint };
}

function findDiskHint(error: unknown): string | undefined {
  if (!(error instanceof Error && 'syscall' in error && 'code' in error)) return undefined;
  // All parent folders exist here: the system does not let anyone create folders in its own, such as /proc.
  if (error.syscall === 'mkdir' && error.code === 'ENOENT') return RIGHTS_HINT;
  return DISK_HINTS[String(error.code)];
}
