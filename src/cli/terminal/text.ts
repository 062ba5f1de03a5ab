/**
 * Text on a terminal: its width in cells, cut and wrapped; tables; colors; a failure for a person or a program. Pure, and
 * without a package: a package that is missing is reported by it. Invariants: no character of a text moves the cursor or
 * changes colors (`escapeText`), so that outside text cannot draw over ours; a column has the width that is drawn, in any
 * alphabet; a stack is shown only on request.
 */
import { stripVTControlCharacters, styleText } from 'node:util';
import { EXIT_CODES, type Place } from '../../core/errors.ts';
import { readFailure } from '../../core/failure.ts';

/** Characters that take two cells: East Asian Wide and Fullwidth (Unicode Annex 11), and emoji. */
const WIDE =
  /[\u1100-\u115F\u2E80-\u303E\u3041-\u33FF\u3400-\u4DBF\u4E00-\u9FFF\uA000-\uA4CF\uA960-\uA97F\uAC00-\uD7A3\uF900-\uFAFF\uFE30-\uFE6F\uFF00-\uFF60\uFFE0-\uFFE6\u{20000}-\u{3FFFD}]|\p{Emoji_Presentation}|\uFE0F/u;

/** Combining marks, joiners and variation selectors: they have no cell of their own. */
const NO_WIDTH = /^[\p{Mn}\p{Me}\p{Cf}]+$/u;

// biome-ignore lint/suspicious/noControlCharactersInRegex: this is what colors are made of.
const COLOR = /(\u001b\[\d+m)/;

/** Characters that move the cursor, ring the bell, or change the text direction. */
const UNSAFE = /[\p{Cc}\u2028\u2029\u202A-\u202E\u2066-\u2069]/gu;

/** What a reader sees as one character, with the cells that it takes. */
function listGraphemes(text: string): readonly (readonly [string, number])[] {
  return Array.from(new Intl.Segmenter('en', { granularity: 'grapheme' }).segment(text), ({ segment }) => {
    return [segment, NO_WIDTH.test(segment) ? 0 : WIDE.test(segment) ? 2 : 1];
  });
}

/** Cells that a text without line breaks takes; colors take none. */
export function measureWidth(text: string): number {
  const plain = stripVTControlCharacters(text);
  // Nearly all output is plain ASCII.
  if (/^[\x20-\x7e]*$/.test(plain)) return plain.length;
  return listGraphemes(plain).reduce((sum, [, cells]) => sum + cells, 0);
}

/** Cuts a text to at most `width` cells; an ellipsis marks the cut. Colors stay, so that each is ended. */
export function cutText(text: string, width: number): string {
  if (measureWidth(text) <= width) return text;
  let left = width - 1;
  const kept = text.split(COLOR).flatMap((part) => {
    if (COLOR.test(part)) return part;
    return listGraphemes(part).map(([grapheme, cells]) => {
      left -= cells;
      return left < 0 ? '' : grapheme;
    });
  });
  return `${kept.join('')}…`;
}

/**
 * Breaks each line of a text at spaces, into lines of at most `width` cells; a longer word stays whole, so that it can be
 * copied. What is below the first line of each begins under its first word, or `hang` cells in.
 * @param width absent: nothing is wrapped, so that a log can be searched
 */
export function hangText(text: string, width: number | undefined, hang?: number): string {
  if (width === undefined) return text;
  const lines: string[] = [];
  for (const line of text.split('\n')) {
    const start = line.length - line.trimStart().length;
    const [first = '', ...words] = line.slice(start).split(' ');
    let last = line.slice(0, start) + first;
    for (const word of words) {
      if (last.trim() === '') last += word;
      else if (measureWidth(last) + 1 + measureWidth(word) <= width) last += ` ${word}`;
      else {
        lines.push(last);
        last = ' '.repeat(hang ?? start + 2) + word;
      }
    }
    lines.push(last);
  }
  return lines.join('\n');
}

/** Makes every character visible that would act on a terminal. @param keep characters that may stay */
export function escapeText(text: string, keep = ''): string {
  return text.replace(UNSAFE, (character) => {
    if (keep.includes(character)) return character;
    const quoted = JSON.stringify(character).slice(1, -1);
    return quoted === character ? `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}` : quoted;
  });
}

export interface TableColumn {
  readonly title: string;
  /** Numbers are aligned to the right. */
  readonly align?: 'left' | 'right';
}

export function right(title: string): TableColumn {
  return { title, align: 'right' };
}

const GAP = '  ';

/** A cut text keeps this many cells, so that it still differs from its neighbors. */
const MIN_TEXT_WIDTH = 8;

/**
 * Columns as wide as their widest cell, two spaces apart, a rule below the titles. Cells may have colors. A text is a
 * column's title. @param width cells per line: texts are cut to one length with which it fits, numbers never
 */
export function formatTable(
  titles: readonly (TableColumn | string)[],
  rows: readonly (readonly string[])[],
  { width = Number.POSITIVE_INFINITY }: { readonly width?: number | undefined } = {},
): string {
  const columns = titles.map((column): TableColumn => (typeof column === 'string' ? { title: column } : column));
  const lines = [columns.map(({ title }) => title), ...rows];
  const natural = columns.map((_, at) =>
    lines.reduce((widest, cells) => Math.max(widest, measureWidth(cells[at] ?? '')), 0),
  );
  let widths = natural;
  const isTooWide = () => widths.reduce((sum, cells) => sum + cells + GAP.length, -GAP.length) > width;
  for (let limit = width; isTooWide() && limit >= MIN_TEXT_WIDTH; limit -= 1)
    widths = natural.map((cells, at) => (columns[at]?.align === 'right' ? cells : Math.min(cells, limit)));
  const [head, ...body] = lines.map((cells) => {
    const drawn = columns.map(({ align }, at) => {
      const cell = cutText(cells[at] ?? '', widths[at] ?? 0);
      const fill = ' '.repeat((widths[at] ?? 0) - measureWidth(cell));
      return align === 'right' ? fill + cell : cell + fill;
    });
    return drawn.join(GAP).trimEnd();
  });
  return [head, widths.map((cells) => '-'.repeat(cells)).join(GAP), ...body].join('\n');
}

const NAMES = ['bold', 'dim', 'red', 'green', 'yellow', 'cyan', 'magenta'] as const;

export type Style = Readonly<Record<(typeof NAMES)[number], (text: string) => string>>;

/** @param enabled if false, every function returns its text unchanged */
export function createStyle(enabled: boolean): Style {
  const createPaint = (name: keyof Style) => (text: string) =>
    enabled && text !== '' ? styleText(name, text, { validateStream: false }) : text;
  return Object.fromEntries(NAMES.map((name) => [name, createPaint(name)])) as Style; // Its keys are those names.
}

export const PLAIN_STYLE: Style = createStyle(false);

/** A line of a job file may be long: this many UTF-16 units around the error are shown. */
const MAX_EXCERPT = 100;

/** Spaces before a line that continues another. */
const HANG = 4;

export type FailureReport = ReturnType<typeof describeFailure>;

interface FailureLayout {
  readonly debug?: boolean;
  /** Cells per line; without it nothing is wrapped, so that a log can be searched. */
  readonly width?: number | undefined;
  readonly style?: Style;
  readonly redact?: (text: string) => string;
}

/** Describes anything thrown as a failure: the exit code, the block, and the document. */
export function describeFailure(error: unknown, layout: FailureLayout = {}) {
  const { debug = false, width, style = PLAIN_STYLE, redact = (text: string) => text } = layout;
  const { code, message, hint, kind, causes, places } = readFailure(error, redact);
  const stack = debug && error instanceof Error ? redact(error.stack ?? '') : '';
  const lines = [
    ...escapeText(message, '\n')
      .split('\n')
      .flatMap((line, index) => [
        `${index === 0 ? style.red(`flowdrop: ${code}:`) : ' '} ${line}`,
        ...(places[index] ? drawPlace(places[index], style) : []),
      ]),
    ...causes.map((cause) => style.dim(`  because: ${escapeText(cause)}`)),
    ...(hint ? [`  ${style.bold('->')} ${escapeText(hint, '\n')}`] : []),
    ...(stack ? ['', escapeText(stack, '\n')] : []),
  ];
  return {
    exitCode: EXIT_CODES[kind],
    text: `${hangText(lines.join('\n'), width, HANG)}\n`,
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
