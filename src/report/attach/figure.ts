/** The charts of the PDF: the mail's own pictures, each with the sentence that it shows. None on a day without trades. */
import { buildSessionChart, buildSymbolChart, CHART_WIDTH } from '../draw/chart.ts';
import { renderPicture } from '../draw/picture.ts';
import { buildStrikeChart } from '../draw/strikes.ts';
import type { FlowReport } from '../model.ts';
import { describeStrikes } from '../text/exposure.ts';
import { describeSession, describeSymbols } from '../text/finding.ts';
import { cleanLabel } from '../text/label.ts';

export interface Figure {
  readonly title: string;
  /** The finding in words: the caption, and what is read aloud instead of the picture. */
  readonly finding: string;
  readonly png: Uint8Array;
}

export async function drawFigures(report: FlowReport): Promise<readonly Figure[]> {
  const { headline, halfHours, topSymbols, symbolCount, exposure } = report;
  const { lead } = exposure;
  if (headline.trades === 0) return [];
  return [
    {
      title: 'Sentiment through the day',
      finding: describeSession(halfHours, headline.total),
      png: await renderPicture(buildSessionChart(halfHours), CHART_WIDTH),
    },
    {
      title: 'The largest symbols',
      finding: describeSymbols(topSymbols, symbolCount, headline.total),
      png: await renderPicture(buildSymbolChart(topSymbols), CHART_WIDTH),
    },
    ...(lead === null
      ? []
      : [
          {
            title: `GEX by strike, ${cleanLabel(lead.symbol)}`,
            finding: describeStrikes(lead),
            png: await renderPicture(buildStrikeChart(lead), CHART_WIDTH),
          },
        ]),
  ];
}
