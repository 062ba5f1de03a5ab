/**
 * A table as CSV (RFC 4180: CRLF, quotes doubled, one header line) for people who open it in Excel and for programs.
 * Invariants: a number has the fewest digits that read back as the same number; a spreadsheet never reads a text of the
 * data as a formula. An unknown value is an empty field.
 */
import type { AttachedTable, Cell } from '../report-table.ts';

/**
 * Where a spreadsheet would see the start of a formula: a formula character, plain or full width, at the start of a
 * field (OWASP, "CSV Injection"). Also after a separator, because Excel splits at its own locale's separator, even
 * inside quotes.
 */
const FORMULA = /(?<=^|[;,\t\r\n"'|]) *(?=[=+\-@\t\r＝＋－＠])/gu;

/** Quotes are needed where RFC 4180 says so, and for other locales' separators. */
const NEEDS_QUOTES = /[",;\t\r\n|]|^\s|\s$/;

/** Invisible in a spreadsheet; some readers end the text there. */
const NUL = /\0/g;

/** Excel reads UTF-8 only after this mark; other readers skip it, or show it in the first column's name. */
const BYTE_ORDER_MARK = '\ufeff';

/** Writes the mark only if a character is not ASCII, so that plain tables have nothing before their header. */
export function formatCsv({ columns, rows }: Pick<AttachedTable, 'columns' | 'rows'>): Uint8Array {
  const lines = [columns.map(({ name }) => name), ...rows.map((row) => row.map(formatField))];
  const text = lines.map((fields) => `${fields.join(',')}\r\n`).join('');
  return Buffer.from(/^[\0-\x7f]*$/.test(text) ? text : BYTE_ORDER_MARK + text, 'utf8');
}

function formatField(cell: Cell): string {
  if (cell === null) return '';
  if (typeof cell === 'number') return Number.isFinite(cell) ? String(cell) : '';
  if (typeof cell === 'boolean') return String(cell);
  const text = disarm(cell.replace(NUL, ' '));
  return NEEDS_QUOTES.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** After an apostrophe, a spreadsheet reads the rest as text; programs see it too, which is the lesser harm. */
function disarm(text: string): string {
  return text.replace(FORMULA, (blanks) => `'${blanks}`);
}
