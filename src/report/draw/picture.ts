/**
 * Draws a chart specification without a browser: Vega makes SVG, for pages, and resvg turns it into a PNG, for mails. A
 * report's logo becomes a PNG as small as it is shown, so nothing that an SVG or a JPEG may contain besides its picture
 * reaches a reader. The font is in an npm package: the same report looks the same everywhere. The libraries load on first use.
 */
import { createRequire } from 'node:module';
import type { TopLevelSpec } from 'vega-lite';
import { describeError, Fault } from '../../core/errors.ts';
import type { Logo } from '../look.ts';
import { CHART_FONT } from './chart.ts';

/** Image pixels per CSS pixel: sharp on a phone's screen. */
const PIXEL_RATIO = 2;

const FONT_FILES = ['dejavu-fonts-ttf/ttf/DejaVuSans.ttf', 'dejavu-fonts-ttf/ttf/DejaVuSans-Bold.ttf'] as const;

/** @param shownWidth width in the mail, CSS pixels; the PNG is twice as wide */
export async function renderPicture(spec: TopLevelSpec, shownWidth: number): Promise<Uint8Array> {
  const [svg, { Resvg }] = await Promise.all([drawSvg(spec), import('@resvg/resvg-js')]);
  const { resolve } = createRequire(import.meta.url);
  const drawing = new Resvg(svg, {
    fitTo: { mode: 'width', value: shownWidth * PIXEL_RATIO },
    font: {
      loadSystemFonts: false,
      fontFiles: FONT_FILES.map((file) => resolve(file)),
      defaultFontFamily: CHART_FONT,
    },
  });
  return drawing.render().asPng();
}

/** Draws a chart as an SVG element that scales with its width. */
export async function drawSvg(spec: TopLevelSpec): Promise<string> {
  const [vega, vegaLite] = await Promise.all([import('vega'), import('vega-lite')]);
  const view = new vega.View(vega.parse(vegaLite.compile(spec).spec), { renderer: 'none' });
  try {
    // What shows the chart says in words what it shows: the names that Vega gives each mark would be read aloud one by one.
    return (await view.toSVG()).replace(/ (?:role|aria-[a-z]+)="[^"]*"/g, '');
  } finally {
    view.finalize();
  }
}

/** Larger files are photographs, not logos. */
const MAX_LOGO_BYTES = 500_000;
/** Largest size shown, CSS pixels. */
const MAX_WIDTH = 220;
const MAX_HEIGHT = 44;

/** By the first bytes of a file, read as Latin-1. */
function findType(head: string): string | undefined {
  if (head.startsWith('\x89PNG\r\n')) return 'image/png';
  if (head.startsWith('\xff\xd8\xff')) return 'image/jpeg';
  return /^(?:\xef\xbb\xbf)?\s*<(?:\?xml|!DOCTYPE svg|!--|svg[\s>])/.test(head) ? 'image/svg+xml' : undefined;
}

/** Draws the picture at the size of a logo. @throws Fault `LOGO_INVALID` (usage): no picture of a known format, or too large */
export async function drawLogo(file: string, bytes: Uint8Array): Promise<Logo> {
  const fail = (what: string): Fault =>
    new Fault('LOGO_INVALID', `${file}: ${what}`, {
      kind: 'usage',
      hint: 'A logo is a PNG, JPEG or SVG of at most 500 kB.',
    });
  if (bytes.length > MAX_LOGO_BYTES)
    throw fail(`the logo has ${bytes.length} bytes; at most ${MAX_LOGO_BYTES} are allowed`);
  const head = Buffer.from(bytes.subarray(0, 200)).toString('latin1');
  const type = findType(head);
  if (type === undefined) throw fail('the logo is not a PNG, JPEG or SVG');
  const { Resvg } = await import('@resvg/resvg-js');
  const href = `data:${type};base64,${Buffer.from(bytes).toString('base64')}`;
  const font = { loadSystemFonts: false };
  try {
    // Without a size of its own, the image has its natural one.
    const natural = new Resvg(`<svg xmlns="http://www.w3.org/2000/svg"><image href="${href}"/></svg>`, { font });
    const scale = Math.min(1, MAX_WIDTH / natural.width, MAX_HEIGHT / natural.height);
    const [width, height] = [natural.width, natural.height].map((size) => Math.max(1, Math.round(size * scale))) as [
      number,
      number,
    ];
    const size = `width="${width}" height="${height}"`;
    const drawing = `<svg xmlns="http://www.w3.org/2000/svg" ${size}><image href="${href}" ${size}/></svg>`;
    const drawn = new Resvg(drawing, { font, fitTo: { mode: 'width', value: width * PIXEL_RATIO } }).render();
    // A damaged picture is drawn as nothing, without an error.
    if (drawn.pixels.some((value) => value !== 0)) return { png: drawn.asPng(), width, height };
  } catch (error) {
    throw fail(`the logo cannot be drawn: ${describeError(error)}`);
  }
  throw fail('the logo shows nothing: it is damaged, or empty');
}
