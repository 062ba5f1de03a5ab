/**
 * The report's premium charts as Vega-Lite specifications (GEX by strike: `strikes.ts`). Pure: data and colours in,
 * specification out; `picture.ts` draws them.
 */
import type { TopLevelSpec } from 'vega-lite';
import type { HalfHour, SymbolFlow } from '../model.ts';
import type { Premium } from '../numbers.ts';
import { nameSymbol } from '../text/label.ts';
import type { Palette } from './palette.ts';

/** Width of a chart in its own pixels. */
export const CHART_WIDTH = 600;
/** Width at which a mail shows it, CSS pixels: its text is then never larger than the mail's. */
export const SHOWN_WIDTH = 440;

export const CHART_FONT = 'DejaVu Sans';

/** Large, because a phone shows the picture at half its width. */
export const FONT_SIZE = 19;
const BAR_HEIGHT = 36;

/** Dollars on an axis as in the tables: `$1.5B`, where d3 writes `1.5G`. */
export const DOLLAR_LABEL = "'$' + replace(replace(format(datum.value, '~s'), 'G', 'B'), 'k', 'K')";

/** Stacked columns of premium per half hour. */
export function buildSessionChart(halfHours: readonly HalfHour[], palette: Palette): TopLevelSpec {
  return {
    ...frame(
      halfHours.flatMap((slot) => split(slot.start, slot)),
      250,
      palette,
    ),
    mark: { type: 'bar', cornerRadius: 1 },
    encoding: {
      x: {
        field: 'label',
        type: 'ordinal',
        sort: null,
        axis: {
          title: null,
          labelAngle: 0,
          labelOverlap: 'parity',
          labelSeparation: 6,
          labelPadding: 8,
          ticks: false,
          domainColor: palette.axis,
        },
      },
      y: { field: 'premium', type: 'quantitative', axis: dollarAxis(palette) },
      ...stack(palette),
    },
  };
}

/** Stacked bars of premium per symbol, largest first. */
export function buildSymbolChart(flows: readonly SymbolFlow[], palette: Palette): TopLevelSpec {
  return {
    ...frame(
      flows.flatMap((flow) => split(nameSymbol(flow.symbol), flow)),
      Math.max(2, flows.length) * BAR_HEIGHT + 60,
      palette,
    ),
    mark: { type: 'bar', cornerRadius: 1, height: { band: 0.72 } },
    encoding: {
      y: {
        field: 'label',
        type: 'nominal',
        sort: null,
        axis: { title: null, labelLimit: 130, ticks: false, domain: false, labelPadding: 8 },
      },
      x: { field: 'premium', type: 'quantitative', axis: dollarAxis(palette) },
      ...stack(palette),
    },
  };
}

function split(label: string, premium: Premium) {
  return [
    { label, sentiment: 'Bullish', order: 0, premium: premium.bullish },
    { label, sentiment: 'Neutral', order: 1, premium: premium.neutral },
    { label, sentiment: 'Bearish', order: 2, premium: premium.bearish },
  ];
}

function stack({ bullish, neutral, bearish }: Palette) {
  return {
    color: {
      field: 'sentiment',
      type: 'nominal',
      scale: { domain: ['Bullish', 'Neutral', 'Bearish'], range: [bullish, neutral, bearish] },
      legend: {
        title: null,
        orient: 'top',
        direction: 'horizontal',
        symbolType: 'square',
        symbolSize: 160,
        columnPadding: 26,
      },
    },
    order: { field: 'order', type: 'quantitative' },
  } as const;
}

function dollarAxis({ faint }: Palette) {
  return { title: null, labelExpr: DOLLAR_LABEL, tickCount: 5, domain: false, ticks: false, gridColor: faint } as const;
}

function frame(values: readonly object[], height: number, { ground, ink }: Palette) {
  return {
    $schema: 'https://vega.github.io/schema/vega-lite/v6.json',
    width: CHART_WIDTH,
    height,
    autosize: { type: 'fit', contains: 'padding' },
    padding: { left: 6, right: 14, top: 8, bottom: 8 },
    background: ground,
    data: { values: [...values] },
    config: {
      font: CHART_FONT,
      view: { stroke: null },
      axis: { labelFontSize: FONT_SIZE, labelColor: ink },
      legend: { labelFontSize: FONT_SIZE, labelColor: ink },
    },
  } as const;
}
