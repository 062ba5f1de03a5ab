/**
 * Renders a chart specification to a PNG without a browser: Vega draws SVG, and resvg turns it into pixels. The font is
 * in an npm package, so the same report looks the same on every machine. The libraries load on first use.
 */
import { createRequire } from 'node:module';
import type { TopLevelSpec } from 'vega-lite';
import { CHART_FONT } from './chart.ts';

/** Image pixels per CSS pixel: sharp on a phone's screen. */
const PIXEL_RATIO = 2;

const FONT_FILES = ['dejavu-fonts-ttf/ttf/DejaVuSans.ttf', 'dejavu-fonts-ttf/ttf/DejaVuSans-Bold.ttf'] as const;

/** @param shownWidth width in the mail, CSS pixels; the PNG is twice as wide */
export async function renderPicture(spec: TopLevelSpec, shownWidth: number): Promise<Uint8Array> {
  const [vega, vegaLite, { Resvg }] = await Promise.all([
    import('vega'),
    import('vega-lite'),
    import('@resvg/resvg-js'),
  ]);
  const view = new vega.View(vega.parse(vegaLite.compile(spec).spec), { renderer: 'none' });
  try {
    const svg = await view.toSVG();
    const { resolve } = createRequire(import.meta.url);
    const drawing = new Resvg(svg, {
      fitTo: { mode: 'width', value: shownWidth * PIXEL_RATIO },
      background: '#ffffff',
      font: {
        loadSystemFonts: false,
        fontFiles: FONT_FILES.map((file) => resolve(file)),
        defaultFontFamily: CHART_FONT,
      },
    });
    return drawing.render().asPng();
  } finally {
    view.finalize();
  }
}
