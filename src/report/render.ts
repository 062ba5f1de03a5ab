/**
 * Renders the report as a mail (subject, HTML, text and the images that the HTML shows) and as the full report: one HTML
 * page that shows everything by itself, loads nothing, and reads well without its only script, which sorts tables.
 * Invariant: rendering computes no number; the same model, templates and options give the same bytes.
 */

import { formatDay } from '../core/date-text.ts';
import { PAGE_LINKS, SORT_SCRIPT } from '../core/report-page.ts';
import { countOf } from '../core/units.ts';
import type { InlineImage, MailMessage } from '../mail/message.ts';
import { SHOWN_WIDTH } from './draw/chart.ts';
import { listFigures } from './draw/figures.ts';
import { DARK, declareColours, LIGHT, PAGE } from './draw/palette.ts';
import { drawSvg, renderPicture } from './draw/picture.ts';
import { CLOSING_SECTIONS, chooseSections, renderNote, USUAL_LOOK } from './look.ts';
import type { FlowReport } from './model.ts';
import { EXPIRATIONS, FIRST_EXPIRATIONS, NEAR_MONEY, NEAR_STRIKES } from './query/exposure-sql.ts';
import { LEANING_SYMBOLS, TOP_SYMBOLS } from './query/sums.ts';
import { isText, printTable } from './report-table.ts';
import { listTables } from './report-tables.ts';
import { alignLeft, alignRight, renderTemplate } from './template.ts';
import {
  describeBasis,
  describeEarnings,
  describeParts,
  describeSession,
  describeSymbols,
  describeVolumeAboveOpenInterest,
  listConventions,
  listStructureNotes,
} from './text/captions.ts';
import { cleanLabel, cleanLine, nameBucket } from './text/label.ts';
import {
  buildDigestView,
  buildExclusionRows,
  buildLook,
  buildMailView,
  type DigestPart,
  dateOf,
  listReports,
  type ViewOptions,
} from './text/mail-view.ts';
import { describeGaps } from './text/subject.ts';

export interface RenderOptions extends ViewOptions {
  /** The shipped templates; the look may have some of its own. */
  readonly templatesDir: string;
}

export type RenderedReport = Pick<MailMessage, 'subject' | 'html' | 'text' | 'images'>;

/**
 * Renders a mail with the templates of that name: of one dataset, which is sealed, or a digest, whose only image is the logo.
 * @throws Fault `TEMPLATE_INVALID` (kind `usage`) if a template is missing or invalid
 */
export async function renderReport(
  template: 'flow' | 'digest' | 'weekly',
  parts: readonly DigestPart[],
  options: RenderOptions,
): Promise<RenderedReport> {
  const { templatesDir, look = USUAL_LOOK } = options;
  const [report] = template === 'digest' ? [] : listReports(parts);
  const view = report === undefined ? buildDigestView(parts, options) : buildMailView(report, options);
  const note = await renderNote(look.note);
  const printed = { ...view, note, chartWidth: SHOWN_WIDTH, left: alignLeft, right: alignRight };
  const folders = { shipped: templatesDir, own: look.templates };
  const html = await renderTemplate(folders, `${template}.mjml`, printed);
  const text = await renderTemplate(folders, `${template}.txt`, printed);
  const charts = report === undefined ? [] : await drawCharts(report, html);
  return { subject: view.subject, html, text, images: [...showLogo(html, options), ...charts] };
}

/** Like the charts, only if the HTML references it. */
function showLogo(html: string, { look }: RenderOptions): readonly InlineImage[] {
  if (!look?.logo || !html.includes('cid:logo"')) return [];
  return [{ cid: 'logo', filename: 'logo.png', png: look.logo.png }];
}

/** Draws only the images that the HTML references: others would appear as attachments. */
async function drawCharts(report: FlowReport, html: string): Promise<readonly InlineImage[]> {
  const images: InlineImage[] = [];
  for (const { id, title, build } of listFigures(report)) {
    for (const [suffix, palette] of [
      ['', LIGHT],
      ['-dark', DARK],
    ] as const) {
      const cid = `${id.replace('-chart', '')}${suffix}`;
      // Whole: `session` is also the beginning of `session-dark`.
      if (!html.includes(`cid:${cid}"`)) continue;
      const name = title.replace(/,.*/, '').toLowerCase().replaceAll(' ', '-');
      const png = await renderPicture(build(palette), SHOWN_WIDTH);
      images.push({ cid, filename: `${name}${suffix}.png`, png });
    }
  }
  return images;
}

/**
 * Renders `full.eta` of the templates' folder: a report, or the parts of a digest one below the other.
 * @throws Fault `TEMPLATE_INVALID` (kind `usage`)
 */
export async function renderFullReport(parts: readonly DigestPart[], options: RenderOptions): Promise<string> {
  const { templatesDir, look = USUAL_LOOK } = options;
  const views = await Promise.all(parts.map((part) => buildPart(part, options)));
  const date = dateOf(parts);
  return await renderTemplate({ shipped: templatesDir, own: look.templates }, 'full.eta', {
    day: (views.length === 1 && views[0]?.flow?.day) || formatDay(date),
    parts: views,
    ...buildLook(listReports(parts), date, options),
    logoSource: look.logo && `data:image/png;base64,${Buffer.from(look.logo.png).toString('base64')}`,
    note: await renderNote(look.note),
    colours: { light: declareColours(LIGHT), dark: declareColours(DARK) },
    script: SORT_SCRIPT,
    pageLinks: PAGE_LINKS,
  });
}

/** Titles of the closing sections among the page's links. */
const CLOSING_TITLES: Readonly<Record<(typeof CLOSING_SECTIONS)[number], string>> = {
  'left-out': 'Counted and left out',
  formulas: 'Formulas',
  rebuild: 'Rebuild',
};

async function buildPart(part: DigestPart, options: RenderOptions) {
  const title = cleanLabel(part.title);
  if (!('report' in part)) return { title, pending: formatDay(part.pending), flow: null, blocks: [] };
  const { report } = part;
  const flow = buildFullView(report, options);
  // All sections after the summary, in their usual order.
  const blocks = [
    ...(await Promise.all(
      listFigures(report).map(async ({ build, ...figure }) => ({
        kind: 'figure',
        ...figure,
        svg: await drawSvg(build(PAGE)),
      })),
    )),
    ...flow.tables.map((table) => ({ kind: 'table', ...table })),
    ...CLOSING_SECTIONS.map((id) => ({ kind: id, id, title: CLOSING_TITLES[id] })),
  ];
  return {
    ...{ title, pending: '', flow },
    blocks: chooseSections<(typeof blocks)[number]>(blocks, ({ id }) => id, options.look?.sections ?? null),
  };
}

/** A longer table is folded, but the key numbers; of the strikes only those of other symbols than the lead are. */
const UNFOLDED_ROWS = 40;

function buildFullView(report: FlowReport, options: ViewOptions) {
  const { headline, exclusions, rebuildQueries, exposure } = report;
  const notes = listNotes(report);
  return {
    ...buildMailView(report, options),
    tables: listTables(report).map((table) => {
      const { columns, rows, cells } = printTable(table);
      const strikes = table.name === 'gex-by-strike' ? exposure.lead?.strikes : undefined;
      const isOpen = rows.length <= UNFOLDED_ROWS || table.name === 'key-numbers';
      return {
        id: table.name,
        title: table.title,
        note: notes[table.name] ?? '',
        openRows: isOpen ? rows.length : (strikes?.length ?? 0),
        columns: columns.map((column) => ({ head: column.heading ?? '', isText: isText(column) })),
        // The text of each cell, and the value that the table is sorted by: empty for an unknown one, which stands last.
        rows: rows.map((row, at) => row.map((text, place) => ({ text, value: String(cells[at]?.[place] ?? '') }))),
      };
    }),
    exclusions: buildExclusionRows(headline, exclusions),
    unmatchedCancels: exclusions.unmatchedCancels === 0 ? '' : countOf(exclusions.unmatchedCancels, 'cancel message'),
    gaps: describeGaps(report),
    chainLocation: cleanLine(report.chainLocation ?? ''),
    structureLocation: cleanLine(report.structureLocation ?? ''),
    conventions: listConventions(report),
    queries: rebuildQueries.map(({ table, sql }) => ({ table: cleanLine(table), sql })),
  };
}

/** What a table shows, in a sentence, by its name. */
function listNotes(report: FlowReport): Readonly<Record<string, string>> {
  const { headline, halfHours, topSymbols, symbolCount, expiries, moneyness, volumeAboveOpenInterest, exposure } =
    report;
  const titled = (parts: FlowReport['expiries'] | FlowReport['moneyness']) =>
    parts.map((part) => ({ ...part, title: nameBucket(part.bucket) }));
  return {
    'key-numbers': describeVolumeAboveOpenInterest(volumeAboveOpenInterest, headline.total),
    symbols: `${describeSymbols(topSymbols, symbolCount, headline.total)} Listed: the ${TOP_SYMBOLS} largest, the ${LEANING_SYMBOLS} most bullish and most bearish, and the watchlist.`,
    'half-hours': describeSession(halfHours, headline.total),
    expirations: describeParts(titled(expiries), headline.total),
    moneyness: describeParts(titled(moneyness), headline.total),
    'biggest-trades': 'Single records: an order that was filled in parts is listed part by part.',
    'left-out-trades': 'In no other number: late reports, and prints that a cancel message took back.',
    contracts:
      'Open interest is from the morning: if the volume is above it, at least part of the volume opened positions.',
    volatility: `At the money is the strike nearest to the spot, within ${NEAR_MONEY * 100}% of it; the skew is the IV of the put of delta −0.25 less that of the call of delta 0.25; the move is one standard deviation, in dollars. The first ${EXPIRATIONS} expirations. ${describeBasis(exposure.focus, 'IV')}`,
    'zero-gamma':
      'Net GEX of these symbols changes its sign at several prices; elsewhere the nearest to the spot is shown. “After expiration” is without the contracts that expired this day.',
    'gex-by-strike': `The ${NEAR_STRIKES} strikes nearest to the spot. ${describeBasis(exposure.focus)}`,
    'max-pain': `Max pain is the price at which an expiration’s open interest pays its holders least. Vanna is how many dollars of delta come with one point of volatility, charm with one trading day, calls + and puts − as in GEX. ${describeBasis(exposure.focus, 'Open interest')}`,
    'gex-by-expiration': `The share of gamma is what rolls off with the expiration. The first ${FIRST_EXPIRATIONS} expirations; later ones have the rest. ${describeBasis(exposure.focus)}`,
    moved:
      `By the difference between bullish and bearish premium. ${describeEarnings(report.earnings, report.drop.date)}`.trim(),
    'biggest-sweeps': 'Single executions of orders that the exchange marks as intermarket sweeps.',
    'unusual-symbols': 'Premium of this day against the median of the symbol’s own last sessions.',
    'gex-by-symbol': `GEX in dollars per 1% move, DEX in dollars of the underlying; calls +, puts −. Zero gamma and walls are computed for the symbol with most premium and the watchlist. All is at the close; attached files also have what is left after expiration. ${describeBasis([...new Map([...exposure.focus, ...exposure.top].map((row) => [row.symbol, row])).values()])}`,
    'market-structure': listStructureNotes(report.exposure).join(' '),
  };
}
