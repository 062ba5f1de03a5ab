/** The charts of a report, each with its title, and its finding in words. Pure. */
import type { TopLevelSpec } from 'vega-lite';
import { formatShortDay } from '../../core/date-text.ts';
import type { ChartSection } from '../look.ts';
import type { FlowReport } from '../model.ts';
import { describeSession, describeStrikes, describeSymbols } from '../text/captions.ts';
import { nameSymbol } from '../text/label.ts';
import { describeDays } from '../text/week-view.ts';
import { buildSessionChart, buildStrikeChart, buildSymbolChart } from './chart.ts';
import type { Palette } from './palette.ts';
import { buildWeekChart } from './week-chart.ts';

interface Figure {
  readonly id: ChartSection | 'week-chart';
  readonly title: string;
  /** The finding in words: the caption, and the text for screen readers. */
  readonly finding: string;
  readonly build: (palette: Palette) => TopLevelSpec;
}

/** The charts of a report; of a day without trades only that of its week. */
export function listFigures({ drop, headline, exposure: { lead }, week, ...report }: FlowReport): readonly Figure[] {
  const { halfHours, topSymbols, symbolCount } = report;
  // Of a week the other charts are those of its last session.
  const of = week === undefined ? '' : `, ${formatShortDay(drop.date)}`;
  const ofWeek: readonly Figure[] =
    week === undefined
      ? []
      : [
          {
            id: 'week-chart',
            title: 'Each day of these weeks',
            finding: describeDays(week),
            build: (palette) => buildWeekChart(week, palette),
          },
        ];
  if (headline.trades === 0) return ofWeek;
  return [
    ...ofWeek,
    {
      id: 'session-chart',
      title: `Sentiment through the day${of}`,
      finding: describeSession(halfHours, headline.total),
      build: (palette) => buildSessionChart(halfHours, palette),
    },
    {
      id: 'symbols-chart',
      title: `Premium by symbol${of}`,
      finding: describeSymbols(topSymbols, symbolCount, headline.total),
      build: (palette) => buildSymbolChart(topSymbols, palette),
    },
    ...(lead === null || lead.strikes.length === 0
      ? []
      : [
          {
            id: 'strikes-chart' as const,
            title: `GEX by strike, ${nameSymbol(lead.symbol)}`,
            finding: describeStrikes(lead),
            build: (palette: Palette) => buildStrikeChart(lead, palette),
          },
        ]),
  ];
}
