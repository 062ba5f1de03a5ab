/**
 * Draws the SVG of a chart into a PDF, as lines, areas and words: sharp at every size, and small. It knows what Vega writes for
 * our charts and no other SVG: groups that move or clip what is in them, paths, lines, rectangles and words, some of
 * them pale.
 */

/** An element's tag, with the words behind it. Vega writes no `>` in an attribute. */
const TAG = /<(\/?)(\w+)([^>]*)>([^<]*)/g;

const ENTITIES: Readonly<Record<string, string>> = { lt: '<', gt: '>', amp: '&', quot: '"' };

type Attributes = Readonly<Record<string, string | undefined>>;

/**
 * @param at place of its upper left corner, and its width, points
 * @returns its height. Its words are in the fonts `plain` and `bold` of the document, which are not wider than the chart's own
 */
export function drawChart(
  doc: PDFKit.PDFDocument,
  svg: string,
  at: { readonly x: number; readonly y: number; readonly width: number },
): number {
  const clips = new Map([...svg.matchAll(/<clipPath id="(\w+)"><path d="([^"]+)"/g)].map(([, id, d]) => [id, d]));
  const { width, height } = readAttributes(svg.slice(0, svg.indexOf('>')));
  const scale = at.width / Number(width);
  doc.save().translate(at.x, at.y).scale(scale);
  for (const [, end, tag, written = '', words = ''] of svg.replace(/<defs>.*?<\/defs>/s, '').matchAll(TAG)) {
    if (end !== '') {
      if (tag === 'g') doc.restore();
      continue;
    }
    const attributes = readAttributes(written);
    const [, x = 0, y = 0] = /^translate\(([^,]+),([^,]+)\)$/.exec(attributes['transform'] ?? '') ?? [];
    doc.save().translate(Number(x), Number(y));
    const clip = clips.get(/^url\(#(\w+)\)$/.exec(attributes['clip-path'] ?? '')?.[1]);
    if (clip !== undefined) doc.path(clip).clip();
    if (attributes['opacity'] !== undefined) doc.opacity(Number(attributes['opacity']));
    if (tag === 'g') continue;
    const isShown = tag !== 'svg' && attributes['display'] !== 'none' && attributes['opacity'] !== '0';
    if (isShown && tag === 'text') drawWords(doc, words, attributes);
    else if (isShown) drawShape(doc, attributes);
    doc.restore();
  }
  doc.restore();
  return Number(height) * scale;
}

function readAttributes(tag: string): Attributes {
  return Object.fromEntries([...tag.matchAll(/([\w-]+)="([^"]*)"/g)].map(([, name, value]) => [name, value]));
}

/** A path, a line from its own origin, or a rectangle at it. What has no fill is not filled. */
function drawShape(doc: PDFKit.PDFDocument, attributes: Attributes): void {
  const { d, x2, y2, width, height, fill = 'none', stroke = 'none' } = attributes;
  if (d === '' || (fill === 'none' && stroke === 'none')) return;
  if (d !== undefined) doc.path(d);
  else if (width !== undefined) doc.rect(0, 0, Number(width), Number(height));
  else doc.moveTo(0, 0).lineTo(Number(x2 ?? 0), Number(y2 ?? 0));
  if (fill !== 'none') return void doc.fill(fill);
  const [dash, space] = (attributes['stroke-dasharray'] ?? '').split(',').map(Number);
  if (dash) doc.dash(dash, { space });
  doc.lineWidth(Number(attributes['stroke-width'] ?? 1)).stroke(stroke);
}

function drawWords(doc: PDFKit.PDFDocument, words: string, attributes: Attributes): void {
  const text = words.replace(/&(\w+);/g, (entity, name) => ENTITIES[name] ?? entity);
  doc.font(attributes['font-weight'] === 'bold' ? 'bold' : 'plain');
  doc.fontSize(Number.parseFloat(attributes['font-size'] ?? '')).fillColor(attributes['fill'] ?? '#000000');
  const part = { start: 0, middle: 0.5, end: 1 }[attributes['text-anchor'] ?? 'start'] ?? 0;
  doc.text(text, -doc.widthOfString(text) * part, 0, { lineBreak: false, baseline: 'alphabetic' });
}
