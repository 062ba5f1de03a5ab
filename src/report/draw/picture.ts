/**
 * Draws a chart specification without a browser: Vega makes SVG, for pages, and resvg turns it into a PNG, for mails. The
 * font of pictures is in an npm package, so the same report looks the same on every machine. The libraries load on first
 * use.
 */
import { createRequire } from 'node:module';
import type { TopLevelSpec } from 'vega-lite';
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
