/**
 * The report as PDF, of at most six pages: on the first one the mail's first screen and the charts, then tables, formulas and the
 * origin of the numbers. The SQL that rebuilds them is a file attached to it: nobody reads it on paper. Invariant: it computes no
 * number, and the same model gives the same bytes (the document's date is the report's). Everything drawn is either part of the
 * document's structure, for screen readers, or marked as decoration.
 */

import { createRequire } from 'node:module';
import { formatInstant } from '../../core/date-text.ts';
import { listFigures } from '../draw/figures.ts';
import { buildAccent, LIGHT } from '../draw/palette.ts';
import { drawSvg } from '../draw/picture.ts';
import { cleanNote, type ReportWords } from '../look.ts';
import type { FlowReport } from '../model.ts';
import { type AttachedTable, type Column, isText, printTable } from '../report-table.ts';
import { listTables } from '../report-tables.ts';
import { listConventions } from '../text/captions.ts';
import { cleanLabel, cleanLine } from '../text/label.ts';
import { buildMailView, type FlowView } from '../text/mail-view.ts';
import { describeGaps } from '../text/subject.ts';
import { drawChart } from './pdf-chart.ts';

const SMALL = 8;
const PLAIN = { type: 'P', size: SMALL } as const;
/** Longer, and nobody prints it. */
const MAX_PAGES = 6;
/** Upper bound of what is after the tables, points. */
const CLOSING_HEIGHT = 370;

/** What a job file says about the look of the PDF: the title filled in, the note as it was written. */
export type PdfLook = Partial<Pick<ReportWords, 'accent' | 'note'>> & { readonly title?: string };

/** @param timezone IANA zone of the reader, for instants; trade times stay in the exchange's wall clock */
export async function formatPdf(report: FlowReport, timezone: string, look: PdfLook = {}): Promise<Uint8Array> {
  const { drop, exposure } = report;
  const view = buildMailView(report, { timezone, link: null, late: false, correction: null });
  const name = look.title || 'Options flow';
  const subject = `${cleanLabel(drop.dataset)}, revision ${drop.revision}`;
  const page = await openPage(`${name} ${drop.date}`, subject, new Date(report.createdAt));
  writeStamp(page, view, { ...look, title: name });
  writeColumns(
    page,
    4,
    listTiles(view).map((tile) => () => writeTile(page, tile)),
  );
  for (const sentence of view.sentences) writeText(page, sentence, { type: 'P', size: 10 });
  for (const gap of describeGaps(report)) writeText(page, gap, { type: 'P', size: SMALL + 1, colour: COLOURS.bad });
  const note = cleanNote(look.note ?? '');
  if (note !== '') writeText(page, note, { type: 'P', size: 10, after: 4 });
  // Only the lead symbol's strikes: those of a whole watchlist would take a page per symbol.
  const tables = listTables(report, exposure.lead === null ? [] : [exposure.lead])
    // On a day without trades, key numbers would be names without numbers.
    .filter((table) => printTable(table).columns.length > 1);
  const figures = await Promise.all(
    listFigures(report).map(async ({ build, ...figure }) => ({ ...figure, svg: await drawSvg(build(LIGHT)) })),
  );
  // The first page of a week has its days and what expired; those of its last session follow.
  const ofWeek = figures.filter(({ id }) => id === 'week-chart');
  const ofDay = figures.filter((figure) => !ofWeek.includes(figure));
  writeColumns(page, 2, [
    ...ofWeek.map((figure) => () => writeFigure(page, figure)),
    ...tables.filter(isExpired).map((table) => () => writeTable(page, table)),
  ]);
  makeRoom(page, ofDay.length === 0 ? 0 : CHARTS_HEIGHT);
  writeColumns(page, 2, [
    ...ofDay.map((figure) => () => writeFigure(page, figure)),
    ...tables.filter(isMoved).map((table) => () => writeMoved(page, table, view)),
  ]);
  const leftOut: string[] = [];
  for (const table of tables.filter((one) => !isMoved(one) && !isExpired(one))) {
    if (hasRoom(page, table)) writeTable(page, table);
    else leftOut.push(table.title);
  }
  writeOrigin(page, report, timezone, leftOut);
  return await closePage(page, `${name} ${drop.date}, ${cleanLabel(drop.dataset)} revision ${drop.revision}`);
}

function writeStamp(page: PdfPage, { day, stamp, trades: counted, empty }: FlowView, look: PdfLook): void {
  const { label, notice, rows, revision, from, until, done, sealedAt } = stamp;
  const when = from === '' ? '' : `, ${from} to ${until} New York`;
  const trades = empty ? 'no trades' : `${counted} counted${when}`;
  const colour = look.accent ? buildAccent(look.accent).light : COLOURS.ink;
  writeText(page, look.title ?? '', { type: 'H1', font: 'bold', size: 20, colour });
  writeText(page, day, { type: 'P', size: 12, colour: COLOURS.faint, after: 6 });
  writeText(page, notice === null ? label : `${label}. ${notice.title} ${notice.text}`, {
    type: 'P',
    font: 'bold',
    size: 9.5,
    colour: notice === null ? COLOURS.good : COLOURS.bad,
  });
  const sealed = `${rows}, revision ${revision}; ${trades}; ${done} ${sealedAt}`;
  writeText(page, sealed, { type: 'P', size: SMALL + 1, colour: COLOURS.faint, after: 8 });
}

type Tile = readonly [name: string, value: string, notes: readonly string[], colour?: string];

/** Those of the mail's first screen. Empty notes are left out. */
function listTiles({ empty, premium, premiumChanges, lean, leanTone, bar, lead }: FlowView): readonly Tile[] {
  const shares = bar.map(({ name, dollars, share }) => `${name} ${dollars}, ${share}`);
  const tiles: Tile[] = [['Total premium', premium, premiumChanges]];
  if (!empty) tiles.push(['Net sentiment', lean, shares, COLOURS[leanTone]]);
  if (lead === null) return tiles;
  const { symbol, netGex, netGexChange, basis, netGexAfter, spot, spotChange, distance, zeroGamma } = lead;
  const after = (what: string) => what && `${what} after expiration`;
  const price = [spotChange && `price ${spotChange}`, distance && `zero gamma ${zeroGamma}`];
  tiles.push([`Net GEX ${symbol}`, netGex, [netGexChange, `per 1% move, ${basis}`, after(netGexAfter)]]);
  tiles.push([`Last price ${spot}`, distance || 'no zero gamma', [...price, after(lead.zeroGammaAfter)]]);
  return tiles;
}

function writeTile(page: PdfPage, [name, value, notes, colour = COLOURS.ink]: Tile): void {
  const { doc, x, width } = page;
  doc.markContent('Artifact', { type: 'Layout' });
  doc.rect(x, doc.y, width, 2).fill(COLOURS.band);
  doc.endMarkedContent();
  doc.y += 6;
  writeText(page, name, { type: 'P', size: SMALL, colour: COLOURS.faint });
  writeText(page, value, { type: 'P', font: 'bold', size: 13, colour, after: 2 });
  for (const note of notes.filter(Boolean)) writeText(page, note, PLAIN);
}

function writeTable(page: PdfPage, table: AttachedTable): void {
  writeHeading(page, table.title, measureTable(table));
  drawTable(page, table);
}

function isMoved({ name }: AttachedTable): boolean {
  return name === 'moved';
}

function isExpired({ name }: AttachedTable): boolean {
  return name === 'expired-in-the-week';
}

/** As in the mail: a column has no room for the dates of earnings. */
function writeMoved(page: PdfPage, table: AttachedTable, { movedEarnings }: FlowView): void {
  const columns = table.columns.filter(({ name }) => name !== 'earnings_date');
  writeTable(page, { ...table, columns, rows: table.rows.map((row) => row.slice(0, columns.length)) });
  if (movedEarnings !== '') writeText(page, movedEarnings, { type: 'Caption', size: SMALL, colour: COLOURS.faint });
}

/** Upper bound of the charts in two columns, points. */
const CHARTS_HEIGHT = 420;

/** @param figure `finding`: what a screen reader reads instead of the picture */
function writeFigure(page: PdfPage, { title, finding, svg }: Readonly<Record<'title' | 'finding' | 'svg', string>>) {
  const { doc, body, x, width } = page;
  writeHeading(page, title, 0);
  const { y } = doc;
  const draw = () => {
    doc.y = y + drawChart(doc, svg, { x, y, width });
  };
  body.add(doc.struct('Figure', { alt: finding }, draw));
  writeText(page, finding, { type: 'Caption', size: SMALL, colour: COLOURS.faint });
}

function writeOrigin(page: PdfPage, report: FlowReport, timezone: string, leftOut: readonly string[]): void {
  const { drop, createdAt, rebuildQueries } = report;
  writeHeading(page, 'Conventions', 60);
  for (const { term, text } of listConventions(report)) writeText(page, `${term}: ${text}`, { ...PLAIN, after: 2 });
  writeHeading(page, 'Where the numbers come from', 60);
  writeText(page, `Every number is computed from the sealed file ${cleanLine(drop.location)}`, PLAIN);
  writeText(page, `SHA-256 ${cleanLine(drop.sha256)}`, PLAIN);
  writeText(page, `This report was made ${formatInstant(createdAt, timezone)}.`, PLAIN);
  if (leftOut.length > 0) writeText(page, `Too long to print, but in the full report: ${leftOut.join(', ')}.`, PLAIN);
  if (rebuildQueries.length === 0) return;
  const name = `${drop.dataset}-${drop.date}-rebuild.sql`.replace(/[^\w.-]/g, '_');
  // Each as the full report prints it.
  const sql = rebuildQueries.map((query) => `-- ${cleanLabel(query.table)}\n${query.sql}\n`).join('\n');
  const dates = { creationDate: new Date(createdAt), modifiedDate: new Date(createdAt) };
  page.doc.file(Buffer.from(sql), { name, type: 'application/sql', ...dates });
  const what = report.week ? 'every table of the last session' : 'every table';
  const where = `The SQL that rebuilds ${what}, in DuckDB or ClickHouse, is attached to this PDF: ${name}`;
  writeText(page, where, PLAIN);
}

/** The paper of the U.S. desks that read it; other printers scale it by 3%. */
const PAPER = 'LETTER';
const MARGINS = { top: 40, right: 40, bottom: 52, left: 40 } as const;

const FONTS = {
  plain: 'dejavu-fonts-ttf/ttf/DejaVuSansCondensed.ttf',
  bold: 'dejavu-fonts-ttf/ttf/DejaVuSansCondensed-Bold.ttf',
} as const;

type FontName = keyof typeof FONTS;

/** Text colours are dark enough on white for small print: a contrast of 7:1 or more. */
const COLOURS = {
  ink: '#1d2630',
  faint: '#4a5663',
  good: '#1b5e35',
  bad: '#8a3b00',
  bullish: '#17609f',
  neutral: '#4a5663',
  bearish: '#8a3b00',
  stripe: '#f3f5f7',
  band: '#dfe5eb',
} as const;

interface PdfPage {
  readonly doc: PDFKit.PDFDocument;
  /** Root of the document's structure. */
  readonly body: PDFKit.PDFStructureElement;
  /** The column that is written to: its left edge and its width. */
  x: number;
  width: number;
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
  return { doc, body, x: MARGINS.left, width: doc.page.width - MARGINS.left - MARGINS.right };
}

interface TextStyle {
  /** `H1`, `H2`, `P`, `Caption`. */
  readonly type: string;
  readonly font?: FontName;
  readonly size: number;
  readonly colour?: string;
  /** Space below, points. */
  readonly after?: number;
}

function writeText({ doc, body, x, width }: PdfPage, text: string, style: TextStyle): void {
  const { type, font = 'plain', size, colour = COLOURS.ink, after = 0 } = style;
  doc.font(font).fontSize(size).fillColor(colour);
  doc.text(text, x, doc.y, { width, structParent: body, structType: type, lineGap: 1.5 });
  doc.y += after;
}

/** Between columns, points. */
const GAP = 16;
/** With the space above it. */
const HEADING_HEIGHT = 38;

/** Writes a heading that is also a bookmark, on a page with room for what must follow it. */
function writeHeading(page: PdfPage, text: string, followingHeight: number): void {
  const { doc } = page;
  makeRoom(page, followingHeight + HEADING_HEIGHT);
  doc.y += 14;
  doc.outline.addItem(text);
  writeText(page, text, { type: 'H2', font: 'bold', size: 11.5, after: 4 });
}

function makeRoom({ doc }: PdfPage, height: number): void {
  // A new page would not have more room than an empty one.
  if (doc.y > doc.page.margins.top && doc.y + height > doc.page.maxY()) doc.addPage();
}

/** Whether a table, and after it what is on the last page, end on that page. */
function hasRoom({ doc }: PdfPage, table: AttachedTable): boolean {
  const height = measureTable(table, table.rows.length);
  const rest = doc.page.maxY() - doc.y - HEADING_HEIGHT;
  const pages = MAX_PAGES - doc.bufferedPageRange().count;
  const whole = doc.page.maxY() - MARGINS.top - HEADING_HEIGHT;
  return height + CLOSING_HEIGHT < (rest < measureTable(table) ? 0 : rest) + pages * whole;
}

/** Writes each block into the column that is shortest then; they must fit on this page. */
function writeColumns(page: PdfPage, count: number, blocks: readonly (() => void)[]): void {
  const { doc, x, width } = page;
  const ends = Array.from({ length: count }, () => doc.y);
  page.width = (width - (count - 1) * GAP) / count;
  for (const write of blocks) {
    const place = ends.indexOf(Math.min(...ends));
    page.x = x + place * (page.width + GAP);
    doc.y = ends[place] ?? doc.y;
    write();
    ends[place] = doc.y;
  }
  doc.y = Math.max(...ends) + GAP / 2;
  Object.assign(page, { x, width });
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
    position: { x: page.x, y: doc.y },
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
  const { doc, width: room } = page;
  const measure = (text: string) => doc.widthOfString(text) + PADDING.left + PADDING.right + 1;
  doc.font('bold').fontSize(FONT_SIZE);
  const headWidths = head.map(measure);
  doc.font('plain');
  const needed = headWidths.map((width, index) => Math.max(width, ...rows.map((row) => measure(row[index] ?? ''))));
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
