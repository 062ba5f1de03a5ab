/**
 * The full report: one HTML file that shows everything by itself, for a browser. Invariant: it loads nothing and computes
 * no number; its only script sorts tables, and it reads well without.
 */

import { formatDay } from '../core/date-text.ts';
import { SORT_SCRIPT } from '../core/report-page.ts';
import type { DigestPart } from './digest.ts';
import { buildSessionChart, buildSymbolChart } from './draw/chart.ts';
import { DARK, declareColours, LIGHT, PAGE } from './draw/palette.ts';
import { drawSvg } from './draw/picture.ts';
import { buildStrikeChart } from './draw/strikes.ts';
import { USUAL_LOOK } from './look.ts';
import type { FlowReport } from './model.ts';
import type { RenderOptions } from './render.ts';
import { type ChartSection, CLOSING_SECTIONS, type ClosingSection, chooseSections } from './section.ts';
import { renderPageTemplate } from './template.ts';
import { describeSession, describeSymbols } from './text/captions.ts';
import { describeStrikes } from './text/exposure-text.ts';
import { buildFullView } from './text/full-view.ts';
import { cleanLabel, nameSymbol } from './text/label.ts';
import { buildLook } from './text/mail-view.ts';
import { renderNote } from './text/note.ts';

/**
 * Renders `full.eta` of the templates' folder: a report, or the parts of a digest one below the other.
 * @throws Fault `TEMPLATE_INVALID` (kind `usage`)
 */
export async function renderFullReport(parts: readonly DigestPart[], options: RenderOptions): Promise<string> {
  const { templatesDir, look = USUAL_LOOK } = options;
  const views = await Promise.all(parts.map((part) => buildPart(part, options)));
  const dates = parts.map((part) => ('report' in part ? part.report.drop.date : part.pending)).sort();
  const date = dates.at(-1) ?? '';
  const reports = parts.flatMap((part) => ('report' in part ? [part.report] : []));
  return await renderPageTemplate({ shipped: templatesDir, own: look.templates }, 'full', {
    day: formatDay(date),
    parts: views,
    ...buildLook(reports, date, options),
    logoSource: look.logo && `data:image/png;base64,${Buffer.from(look.logo.png).toString('base64')}`,
    note: await renderNote(look.note),
    colours: { light: declareColours(LIGHT), dark: declareColours(DARK) },
    script: SORT_SCRIPT,
  });
}

async function buildPart(part: DigestPart, options: RenderOptions) {
  const title = cleanLabel(part.title);
  if (!('report' in part)) return { title, pending: formatDay(part.pending), flow: null, blocks: [] };
  const flow = buildFullView(part.report, options);
  const blocks = listBlocks(await drawFigures(part.report), flow.tables);
  const chosen = chooseSections(blocks, ({ id }) => id, options.look?.sections ?? null);
  return { title, pending: '', flow, blocks: groupFigures(chosen) };
}

type Figure = Awaited<ReturnType<typeof drawFigures>>[number];
type Table = ReturnType<typeof buildFullView>['tables'][number];

type Block =
  | ({ readonly kind: 'figure' } & Figure)
  | { readonly kind: 'table'; readonly id: string; readonly title: string; readonly table: Table }
  | { readonly kind: ClosingSection; readonly id: ClosingSection; readonly title: string };

/** Their titles among the page's links. */
const CLOSING_TITLES: Readonly<Record<ClosingSection, string>> = {
  'left-out': 'Counted and left out',
  formulas: 'Formulas',
  rebuild: 'Rebuild',
};

/** All sections after the summary, in their usual order. */
function listBlocks(figures: readonly Figure[], tables: readonly Table[]): readonly Block[] {
  return [
    ...figures.map((figure) => ({ kind: 'figure' as const, ...figure })),
    ...tables.map((table) => ({ kind: 'table' as const, id: table.id, title: table.title, table })),
    ...CLOSING_SECTIONS.map((id) => ({ kind: id, id, title: CLOSING_TITLES[id] })),
  ];
}

/** Figures that follow each other stand side by side. */
function groupFigures(blocks: readonly Block[]) {
  const groups: {
    readonly kind: Block['kind'];
    readonly id: string;
    readonly title: string;
    readonly blocks: Block[];
  }[] = [];
  for (const block of blocks) {
    const last = groups.at(-1);
    if (block.kind === 'figure' && last?.kind === 'figure') last.blocks.push(block);
    else groups.push({ kind: block.kind, id: block.id, title: block.title, blocks: [block] });
  }
  return groups;
}

/** None on a day without trades. */
async function drawFigures({ headline, halfHours, topSymbols, symbolCount, exposure: { lead } }: FlowReport) {
  if (headline.trades === 0) return [];
  const figures = [
    {
      id: 'session-chart' as ChartSection,
      title: 'Sentiment through the day',
      finding: describeSession(halfHours, headline.total),
      spec: buildSessionChart(halfHours, PAGE),
    },
    {
      id: 'symbols-chart' as ChartSection,
      title: 'Premium by symbol',
      finding: describeSymbols(topSymbols, symbolCount, headline.total),
      spec: buildSymbolChart(topSymbols, PAGE),
    },
    ...(lead === null || lead.strikes.length === 0
      ? []
      : [
          {
            id: 'strikes-chart' as ChartSection,
            title: `GEX by strike, ${nameSymbol(lead.symbol)}`,
            finding: describeStrikes(lead),
            spec: buildStrikeChart(lead, PAGE),
          },
        ]),
  ];
  return await Promise.all(figures.map(async ({ spec, ...figure }) => ({ ...figure, svg: await drawSvg(spec) })));
}
