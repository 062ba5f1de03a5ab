/**
 * A failure as a person or a program reads it: one block on stderr (what, where, why, what next), or one JSON document on
 * stdout. Invariant: a stack is shown only when asked for, and no secret is broken in two by a line's end, because texts
 * are masked before they are laid out. Pure, but for a look at the limit of open files.
 */
import { createInterruption, describeError, EXIT_CODES, isFault, type Place } from '../../core/errors.ts';
import { NEEDED_FILES, RAISE_FILES_HINT, readFileLimit } from '../../core/machine.ts';
import { PLAIN_STYLE, type Style } from './color.ts';
import { escapeText, wrapText } from './text-width.ts';

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

/** What Node says where the files of the program are not all there. */
const INSTALL_HINT =
  'The installation is not whole: run `npm ci` and `npm run build` where flowdrop is, or install it again.';

const CWD_HINT = 'The folder that this shell is in was removed: change to one that is there.';

const UNEXPECTED_HINT = 'This is a fault of flowdrop itself; run again with --debug and report it.';

/** Causes that are told, outermost first: what is below them is detail for --debug. */
const MAX_CAUSES = 4;

/** A line of a job file may be long: so many units of it are shown around what is wrong. */
const MAX_EXCERPT = 100;

export interface FailureReport {
  readonly exitCode: number;
  readonly text: string;
  readonly json: {
    readonly error: {
      readonly code: string;
      readonly message: string;
      readonly hint?: string;
      /** What the message does not say itself. */
      readonly cause?: string;
      readonly where?: readonly Place[];
    };
  };
}

export interface FailureLayout {
  /** Adds the stack. */
  readonly debug?: boolean;
  /** Cells of a line; without one nothing is wrapped, so that a log can be searched. */
  readonly width?: number | undefined;
  readonly style?: Style;
  /** Masks secrets. */
  readonly redact?: (text: string) => string;
}

/** The failure of anything thrown. */
export function describeFailure(error: unknown, layout: FailureLayout = {}): FailureReport {
  const { redact = (text: string) => text } = layout;
  const fault = isFault(error) ? error : undefined;
  const known = fault ?? findCondition(error);
  const code = known?.code ?? 'UNEXPECTED';
  const message = redact(fault ? fault.message : describeError(error)).trimEnd();
  const hint = known ? known.hint && redact(known.hint) : UNEXPECTED_HINT;
  const causes = fault ? listCauses(fault).map((cause) => redact(cause)) : [];
  const places = (fault?.places ?? []).map((place) => ({ ...place, text: redact(place.text) }));
  const stack = layout.debug && error instanceof Error && error.stack ? redact(error.stack) : undefined;
  return {
    exitCode: EXIT_CODES[fault?.kind ?? 'failed'],
    text: layOut({ code, message, hint, causes, places, stack }, layout),
    json: {
      error: {
        code,
        message,
        ...(hint ? { hint } : {}),
        ...(causes.length > 0 ? { cause: causes.join(': ') } : {}),
        ...(places.length > 0 ? { where: places } : {}),
      },
    },
  };
}

/** After a signal any failure is the interruption, unless it says more. */
export function tellInterruption(error: unknown, signal: AbortSignal): unknown {
  if (!signal.aborted || (isFault(error) && error.kind !== 'failed')) return error;
  return createInterruption(error);
}

interface Parts {
  readonly code: string;
  readonly message: string;
  readonly hint: string | undefined;
  readonly causes: readonly string[];
  readonly places: readonly Place[];
  readonly stack: string | undefined;
}

function layOut(
  { code, message, hint, causes, places, stack }: Parts,
  { width, style = PLAIN_STYLE }: FailureLayout,
): string {
  const head = `flowdrop: ${code}:`;
  const wrap = (text: string, first: string, paint = (line: string) => line) =>
    (width === undefined ? [text] : wrapText(text, Math.max(1, width - 2))).map((line, index) =>
      index === 0 ? paint(line).replace(first, () => style.bold(first)) : `    ${paint(line)}`,
    );
  const lines: string[] = [];
  for (const [index, line] of escapeText(message, '\n').split('\n').entries()) {
    const place = places[index];
    if (index === 0)
      lines.push(...wrap(`${head} ${line}`, head).map((text) => text.replace(head, () => style.red(head))));
    else lines.push(...wrap(`  ${line}`, ''));
    if (place) lines.push(...drawPlace(place, style));
  }
  for (const cause of causes) lines.push(...wrap(`  because: ${escapeText(cause)}`, '', style.dim));
  if (hint) lines.push(...wrap(`  -> ${escapeText(hint, '\n')}`, '->'));
  if (stack) lines.push('', escapeText(stack, '\n'));
  return `${lines.join('\n')}\n`;
}

/** The line of a file with its number, and a mark below what is wrong. */
function drawPlace({ line, column, length, text }: Place, style: Style): readonly string[] {
  const skipped = Math.max(0, column - 1 - MAX_EXCERPT / 2);
  const shown = text.slice(skipped, skipped + MAX_EXCERPT);
  if (shown.trim() === '') return [];
  const gutter = `    ${line} | `;
  // Tabs stay below tabs, so that the mark is below its word whatever a tab's width is.
  const before = shown.slice(0, column - 1 - skipped).replace(/[^\t]/g, ' ');
  const marks = '^'.repeat(Math.max(1, Math.min(length, shown.length - before.length)));
  return [
    `${style.dim(gutter)}${escapeText(shown, '\t')}`,
    `${' '.repeat(gutter.length - 2)}${style.dim('| ')}${before}${style.red(marks)}`,
  ];
}

/**
 * Messages of the causes that say more than what is above them. Of refused SQL there are none: the engine's words can hold
 * rows and paths, and the refusal is written so that it needs none of them.
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

/** What is no fault of flowdrop although nobody foresaw it where it happened. */
function findCondition(error: unknown): { readonly code: string; readonly hint: string } | undefined {
  // The modules are of two builds.
  if (error instanceof SyntaxError && error.message.includes('does not provide an export'))
    return { code: 'INSTALLATION_BROKEN', hint: INSTALL_HINT };
  if (!(error instanceof Error && 'code' in error)) return undefined;
  const isOutOfFiles = error.code === 'EMFILE' || error.code === 'ENFILE';
  const isModuleMissing = error.code === 'ERR_MODULE_NOT_FOUND' || error.code === 'MODULE_NOT_FOUND';
  // A library that Node could not open it takes for one that is not there.
  if (isOutOfFiles || (isModuleMissing && (readFileLimit() ?? NEEDED_FILES) < NEEDED_FILES))
    return { code: 'FILES_TOO_FEW', hint: `${NEEDED_FILES} open files are needed. ${RAISE_FILES_HINT}` };
  if (isModuleMissing) return { code: 'INSTALLATION_BROKEN', hint: INSTALL_HINT };
  if ('syscall' in error && error.syscall === 'uv_cwd') return { code: 'FOLDER_MISSING', hint: CWD_HINT };
  const hint = findDiskHint(error);
  return hint === undefined ? undefined : { code: 'DISK_FAILED', hint };
}

function findDiskHint(error: unknown): string | undefined {
  if (!(error instanceof Error && 'syscall' in error && 'code' in error)) return undefined;
  // Above it all is there: the system keeps its own folders (/proc) to itself.
  if (error.syscall === 'mkdir' && error.code === 'ENOENT') return RIGHTS_HINT;
  return DISK_HINTS[String(error.code)];
}
