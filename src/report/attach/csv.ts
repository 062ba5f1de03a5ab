/**
 * A table as CSV (RFC 4180: CRLF, quotes doubled, one header line) for people who open it in Excel and for programs.
 * Invariants: a number is written in the shortest digits that read back as the same number; a text that came with the
 * data is never a formula to a spreadsheet. Not known is an empty field.
 */
import type { AttachedTable, Cell } from '../report-table.ts';

/**
 * Where a spreadsheet would see the beginning of a formula: a sign of one, plain or full width, at the beginning of a
 * field (OWASP, "CSV Injection"). Behind a separator too, because Excel splits at the separator of its own locale,
 * whatever the quotes say.
 */
const FORMULA = /(?<=^|[;,\t\r\n"'|]) *(?=[=+\-@\t\r＝＋－＠])/gu;

/** Quotes are needed where RFC 4180 says so, and where another locale's separator stands. */
const NEEDS_QUOTES = /[",;\t\r\n|]|^\s|\s$/;

/** Invisible in a spreadsheet, and the end of the text to some readers. */
const NUL = /\0/g;

/** Excel reads UTF-8 only behind this mark; other readers skip it, or show it in the first column's name. */
const BYTE_ORDER_MARK = '\ufeff';

/** The mark is put only where a character needs it, so that plain tables have nothing in front of their header. */
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

/** An apostrophe makes a spreadsheet take what follows for text; programs see it, which is the lesser harm. */
function disarm(text: string): string {
  return text.replace(FORMULA, (blanks) => `'${blanks}`);
}
