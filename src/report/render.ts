/**
 * Renders the report as a mail: subject, HTML, text and the images that the HTML shows. Invariant: rendering computes
 * no number; the same model, templates and options give the same mail. It sends nothing; `mail/` does.
 */
import type { TopLevelSpec } from 'vega-lite';
import type { InlineImage } from '../mail/mailer.ts';
import { buildDigestView, type DigestPart } from './digest.ts';
import { buildSessionChart, buildSymbolChart, SHOWN_WIDTH } from './draw/chart.ts';
import { DARK, LIGHT, type Palette } from './draw/palette.ts';
import { renderPicture } from './draw/picture.ts';
import { buildStrikeChart } from './draw/strikes.ts';
import { USUAL_LOOK } from './look.ts';
import type { FlowReport } from './model.ts';
import { MAIL_TABLES } from './report-tables.ts';
import { alignLeft, alignRight, renderHtmlTemplate, renderTextTemplate } from './template.ts';
import { buildFlowView, type ViewOptions } from './text/mail-view.ts';
import { renderNote } from './text/note.ts';

export interface RenderOptions extends ViewOptions {
  /** The shipped templates; the look may have some of its own. */
  readonly templatesDir: string;
}

export interface RenderedReport {
  readonly subject: string;
  readonly html: string;
  readonly text: string;
  /** Images that the HTML references by `cid:`; none on an empty day. */
  readonly images: readonly InlineImage[];
}

/**
 * Renders the report with `flow.mjml` and `flow.txt` of a folder.
 * @throws Fault `TEMPLATE_INVALID` (kind `usage`) if a template is missing or invalid
 */
export async function renderFlowReport(report: FlowReport, options: RenderOptions): Promise<RenderedReport> {
  const view = buildFlowView(report, options);
  const { html, text } = await fillTemplates('flow', view, options);
  return {
    subject: view.subject,
    html,
    text,
    images: [...showLogo(html, options), ...(await drawCharts(report, html))],
  };
}

/**
 * Renders several datasets' reports as one mail, with `digest.mjml` and `digest.txt`. Its only image is the logo.
 * @throws Fault `TEMPLATE_INVALID` (kind `usage`) if a template is missing or invalid
 */
export async function renderDigest(reports: readonly DigestPart[], options: RenderOptions): Promise<RenderedReport> {
  const view = buildDigestView(reports, options);
  const { html, text } = await fillTemplates('digest', view, options);
  return { subject: view.subject, html, text, images: showLogo(html, options) };
}

async function fillTemplates(name: string, view: object, { templatesDir, look = USUAL_LOOK }: RenderOptions) {
  const note = await renderNote(look.note);
  const printed = { ...view, note, tables: MAIL_TABLES, chartWidth: SHOWN_WIDTH, left: alignLeft, right: alignRight };
  const folders = { shipped: templatesDir, own: look.templates };
  return {
    html: await renderHtmlTemplate(folders, name, printed),
    text: await renderTextTemplate(folders, name, printed),
  };
}

/** Like the charts, only if the HTML references it. */
function showLogo(html: string, { look }: RenderOptions): readonly InlineImage[] {
  if (!look?.logo || !html.includes('cid:logo"')) return [];
  return [{ cid: 'logo', filename: 'logo.png', png: look.logo.png }];
}

/** Draws only the images that the HTML references: others would appear as attachments. */
async function drawCharts(report: FlowReport, html: string): Promise<readonly InlineImage[]> {
  const { lead } = report.exposure;
  const charts: readonly (readonly [string, string, (palette: Palette) => TopLevelSpec])[] = [
    ['session', 'sentiment-through-the-day', (palette) => buildSessionChart(report.halfHours, palette)],
    ['symbols', 'premium-by-symbol', (palette) => buildSymbolChart(report.topSymbols, palette)],
    ...(lead === null
      ? []
      : [['strikes', 'gex-by-strike', (palette: Palette) => buildStrikeChart(lead, palette)] as const]),
  ];
  const images: InlineImage[] = [];
  for (const [name, filename, build] of charts) {
    for (const [suffix, palette] of [
      ['', LIGHT],
      ['-dark', DARK],
    ] as const) {
      const cid = `${name}${suffix}`;
      // Whole: `session` is also the beginning of `session-dark`.
      if (!html.includes(`cid:${cid}"`)) continue;
      images.push({ cid, filename: `${filename}${suffix}.png`, png: await renderPicture(build(palette), SHOWN_WIDTH) });
    }
  }
  return images;
}
