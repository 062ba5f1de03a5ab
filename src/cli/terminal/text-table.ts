/**
 * Plain text tables for a terminal. Invariant: every column has the width that is drawn, in any alphabet, and no line
 * ends in spaces. Pure.
 */
import { cutText, measureWidth } from './text-width.ts';

export interface TableColumn {
  readonly title: string;
  /** Numbers are aligned to the right. */
  readonly align?: 'left' | 'right';
}

/** A column of numbers. */
export function right(title: string): TableColumn {
  return { title, align: 'right' };
}

const GAP = '  ';

/** A cut text keeps this many cells, so that it still differs from its neighbors. */
const MIN_TEXT_WIDTH = 8;

/**
 * Columns as wide as their widest cell, two spaces apart, a rule below the titles. Cells may have colors. A text is a
 * column's title. @param width cells per line: the longest texts are cut to fit, numbers never; absent: none is cut
 */
export function formatTable(
  titles: readonly (TableColumn | string)[],
  rows: readonly (readonly string[])[],
  { width }: { readonly width?: number | undefined } = {},
): string {
  const columns = titles.map((column): TableColumn => (typeof column === 'string' ? { title: column } : column));
  const natural = columns.map(({ title }, index) =>
    rows.reduce((widest, row) => Math.max(widest, measureWidth(row[index] ?? '')), measureWidth(title)),
  );
  const widths = width === undefined ? natural : shrink(columns, natural, width);
  const line = (cells: readonly string[]) =>
    columns
      .map(({ align }, index) => {
        const limit = widths[index] ?? 0;
        const cell = cutText(cells[index] ?? '', limit);
        const fill = ' '.repeat(Math.max(0, limit - measureWidth(cell)));
        return align === 'right' ? fill + cell : cell + fill;
      })
      .join(GAP)
      .trimEnd();
  const rule = widths.map((cells) => '-'.repeat(cells)).join(GAP);
  return [line(columns.map(({ title }) => title)), rule, ...rows.map(line)].join('\n');
}

/** Shortens the widest text until the line fits, or no text can be cut further. */
function shrink(columns: readonly TableColumn[], natural: readonly number[], width: number): readonly number[] {
  const widths = [...natural];
  let excess = widths.reduce((sum, cells) => sum + cells, GAP.length * (columns.length - 1)) - width;
  while (excess > 0) {
    const texts = widths.map((cells, index) => (columns[index]?.align === 'right' ? 0 : cells));
    const widest = Math.max(...texts);
    if (widest <= MIN_TEXT_WIDTH) break;
    // Down to the next widest at once: one cell per round would be slow for a cell of a megabyte.
    const next = Math.max(MIN_TEXT_WIDTH, ...texts.filter((cells) => cells < widest));
    const taken = Math.min(excess, Math.max(1, widest - next));
    widths[texts.indexOf(widest)] = widest - taken;
    excess -= taken;
  }
  return widths;
}
