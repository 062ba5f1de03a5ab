/**
 * A table on the pages of the PDF: one line per row, columns as wide as their content, the header repeated on every
 * page. Numbers are shortened for people, as in the mail; the files for programs have them in full.
 */
import { type AttachedTable, type Column, isText, printTable } from '../report-table.ts';
import { COLOURS, contentWidth, type PdfPage } from './pdf-page.ts';

const FONT_SIZE = 7.5;
const ROW_HEIGHT = 13;
const PADDING = { top: 2.2, right: 4, bottom: 2.2, left: 4 } as const;
/** Points that a column may be wider than its content; with more, the eye loses the line. */
const MAX_SLACK = 36;

/** Height of the table with its header, or of its first `maxRows` rows, which stay together on a page. */
export function measureTable(table: AttachedTable, maxRows = 10): number {
  return (Math.min(table.rows.length, maxRows) + 1) * ROW_HEIGHT;
}

export function drawTable(page: PdfPage, table: AttachedTable): void {
  const { doc, body } = page;
  const { columns, rows } = printTable(table);
  const head = columns.map(({ heading }) => heading ?? '');
  const widths = fitWidths(page, columns, head, rows);
  doc.font('plain').fontSize(FONT_SIZE).fillColor(COLOURS.ink);
  // Row numbers of headers, counting repeated headers; they have no stripe.
  const heads = new Set([0]);
  const drawn = doc.table({
    structParent: body,
    position: { x: doc.page.margins.left, y: doc.y },
    columnStyles: columns.map((column, index) => ({
      width: widths[index] ?? 0,
      align: { x: isText(column) ? 'left' : 'right' },
    })),
    rowStyles: (row) => ({
      height: ROW_HEIGHT,
      ...(heads.has(row) ? { backgroundColor: COLOURS.band } : {}),
      ...(heads.has(row) || row % 2 === 1 ? {} : { backgroundColor: COLOURS.stripe }),
    }),
    defaultStyle: { border: 0, padding: PADDING, textColor: COLOURS.ink, textOptions: { lineBreak: false } },
  });
  const drawHead = () =>
    drawn.row(head.map((text) => ({ text, type: 'TH', scope: 'Column', font: { src: 'bold', size: FONT_SIZE } })));
  drawHead();
  let count = 1;
  for (const row of rows) {
    if (doc.y + ROW_HEIGHT >= doc.page.maxY()) {
      heads.add(count);
      drawHead();
      count += 1;
    }
    drawn.row(row.map((text, index) => (index === 0 ? { text, type: 'TH', scope: 'Row' } : text)));
    count += 1;
  }
  drawn.end();
}

function fitWidths(
  page: PdfPage,
  columns: readonly Column[],
  head: readonly string[],
  rows: readonly (readonly string[])[],
): readonly number[] {
  const { doc } = page;
  const measure = (text: string) => doc.widthOfString(text) + PADDING.left + PADDING.right + 1;
  doc.font('bold').fontSize(FONT_SIZE);
  const headWidths = head.map(measure);
  doc.font('plain');
  const needed = headWidths.map((width, index) => Math.max(width, ...rows.map((row) => measure(row[index] ?? ''))));
  const room = contentWidth(page);
  const sum = total(needed);
  if (sum <= room) {
    const slack = Math.min(MAX_SLACK, (room - sum) / needed.length);
    return needed.map((width) => width + slack);
  }
  // A cut number would be a different number, so only text columns are narrowed.
  const texts = needed.map((width, index) => (isText(columns[index]) ? width : 0));
  const left = Math.max(0, room - (sum - total(texts)));
  return needed.map((width, index) => (isText(columns[index]) ? (width / total(texts)) * left : width));
}

function total(widths: readonly number[]): number {
  return widths.reduce((sum, width) => sum + width, 0);
}
