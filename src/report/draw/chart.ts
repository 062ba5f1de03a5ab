/**
 * The report's charts as Vega-Lite specifications. Pure: data and colours in, specification out; `picture.ts` draws them. The
 * plot of GEX by strike has a fixed size, because our own arithmetic places the labels above it.
 */
import type { TopLevelSpec } from 'vega-lite';
import { formatDecimal, MINUS } from '../../core/units.ts';
import type { StrikeGex, SymbolExposure } from '../exposure-model.ts';
import type { HalfHour, SymbolFlow } from '../model.ts';
import type { Premium } from '../numbers.ts';
import { formatStrike } from '../text/captions.ts';
import { nameSymbol } from '../text/label.ts';
import { type MarkerLevel, type PlacedMarker, placeMarkers } from './marker.ts';
import type { Palette } from './palette.ts';

/** Width of a chart in its own pixels. */
export const CHART_WIDTH = 600;
/** Width at which a mail shows it, CSS pixels: its text is then never larger than the mail's. */
export const SHOWN_WIDTH = 440;

export const CHART_FONT = 'DejaVu Sans';

/** Large, because a phone shows the picture at half its width. */
export const AXIS_FONT_SIZE = 19;
const BAR_HEIGHT = 36;

/** Dollars on an axis as in the tables: `$1.5B`, where d3 writes `1.5G`. */
const DOLLAR_LABEL = "'$' + replace(replace(format(datum.value, '~s'), 'G', 'B'), 'k', 'K')";

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
      axis: { labelFontSize: AXIS_FONT_SIZE, labelColor: ink },
      legend: { labelFontSize: AXIS_FONT_SIZE, labelColor: ink },
    },
  } as const;
}

type Layer = Extract<TopLevelSpec, { layer: unknown }>['layer'][number];

/** The right padding fits half of a five-digit strike, the longest, at the very end of the axis. */
const PADDING = { left: 92, right: 34, top: 40, bottom: 40 } as const;
const PLOT_WIDTH = CHART_WIDTH - PADDING.left - PADDING.right;
const PLOT_HEIGHT = 240;
/** Height of a row of labels, pixels. */
const ROW = 26;
/** Upper bound of the average letter width of our labels in DejaVu Sans Bold, as a fraction of the font size. */
const LETTER = 0.7;
const LABEL_SIZE = 17;
/** Bar width as a fraction of the distance between strikes. */
const BAR_PART = 0.78;
/** Fraction of the largest strike's exposure; strikes below it at either end are not drawn. */
const TRIM_PART = 0.01;

/** The marked levels, by the colours of the palette: how a value is printed, and its dashes. */
const LEVELS = [
  { key: 'spot', name: 'Spot', print: formatDecimal, dash: [] },
  { key: 'zeroGamma', name: 'Zero gamma', print: formatDecimal, dash: [6, 4] },
  { key: 'callWall', name: 'Call wall', print: formatStrike, dash: [2, 3] },
  { key: 'putWall', name: 'Put wall', print: formatStrike, dash: [2, 3] },
] as const;

/** @param lead a symbol with at least one strike */
export function buildStrikeChart(lead: SymbolExposure, palette: Palette): TopLevelSpec {
  const bars = widenStrikes(trimStrikes(lead.strikes));
  const axis = { ...spanOf(bars), width: PLOT_WIDTH, charWidth: LABEL_SIZE * LETTER };
  const markers = placeMarkers(listLevels(lead), axis);
  const rows = markers.reduce((most, marker) => Math.max(most, marker.row + 1), 0);
  return {
    $schema: 'https://vega.github.io/schema/vega-lite/v6.json',
    width: PLOT_WIDTH,
    height: PLOT_HEIGHT,
    autosize: 'none',
    padding: { ...PADDING, top: PADDING.top + rows * ROW },
    background: palette.ground,
    config: {
      font: CHART_FONT,
      view: { stroke: null },
      axis: { labelFontSize: AXIS_FONT_SIZE, labelColor: palette.ink, ticks: false, domain: false, title: null },
    },
    layer: [
      {
        data: {
          values: bars.flatMap(({ from, to, callGex, putGex }) => [
            { from, to, gex: callGex, kind: 'Calls' },
            { from, to, gex: putGex, kind: 'Puts' },
          ]),
        },
        mark: { type: 'rect', cornerRadius: 1 },
        encoding: {
          x: {
            field: 'from',
            type: 'quantitative',
            scale: { domain: [axis.min, axis.max], nice: false, zero: false },
            axis: {
              grid: false,
              labelPadding: 8,
              format: '~f',
              tickCount: 6,
              labelOverlap: 'parity',
              // Every label stays centered on its strike: moved inwards, it would name another strike.
              labelFlush: false,
            },
          },
          x2: { field: 'to' },
          y2: { datum: 0 },
          y: {
            field: 'gex',
            type: 'quantitative',
            scale: { zero: true },
            axis: { labelExpr: SIGNED_DOLLAR_LABEL, tickCount: 5, gridColor: palette.faint, labelPadding: 8 },
          },
          color: {
            field: 'kind',
            type: 'nominal',
            scale: { domain: ['Calls', 'Puts'], range: [palette.bullish, palette.bearish] },
            legend: null,
          },
        },
      },
      { data: { values: [{}] }, mark: { type: 'rule', color: palette.axis }, encoding: { y: { datum: 0 } } },
      ...markers.flatMap((marker) => [...drawLine(marker, palette), drawLabel(marker, palette)]),
      ...drawLegend(rows, palette),
    ],
  };
}

/** Writes `−$1.5B`, as in the tables; d3 would put the minus sign after the dollar sign. */
export const SIGNED_DOLLAR_LABEL = `(datum.value < 0 ? '${MINUS}' : '') + ${DOLLAR_LABEL.replace('datum.value', 'abs(datum.value)')}`;

function listLevels(lead: SymbolExposure): readonly MarkerLevel[] {
  return LEVELS.flatMap(({ key, name, print }) => {
    const value = lead[key];
    return value === null ? [] : [{ name, value, text: print(value) }];
  });
}

/** Drops strikes with almost no exposure at both ends: they would only make the others narrower. */
function trimStrikes(strikes: readonly StrikeGex[]): readonly StrikeGex[] {
  const sizes = strikes.map(({ callGex, putGex }) => Math.abs(callGex ?? 0) + Math.abs(putGex ?? 0));
  const least = Math.max(...sizes) * TRIM_PART;
  const first = sizes.findIndex((size) => size >= least);
  const last = sizes.findLastIndex((size) => size >= least);
  return first === -1 ? strikes : strikes.slice(first, last + 1);
}

interface Bar extends StrikeGex {
  readonly from: number;
  readonly to: number;
}

/** Bars are as wide as the nearer neighbour allows, because strikes are denser near the spot, up to the median gap. */
function widenStrikes(strikes: readonly StrikeGex[]): readonly Bar[] {
  const gaps = strikes.slice(1).map(({ strike }, index) => strike - (strikes[index]?.strike ?? strike));
  const usual = [...gaps].sort((a, b) => a - b)[Math.floor(gaps.length / 2)];
  return strikes.map((row, index) => {
    // A single strike has no neighbour, so its own value gives the scale.
    const most = usual ?? Math.max(1, Math.abs(row.strike) * 0.004);
    const half = (Math.min(most, gaps[index - 1] ?? most, gaps[index] ?? most) * BAR_PART) / 2;
    return { ...row, from: row.strike - half, to: row.strike + half };
  });
}

/** The span from the first bar to the last, with a margin for levels outside. */
function spanOf(bars: readonly Bar[]): { readonly min: number; readonly max: number } {
  const min = bars[0]?.from ?? 0;
  const max = bars.at(-1)?.to ?? 1;
  const margin = bars.length < 2 ? (max - min) * 4 : (max - min) * 0.02;
  return { min: min - margin, max: max + margin };
}

function styleOf({ name }: PlacedMarker, palette: Palette) {
  const { key, dash } = LEVELS.find((level) => level.name === name) ?? LEVELS[0];
  return { colour: palette[key], dash };
}

function labelTop(row: number): number {
  return -(row + 1) * ROW;
}

function drawLine(marker: PlacedMarker, palette: Palette): Layer[] {
  if (!marker.inside) return [];
  const { colour, dash } = styleOf(marker, palette);
  // A label too long for either side covers its own line, which then ends below the label.
  const covered = marker.x > marker.labelX && marker.x < marker.labelX + marker.width;
  const top = labelTop(marker.row) + (covered ? ROW - 3 : 3);
  return [
    {
      data: { values: [{}] },
      mark: { type: 'rule', color: colour, strokeWidth: 2, strokeDash: [...dash] },
      encoding: { x: { value: marker.x }, y: { value: top }, y2: { value: PLOT_HEIGHT } },
    },
  ];
}

function drawLabel(marker: PlacedMarker, palette: Palette): Layer {
  return {
    data: { values: [{ text: marker.text }] },
    mark: {
      ...{ type: 'text', align: marker.align, baseline: 'middle', fontSize: LABEL_SIZE, fontWeight: 'bold' },
      color: styleOf(marker, palette).colour,
    },
    encoding: {
      x: { value: marker.align === 'left' ? marker.labelX : marker.labelX + marker.width },
      y: { value: labelTop(marker.row) + ROW / 2 - 4 },
      text: { field: 'text' },
    },
  };
}

/** Drawn by hand, because the library's legend would move the plot. */
function drawLegend(rows: number, palette: Palette): Layer[] {
  const y = -rows * ROW - 22;
  const entry = (text: string, x: number, colour: string): Layer[] => [
    {
      data: { values: [{}] },
      mark: { type: 'square', filled: true, size: 160, color: colour, opacity: 1 },
      encoding: { x: { value: x }, y: { value: y } },
    },
    {
      data: { values: [{ text }] },
      mark: { type: 'text', align: 'left', baseline: 'middle', fontSize: AXIS_FONT_SIZE, color: palette.ink },
      encoding: { x: { value: x + 14 }, y: { value: y }, text: { field: 'text' } },
    },
  ];
  return [...entry('Calls +', 8, palette.bullish), ...entry('Puts −', 128, palette.bearish)];
}
