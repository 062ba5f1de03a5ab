/**
 * The look of the PDF: paper, fonts, colours, and the building blocks of a page. Invariant: everything drawn is either
 * part of the document's structure, for screen readers, or marked as decoration.
 */
import { createRequire } from 'node:module';

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
export const COLOURS = {
  ink: '#1d2630',
  faint: '#4a5663',
  good: '#1b5e35',
  bad: '#8a3b00',
  stripe: '#f3f5f7',
  band: '#dfe5eb',
} as const;

export interface PdfPage {
  readonly doc: PDFKit.PDFDocument;
  /** Root of the document's structure. */
  readonly body: PDFKit.PDFStructureElement;
}

interface PageOptions {
  readonly title: string;
  readonly subject: string;
  readonly createdAt: Date;
}

/** Sets all dates that pdfkit would take from the clock, so that the same report gives the same bytes. */
export async function openPage({ title, subject, createdAt }: PageOptions): Promise<PdfPage> {
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

export function writeText({ doc, body }: PdfPage, text: string, style: TextStyle): void {
  const { type, font = 'plain', size, colour = COLOURS.ink, after = 0 } = style;
  doc.font(font).fontSize(size).fillColor(colour);
  doc.text(text, MARGINS.left, doc.y, { structParent: body, structType: type, lineGap: 1.5 });
  doc.y += after;
}

/** Writes a heading that is also a bookmark, on a page with room for what must follow it. */
export function writeHeading(page: PdfPage, text: string, followingHeight: number): void {
  const { doc } = page;
  doc.y += 14;
  makeRoom(page, followingHeight + 24);
  doc.outline.addItem(text);
  writeText(page, text, { type: 'H2', font: 'bold', size: 11.5, after: 4 });
}

export function makeRoom({ doc }: PdfPage, height: number): void {
  // A new page would not have more room than an empty one.
  if (doc.y > doc.page.margins.top && doc.y + height > doc.page.maxY()) doc.addPage();
}

export function contentWidth({ doc }: PdfPage): number {
  return doc.page.width - doc.page.margins.left - doc.page.margins.right;
}

/** @param alt text that a screen reader reads instead of the image */
export function placePicture({ doc, body }: PdfPage, png: Uint8Array, alt: string, width: number): void {
  const place = () => void doc.image(Buffer.from(png), MARGINS.left, doc.y, { width });
  body.add(doc.struct('Figure', { alt }, place));
  doc.y += scaledHeight(png, width);
}

/** The height of a PNG scaled to a width. */
export function scaledHeight(png: Uint8Array, width: number): number {
  // PNG, 11.2.2: width and height are the first fields of the first chunk.
  const view = new DataView(png.buffer, png.byteOffset);
  return (view.getUint32(20) / view.getUint32(16)) * width;
}

/** Writes the footer of every page, which needs the page count, and returns the file. */
export async function closePage({ doc, body }: PdfPage, foot: string): Promise<Uint8Array> {
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
