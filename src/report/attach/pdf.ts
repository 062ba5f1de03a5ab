/**
 * The report as PDF: completeness stamp, key numbers, charts, tables, and the origin of the numbers. Invariant: it
 * computes no number, and the same model gives the same bytes (the document's date is the report's). Everything drawn is
 * either part of the document's structure, for screen readers, or marked as decoration.
 */

import { createRequire } from 'node:module';
import { formatDay, formatInstant } from '../../core/date-text.ts';
import { countOf } from '../../core/units.ts';
import { CHART_WIDTH } from '../draw/chart.ts';
import { listFigures } from '../draw/figures.ts';
import { buildAccent, LIGHT } from '../draw/palette.ts';
import { renderPicture } from '../draw/picture.ts';
import { cleanNote, type ReportWords } from '../look.ts';
import type { FlowReport } from '../model.ts';
import { type AttachedTable, type Column, isText, printTable } from '../report-table.ts';
import { listTables } from '../report-tables.ts';
import { listConventions } from '../text/captions.ts';
import { cleanLabel, cleanLine } from '../text/label.ts';
import { buildStamp } from '../text/mail-view.ts';
import { buildSentences } from '../text/sentences.ts';
import { describeGaps } from '../text/subject.ts';

const SMALL = 8;

/** What a job file says about the look of the PDF: the title filled in, the note as it was written. */
export type PdfLook = Partial<Pick<ReportWords, 'accent' | 'note'>> & { readonly title?: string };

/** @param timezone IANA zone of the reader, for instants; trade times stay in the exchange's wall clock */
export async function formatPdf(report: FlowReport, timezone: string, look: PdfLook = {}): Promise<Uint8Array> {
  const { drop, exposure } = report;
  // Only the lead symbol's strikes: those of a whole watchlist would take a page per symbol.
  const tables = listTables(report, exposure.lead === null ? [] : [exposure.lead]);
  const name = look.title || 'Options flow';
  const subject = `${cleanLabel(drop.dataset)}, revision ${drop.revision}`;
  const page = await openPage(`${name} ${drop.date}`, subject, new Date(report.createdAt));
  writeStamp(page, report, timezone, { ...look, title: name });
  const [first, ...others] = tables;
  if (first !== undefined) writeTable(page, first);
  for (const { id, title, finding, build } of listFigures(report)) {
    const png = await renderPicture(build(LIGHT), CHART_WIDTH);
    writeFigure(page, id === 'symbols-chart' ? 'The largest symbols' : title, finding, png);
  }
  for (const table of others) writeTable(page, table);
  writeOrigin(page, report, timezone);
  return await closePage(page, `${name} ${drop.date}, ${cleanLabel(drop.dataset)} revision ${drop.revision}`);
}

function writeStamp(
  page: PdfPage,
  report: FlowReport,
  timezone: string,
  { title = '', accent, note = '' }: PdfLook,
): void {
  const { drop, headline } = report;
  const { label, notice, rows, revision, from, until, sealedAt } = buildStamp(report, timezone);
  const trades =
    headline.trades === 0 ? 'no trades' : `${countOf(headline.trades, 'trade')} counted, ${from} to ${until} New York`;
  const colour = accent ? buildAccent(accent).light : COLOURS.ink;
  writeText(page, title, { type: 'H1', font: 'bold', size: 20, colour });
  writeText(page, formatDay(drop.date), { type: 'P', size: 12, colour: COLOURS.faint, after: 6 });
  writeText(page, notice === null ? label : `${label}. ${notice.title} ${notice.text}`, {
    type: 'P',
    font: 'bold',
    size: 9.5,
    colour: notice === null ? COLOURS.good : COLOURS.bad,
  });
  writeText(page, `${rows}, revision ${revision}; ${trades}; sealed ${sealedAt}`, {
    type: 'P',
    size: SMALL + 1,
    colour: COLOURS.faint,
    after: 6,
  });
  for (const sentence of buildSentences(report)) writeText(page, sentence, { type: 'P', size: 10 });
  for (const gap of describeGaps(report)) writeText(page, gap, { type: 'P', size: SMALL + 1, colour: COLOURS.bad });
  const words = cleanNote(note);
  if (words !== '') writeText(page, words, { type: 'P', size: 10, after: 4 });
}

function writeTable(page: PdfPage, table: AttachedTable): void {
  writeHeading(page, table.title, measureTable(table));
  drawTable(page, table);
}

function writeFigure(page: PdfPage, title: string, finding: string, png: Uint8Array): void {
  const width = contentWidth(page) * 0.86;
  writeHeading(page, title, scaledHeight(png, width) + 30);
  placePicture(page, png, finding, width);
  writeText(page, finding, { type: 'Caption', size: SMALL + 1, colour: COLOURS.faint });
}

function writeOrigin(page: PdfPage, report: FlowReport, timezone: string): void {
  const { drop, createdAt, rebuildQueries } = report;
  writeHeading(page, 'Conventions', 60);
  for (const { term, text } of listConventions(report)) writeText(page, `${term}: ${text}`, origin(2));
  writeHeading(page, 'Where the numbers come from', 60);
  writeText(page, `Every number is computed from the sealed file ${cleanLine(drop.location)}`, origin());
  writeText(page, `SHA-256 ${cleanLine(drop.sha256)}`, origin());
  writeText(page, `This report was made ${formatInstant(createdAt, timezone)}.`, origin(4));
  if (rebuildQueries.length === 0) return;
  writeText(page, 'These queries rebuild the tables, in DuckDB or ClickHouse:', origin(4));
  for (const { table, sql } of rebuildQueries) {
    makeRoom(page, 60);
    writeText(page, cleanLabel(table), { type: 'P', font: 'bold', size: SMALL });
    writeText(page, cleanCode(sql), { type: 'Code', font: 'code', size: 6.5, after: 5 });
  }
}

function origin(after = 0) {
  return { type: 'P', size: SMALL, after } as const;
}

/** Keeps line ends; other control characters and direction marks could change what the text appears to say. */
function cleanCode(sql: string): string {
  return sql
    .split(/\r?\n/)
    .map((line) => line.replace(/[^\P{C}\t]/gu, ' ').replaceAll('\t', '  '))
    .join('\n');
}

/** The paper of the U.S. desks that read it; other printers scale it by 3%. */
const PAPER = 'LETTER';
const MARGINS = { top: 40, right: 40, bottom: 52, left: 40 } as const;

const FONTS = {
  plain: 'dejavu-fonts-ttf/ttf/DejaVuSansCondensed.ttf',
  bold: 'dejavu-fonts-ttf/ttf/DejaVuSansCondensed-Bold.ttf',
  code: 'dejavu-fonts-ttf/ttf/DejaVuSansMono.ttf',
} as const;

type FontName = keyof typeof FONTS;

/** Text colours are dark enough on white for small print: a contrast of 7:1 or more. */
const COLOURS = {
  ink: '#1d2630',
  faint: '#4a5663',
  good: '#1b5e35',
  bad: '#8a3b00',
  stripe: '#f3f5f7',
  band: '#dfe5eb',
} as const;

interface PdfPage {
  readonly doc: PDFKit.PDFDocument;
  /** Root of the document's structure. */
  readonly body: PDFKit.PDFStructureElement;
}

/** Sets all dates that pdfkit would take from the clock, so that the same report gives the same bytes. */
async function openPage(title: string, subject: string, createdAt: Date): Promise<PdfPage> {
  const { default: PDFDocument } = await import('pdfkit');
  const { resolve } = createRequire(import.meta.url);
  const doc = new PDFDocument({
    size: PAPER,
    margins: MARGINS,
    pdfVersion: '1.7',
    tagged: true,
    lang: 'en-US',
    displayTitle: true,
    bufferPages: true,
    font: resolve(FONTS.plain),
    info: {
      Title: title,
      Subject: subject,
      Author: 'flowdrop',
      Creator: 'flowdrop',
      Producer: 'flowdrop (pdfkit)',
      CreationDate: createdAt,
      ModDate: createdAt,
    },
  });
  for (const [name, file] of Object.entries(FONTS)) doc.registerFont(name, resolve(file));
  const body = doc.struct('Document');
  doc.addStructure(body);
  return { doc, body };
}

interface TextStyle {
  /** `H1`, `H2`, `P`, `Code`, `Caption`. */
  readonly type: string;
  readonly font?: FontName;
  readonly size: number;
  readonly colour?: string;
  /** Space below, points. */
  readonly after?: number;
}

function writeText({ doc, body }: PdfPage, text: string, style: TextStyle): void {
  const { type, font = 'plain', size, colour = COLOURS.ink, after = 0 } = style;
  doc.font(font).fontSize(size).fillColor(colour);
  doc.text(text, MARGINS.left, doc.y, { structParent: body, structType: type, lineGap: 1.5 });
  doc.y += after;
}

/** Writes a heading that is also a bookmark, on a page with room for what must follow it. */
function writeHeading(page: PdfPage, text: string, followingHeight: number): void {
  const { doc } = page;
  doc.y += 14;
  makeRoom(page, followingHeight + 24);
  doc.outline.addItem(text);
  writeText(page, text, { type: 'H2', font: 'bold', size: 11.5, after: 4 });
}

function makeRoom({ doc }: PdfPage, height: number): void {
  // A new page would not have more room than an empty one.
  if (doc.y > doc.page.margins.top && doc.y + height > doc.page.maxY()) doc.addPage();
}

function contentWidth({ doc }: PdfPage): number {
  return doc.page.width - doc.page.margins.left - doc.page.margins.right;
}

/** @param alt text that a screen reader reads instead of the image */
function placePicture({ doc, body }: PdfPage, png: Uint8Array, alt: string, width: number): void {
  const place = () => void doc.image(Buffer.from(png), MARGINS.left, doc.y, { width });
  body.add(doc.struct('Figure', { alt }, place));
  doc.y += scaledHeight(png, width);
}

/** The height of a PNG scaled to a width. */
function scaledHeight(png: Uint8Array, width: number): number {
  // PNG, 11.2.2: width and height are the first fields of the first chunk.
  const view = new DataView(png.buffer, png.byteOffset);
  return (view.getUint32(20) / view.getUint32(16)) * width;
}

/** Writes the footer of every page, which needs the page count, and returns the file. */
async function closePage({ doc, body }: PdfPage, foot: string): Promise<Uint8Array> {
  body.end();
  const { start, count } = doc.bufferedPageRange();
  for (let index = start; index < start + count; index += 1) {
    doc.switchToPage(index);
    // pdfkit would start a new page for text below the margin.
    doc.page.margins.bottom = 0;
    doc.markContent('Artifact', { type: 'Pagination' });
    doc.font('plain').fontSize(7.5).fillColor(COLOURS.faint);
    const y = doc.page.height - 34;
    const width = doc.page.width - MARGINS.left - MARGINS.right;
    doc.text(foot, MARGINS.left, y, { width, lineBreak: false });
    doc.text(`Page ${index - start + 1} of ${count}`, MARGINS.left, y, { width, align: 'right' });
    doc.endMarkedContent();
  }
  doc.end();
  const chunks: Buffer[] = [];
  for await (const chunk of doc) chunks.push(Buffer.from(chunk));
  return new Uint8Array(Buffer.concat(chunks));
}

const FONT_SIZE = 7.5;
const ROW_HEIGHT = 13;
const PADDING = { top: 2.2, right: 4, bottom: 2.2, left: 4 } as const;
/** Points that a column may be wider than its content; with more, the eye loses the line. */
const MAX_SLACK = 36;

/** Height of the table with its header, or of its first `maxRows` rows, which stay together on a page. */
function measureTable(table: AttachedTable, maxRows = 10): number {
  return (Math.min(table.rows.length, maxRows) + 1) * ROW_HEIGHT;
}

function drawTable(page: PdfPage, table: AttachedTable): void {
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
