/**
 * A failure for a person or a program: one block on stderr (what, where, why, what next), or one JSON document on
 * stdout. Invariant: a stack is shown only on request.
 */
import { EXIT_CODES, type Place } from '../../core/errors.ts';
import { type Failure, readFailure } from '../../core/failure.ts';
import { PLAIN_STYLE, type Style } from './color.ts';
import { escapeText, wrapText } from './text-width.ts';

/** A line of a job file may be long: this many UTF-16 units around the error are shown. */
const MAX_EXCERPT = 100;

export interface FailureReport {
  readonly exitCode: number;
  readonly text: string;
  readonly json: {
    readonly error: {
      readonly code: string;
      readonly message: string;
      readonly hint?: string | undefined;
      /** Causes that the message does not contain. */
      readonly cause?: string | undefined;
      readonly where?: readonly Place[] | undefined;
    };
  };
}

interface FailureLayout {
  /** Adds the stack. */
  readonly debug?: boolean;
  /** Cells per line; without it nothing is wrapped, so that a log can be searched. */
  readonly width?: number | undefined;
  readonly style?: Style;
  /** Masks secrets. */
  readonly redact?: (text: string) => string;
}

/** Describes anything thrown as a failure. */
export function describeFailure(error: unknown, layout: FailureLayout = {}): FailureReport {
  const { redact = (text: string) => text } = layout;
  const failure = readFailure(error, redact);
  const { code, message, hint, kind, causes, places } = failure;
  const stack = layout.debug && error instanceof Error && error.stack ? redact(error.stack) : undefined;
  return {
    exitCode: EXIT_CODES[kind],
    text: layOut(failure, stack, layout),
    json: {
      error: {
        code,
        message,
        hint: hint || undefined,
        cause: causes.join(': ') || undefined,
        where: places.length > 0 ? places : undefined,
      },
    },
  };
}

function layOut(
  { code, message, hint, causes, places }: Failure,
  stack: string | undefined,
  { width, style = PLAIN_STYLE }: FailureLayout,
): string {
  const head = `flowdrop: ${code}:`;
  const wrap = (text: string, first: string, paint = (line: string) => line) =>
    (width === undefined ? [text] : wrapText(text, Math.max(1, width - 4))).map((line, index) =>
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

/** The line of a file with its number, and a mark below the error. */
function drawPlace({ line, column, length, text }: Place, style: Style): readonly string[] {
  const skipped = Math.max(0, column - 1 - MAX_EXCERPT / 2);
  const shown = text.slice(skipped, skipped + MAX_EXCERPT);
  if (shown.trim() === '') return [];
  const gutter = `    ${line} | `;
  // Tabs stay tabs, so that the mark is below its word at any tab width.
  const before = shown.slice(0, column - 1 - skipped).replace(/[^\t]/g, ' ');
  const marks = '^'.repeat(Math.max(1, Math.min(length, shown.length - before.length)));
  return [
    `${style.dim(gutter)}${escapeText(shown, '\t')}`,
    `${' '.repeat(gutter.length - 2)}${style.dim('| ')}${before}${style.red(marks)}`,
  ];
}
