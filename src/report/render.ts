/**
 * The report as a mail: subject, HTML, text and the pictures that the HTML shows. Invariant: rendering computes no
 * number; the same model and templates give the same mail. It sends nothing: that is `mail/`.
 */
import type { InlineImage } from '../mail/mailer.ts';
import { buildSessionChart, buildSymbolChart, CHART_WIDTH } from './chart.ts';
import type { FlowReport } from './flow.ts';
import { renderPicture } from './picture.ts';
import { alignLeft, alignRight, renderHtmlTemplate, renderTextTemplate } from './template.ts';
import { buildFlowView } from './view.ts';

export interface RenderedReport {
  readonly subject: string;
  readonly html: string;
  readonly text: string;
  /** Those that the HTML refers to by `cid:`; none on an empty day. */
  readonly images: readonly InlineImage[];
}

/** The template's file name without extension: `flow.mjml` and `flow.txt`. */
const TEMPLATE = 'flow';

/**
 * Renders the report with the templates of a folder.
 * @throws Fault `TEMPLATE_INVALID` (kind `usage`) when a template is missing or wrong
 */
export async function renderFlowReport(report: FlowReport, templatesDir: string): Promise<RenderedReport> {
  const view = { ...buildFlowView(report), chartWidth: CHART_WIDTH, left: alignLeft, right: alignRight };
  const html = await renderHtmlTemplate(templatesDir, TEMPLATE, view);
  const text = await renderTextTemplate(templatesDir, TEMPLATE, view);
  const drawn = report.headline.trades === 0 ? [] : await drawCharts(report);
  // A designer may leave a chart out: a picture that nothing refers to would show as an attachment.
  const images = drawn.filter((image) => html.includes(`cid:${image.cid}`));
  return { subject: view.subject, html, text, images };
}

async function drawCharts(report: FlowReport): Promise<readonly InlineImage[]> {
  const session = await renderPicture(buildSessionChart(report.halfHours), CHART_WIDTH);
  const symbols = await renderPicture(buildSymbolChart(report.topSymbols), CHART_WIDTH);
  return [
    { cid: 'session', filename: 'sentiment-through-the-day.png', png: session },
    { cid: 'symbols', filename: 'premium-by-symbol.png', png: symbols },
  ];
}
