/**
 * Text on a terminal: its width in cells, cut and wrapped to a width. Invariant: no character of a text moves the
 * cursor or changes colors (`escapeText`), so that outside text cannot draw over ours. Pure, and without a package: a
 * package that is missing is reported by it.
 */

/** Characters that take two cells: East Asian Wide and Fullwidth (Unicode Annex 11), and emoji. */
const WIDE =
  /[\u1100-\u115F\u2E80-\u303E\u3041-\u33FF\u3400-\u4DBF\u4E00-\u9FFF\uA000-\uA4CF\uA960-\uA97F\uAC00-\uD7A3\uF900-\uFAFF\uFE30-\uFE6F\uFF00-\uFF60\uFFE0-\uFFE6\u{20000}-\u{3FFFD}]|\p{Emoji_Presentation}|\uFE0F/u;

/** Combining marks, joiners and variation selectors: they have no cell of their own. */
const NO_WIDTH = /^[\p{Mn}\p{Me}\p{Cf}]+$/u;

/** Characters that move the cursor, ring the bell, or change the text direction. */
const UNSAFE = /[\p{Cc}\u2028\u2029\u202A-\u202E\u2066-\u2069]/gu;

// biome-ignore lint/suspicious/noControlCharactersInRegex: the escape character is what begins a colour.
const COLOR = /\u001b\[[0-9;]*m/g;

/** What a reader sees as one character, with the cells that it takes. */
function listGraphemes(text: string): readonly (readonly [string, number])[] {
  return Array.from(new Intl.Segmenter('en', { granularity: 'grapheme' }).segment(text), ({ segment }) => {
    return [segment, NO_WIDTH.test(segment) ? 0 : WIDE.test(segment) ? 2 : 1];
  });
}

/** Cells that a text without line breaks takes; colors take none. */
export function measureWidth(text: string): number {
  const plain = text.replace(COLOR, '');
  // Nearly all output is plain ASCII.
  if (/^[\x20-\x7e]*$/.test(plain)) return plain.length;
  return listGraphemes(plain).reduce((sum, [, cells]) => sum + cells, 0);
}

/** Cuts a text to at most `width` cells; an ellipsis marks the cut. */
export function cutText(text: string, width: number): string {
  if (measureWidth(text) <= width) return text;
  let used = 0;
  const graphemes = listGraphemes(text);
  const end = graphemes.findIndex(([, cells]) => {
    used += cells;
    return used > width - 1;
  });
  const kept = graphemes.slice(0, end).map(([grapheme]) => grapheme);
  return `${kept.join('')}…`;
}

/**
 * Lines of at most `width` cells, broken at spaces; a longer word stays whole, so that it can be copied. Leading spaces
 * are kept. @param hang spaces before each line but the first
 */
export function wrapText(text: string, width: number, hang = 0): readonly string[] {
  const lines: string[] = [];
  const indent = ' '.repeat(hang);
  const [first = '', ...words] = text.trimStart().split(' ');
  let line = text.slice(0, text.length - text.trimStart().length) + first;
  for (const word of words) {
    if (line.trim() !== '' && measureWidth(line) + 1 + measureWidth(word) > width) {
      lines.push(line);
      line = indent + word;
    } else line = line.trim() === '' ? line + word : `${line} ${word}`;
  }
  return [...lines, line];
}

/**
 * Wraps each line of a text to a width; what is below the first line of each begins under its first word, or `hang` cells
 * in. @param width absent: nothing is wrapped, so that a log can be searched
 */
export function hangText(text: string, width: number | undefined, hang?: number): string {
  if (width === undefined) return text;
  return text
    .split('\n')
    .flatMap((line) => wrapText(line, width, hang ?? line.length - line.trimStart().length + 2))
    .join('\n');
}

/** Makes every character visible that would act on a terminal. @param keep characters that may stay */
export function escapeText(text: string, keep = ''): string {
  return text.replace(UNSAFE, (character) => {
    if (keep.includes(character)) return character;
    const quoted = JSON.stringify(character).slice(1, -1);
    return quoted === character ? `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}` : quoted;
  });
}
