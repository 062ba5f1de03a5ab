/**
 * A failure for a person or a program: one block on stderr (what, where, why, what next), or one JSON document on
 * stdout. Invariant: a stack is shown only on request.
 */
import { EXIT_CODES, type Place } from '../../core/errors.ts';
import { readFailure } from '../../core/failure.ts';
import { PLAIN_STYLE, type Style } from './color.ts';
import { escapeText, wrapText } from './text-width.ts';

/** A line of a job file may be long: this many UTF-16 units around the error are shown. */
const MAX_EXCERPT = 100;

/** Spaces before a line that continues another. */
const HANG = 4;

export type FailureReport = ReturnType<typeof describeFailure>;

interface FailureLayout {
  /** Adds the stack. */
  readonly debug?: boolean;
  /** Cells per line; without it nothing is wrapped, so that a log can be searched. */
  readonly width?: number | undefined;
  readonly style?: Style;
  /** Masks secrets. */
  readonly redact?: (text: string) => string;
}

/** Describes anything thrown as a failure: the exit code, the block, and the document. */
export function describeFailure(error: unknown, layout: FailureLayout = {}) {
  const { width, style = PLAIN_STYLE, redact = (text: string) => text } = layout;
  const { code, message, hint, kind, causes, places } = readFailure(error, redact);
  const stack = layout.debug && error instanceof Error && error.stack ? redact(error.stack) : undefined;
  const head = `flowdrop: ${code}:`;
  const wrap = (text: string) => (width === undefined ? [text] : wrapText(text, width, HANG));
  const lines = [
    ...escapeText(message, '\n')
      .split('\n')
      .flatMap((line, index) => [
        ...wrap(`${index === 0 ? head : ' '} ${line}`),
        ...(places[index] ? drawPlace(places[index], style) : []),
      ]),
    ...causes.flatMap((cause) => wrap(`  because: ${escapeText(cause)}`).map(style.dim)),
    ...(hint ? wrap(`  -> ${escapeText(hint, '\n')}`) : []).map((line) =>
      line.replace(/^ {2}->/, `  ${style.bold('->')}`),
    ),
    ...(stack ? ['', escapeText(stack, '\n')] : []),
  ];
  return {
    exitCode: EXIT_CODES[kind],
    text: `${lines.join('\n').replace(head, () => style.red(head))}\n`,
    json: {
      error: {
        code,
        message,
        hint: hint || undefined,
        /** Causes that the message does not contain. */
        cause: causes.join(': ') || undefined,
        where: places.length > 0 ? places : undefined,
      },
    },
  };
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
