/**
 * The report as PDF: completeness stamp, key numbers, charts, tables, and the origin of the numbers. Invariant: it
 * computes no number, and the same model gives the same bytes (the document's date is the report's).
 */
import { formatDay, formatInstant } from '../../core/date-text.ts';
import { buildAccent } from '../draw/accent.ts';
import { buildSessionChart, buildSymbolChart, CHART_WIDTH } from '../draw/chart.ts';
import { LIGHT } from '../draw/palette.ts';
import { renderPicture } from '../draw/picture.ts';
import { buildStrikeChart } from '../draw/strikes.ts';
import type { FlowReport } from '../model.ts';
import type { AttachedTable } from '../report-table.ts';
import { listTables } from '../report-tables.ts';
import { describeSession, describeSymbols } from '../text/captions.ts';
import { listConventions } from '../text/convention.ts';
import { describeStrikes } from '../text/exposure-text.ts';
import { cleanLabel, cleanLine, countOf, formatWallClock } from '../text/label.ts';
import { describeGaps } from '../text/lacking.ts';
import { cleanNote } from '../text/note.ts';
import { buildSentences } from '../text/sentences.ts';
import {
  COLOURS,
  closePage,
  contentWidth,
  makeRoom,
  openPage,
  type PdfPage,
  placePicture,
  scaledHeight,
  writeHeading,
  writeText,
} from './pdf-page.ts';
import { drawTable, measureTable } from './pdf-table.ts';

const SMALL = 8;

/** What a job file says about the look of the PDF. */
export interface PdfLook {
  /** Filled in; empty: the usual one. */
  readonly title: string;
  /** `#rrggbb`, of the title; null: the usual colour. */
  readonly accent: string | null;
  /** Markdown, printed as it was written; empty: none. */
  readonly note: string;
}

const USUAL_PDF: PdfLook = { title: '', accent: null, note: '' };

/** @param timezone IANA zone of the reader, for instants; trade times stay in the exchange's wall clock */
export async function formatPdf(report: FlowReport, timezone: string, look: PdfLook = USUAL_PDF): Promise<Uint8Array> {
  const { drop, exposure } = report;
  // Only the lead symbol's strikes: those of a whole watchlist would take a page per symbol.
  const tables = listTables(report, exposure.lead === null ? [] : [exposure.lead]);
  const figures = await drawFigures(report);
  const name = look.title || 'Options flow';
  const page = await openPage({
    title: `${name} ${drop.date}`,
    subject: `${cleanLabel(drop.dataset)}, revision ${drop.revision}`,
    createdAt: new Date(report.createdAt),
  });
  writeStamp(page, report, timezone, { ...look, title: name });
  const [first, ...others] = tables;
  if (first !== undefined) writeTable(page, first);
  for (const figure of figures) writeFigure(page, figure);
  for (const table of others) writeTable(page, table);
  writeOrigin(page, report, timezone);
  return await closePage(page, `${name} ${drop.date}, ${cleanLabel(drop.dataset)} revision ${drop.revision}`);
}

function writeStamp(page: PdfPage, report: FlowReport, timezone: string, { title, accent, note }: PdfLook): void {
  const { drop, headline } = report;
  const complete = drop.condition === 'available';
  const trades =
    headline.trades === 0
      ? 'no trades'
      : `${countOf(headline.trades, 'trade')} counted, ${formatWallClock(drop.min_time ?? '', drop.date)} to ${formatWallClock(drop.max_time ?? '', drop.date)} New York`;
  const colour = accent === null ? COLOURS.ink : buildAccent(accent).light;
  writeText(page, title, { type: 'H1', font: 'bold', size: 20, colour });
  writeText(page, formatDay(drop.date), { type: 'P', size: 12, colour: COLOURS.faint, after: 6 });
  const whole = drop.doubts?.length ? 'Complete, unusual' : 'Complete';
  writeText(page, complete ? whole : 'Degraded: a part of the day may be missing', {
    type: 'P',
    font: 'bold',
    size: 9.5,
    colour: complete ? COLOURS.good : COLOURS.bad,
  });
  writeText(
    page,
    [
      `${countOf(drop.rows, 'row')}, revision ${drop.revision}`,
      trades,
      `sealed ${formatInstant(drop.sealed_at, timezone)}`,
    ].join('; '),
    { type: 'P', size: SMALL + 1, colour: COLOURS.faint, after: 6 },
  );
  for (const sentence of buildSentences(report)) writeText(page, sentence, { type: 'P', size: 10 });
  for (const gap of describeGaps(report)) writeText(page, gap, { type: 'P', size: SMALL + 1, colour: COLOURS.bad });
  const words = cleanNote(note);
  if (words !== '') writeText(page, words, { type: 'P', size: 10, after: 4 });
}

function writeTable(page: PdfPage, table: AttachedTable): void {
  writeHeading(page, table.title, measureTable(table));
  drawTable(page, table);
}

function writeFigure(page: PdfPage, { title, finding, png }: Figure): void {
  const width = contentWidth(page) * 0.86;
  writeHeading(page, title, scaledHeight(png, width) + 30);
  placePicture(page, png, finding, width);
  writeText(page, finding, { type: 'Caption', size: SMALL + 1, colour: COLOURS.faint });
}

function writeOrigin(page: PdfPage, report: FlowReport, timezone: string): void {
  const { drop, createdAt, rebuildQueries } = report;
  writeHeading(page, 'Conventions', 60);
  for (const { term, text } of listConventions(report)) writeText(page, `${term}: ${text}`, origin(2));
  writeHeading(page, 'Where the numbers come from', 60);
  writeText(page, `Every number is computed from the sealed file ${cleanLine(drop.location)}`, origin());
  writeText(page, `SHA-256 ${cleanLine(drop.sha256)}`, origin());
  writeText(page, `This report was made ${formatInstant(createdAt, timezone)}.`, origin(4));
  if (rebuildQueries.length === 0) return;
  writeText(page, 'These queries rebuild the tables, in DuckDB or ClickHouse:', origin(4));
  for (const { table, sql } of rebuildQueries) {
    makeRoom(page, 60);
    writeText(page, cleanLabel(table), { type: 'P', font: 'bold', size: SMALL });
    writeText(page, cleanCode(sql), { type: 'Code', font: 'code', size: 6.5, after: 5 });
  }
}

function origin(after = 0) {
  return { type: 'P', size: SMALL, after } as const;
}

/** Keeps line ends; other control characters and direction marks could change what the text appears to say. */
function cleanCode(sql: string): string {
  return sql
    .split(/\r?\n/)
    .map((line) => line.replace(/[^\P{C}\t]/gu, ' ').replaceAll('\t', '  '))
    .join('\n');
}

interface Figure {
  readonly title: string;
  /** The finding in words: the caption, and the text for screen readers. */
  readonly finding: string;
  readonly png: Uint8Array;
}

/** The mail's own charts, each with its finding. None on a day without trades. */
async function drawFigures(report: FlowReport): Promise<readonly Figure[]> {
  const { headline, halfHours, topSymbols, symbolCount, exposure } = report;
  const { lead } = exposure;
  if (headline.trades === 0) return [];
  return [
    {
      title: 'Sentiment through the day',
      finding: describeSession(halfHours, headline.total),
      png: await renderPicture(buildSessionChart(halfHours, LIGHT), CHART_WIDTH),
    },
    {
      title: 'The largest symbols',
      finding: describeSymbols(topSymbols, symbolCount, headline.total),
      png: await renderPicture(buildSymbolChart(topSymbols, LIGHT), CHART_WIDTH),
    },
    ...(lead === null
      ? []
      : [
          {
            title: `GEX by strike, ${cleanLabel(lead.symbol)}`,
            finding: describeStrikes(lead),
            png: await renderPicture(buildStrikeChart(lead, LIGHT), CHART_WIDTH),
          },
        ]),
  ];
}
