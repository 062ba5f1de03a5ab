/**
 * The full report: one HTML file that shows everything by itself, for a browser. Invariant: it loads nothing and computes
 * no number; its only script sorts tables, and it reads well without.
 */

import { SORT_SCRIPT } from '../core/report-page.ts';
import type { DigestPart } from './digest.ts';
import { buildSessionChart, buildSymbolChart } from './draw/chart.ts';
import { DARK, declareColours, LIGHT, PAGE } from './draw/palette.ts';
import { drawSvg } from './draw/picture.ts';
import { buildStrikeChart } from './draw/strikes.ts';
import type { FlowReport } from './model.ts';
import type { RenderOptions } from './render.ts';
import { renderPageTemplate } from './template.ts';
import { describeSession, describeSymbols } from './text/captions.ts';
import { describeStrikes } from './text/exposure-text.ts';
import { buildFullView } from './text/full-view.ts';
import { cleanLabel, formatDay, nameSymbol } from './text/label.ts';

/**
 * Renders `full.eta` of the templates' folder: a report, or the parts of a digest one below the other.
 * @throws Fault `TEMPLATE_INVALID` (kind `usage`)
 */
export async function renderFullReport(parts: readonly DigestPart[], options: RenderOptions): Promise<string> {
  const views = await Promise.all(parts.map((part) => buildPart(part, options)));
  const dates = parts.map((part) => ('report' in part ? part.report.drop.date : part.pending)).sort();
  return await renderPageTemplate(options.templatesDir, 'full', {
    day: formatDay(dates.at(-1) ?? ''),
    parts: views,
    colours: { light: declareColours(LIGHT), dark: declareColours(DARK) },
    script: SORT_SCRIPT,
  });
}

async function buildPart(part: DigestPart, options: RenderOptions) {
  const title = cleanLabel(part.title);
  if (!('report' in part)) return { title, pending: formatDay(part.pending), flow: null, figures: [] };
  return {
    title,
    pending: '',
    flow: buildFullView(part.report, options),
    figures: await drawFigures(part.report),
  };
}

/** None on a day without trades. */
async function drawFigures({ headline, halfHours, topSymbols, symbolCount, exposure: { lead } }: FlowReport) {
  if (headline.trades === 0) return [];
  const figures = [
    {
      id: 'session-chart',
      title: 'Sentiment through the day',
      finding: describeSession(halfHours, headline.total),
      spec: buildSessionChart(halfHours, PAGE),
    },
    {
      id: 'symbols-chart',
      title: 'Premium by symbol',
      finding: describeSymbols(topSymbols, symbolCount, headline.total),
      spec: buildSymbolChart(topSymbols, PAGE),
    },
    ...(lead === null || lead.strikes.length === 0
      ? []
      : [
          {
            id: 'strikes-chart',
            title: `GEX by strike, ${nameSymbol(lead.symbol)}`,
            finding: describeStrikes(lead),
            spec: buildStrikeChart(lead, PAGE),
          },
        ]),
  ];
  return await Promise.all(figures.map(async ({ spec, ...figure }) => ({ ...figure, svg: await drawSvg(spec) })));
}
