/**
 * The days of a week beside those of the weeks before it, as small charts below each other. Pure. Each week has a place for
 * Monday to Friday, so a holiday is a gap; a day without data has a question mark.
 */
import type { TopLevelSpec } from 'vega-lite';
import { mondayOf, weekday } from '../../calendar/wall-clock.ts';
import { formatShortDay } from '../../core/date-text.ts';
import type { Week } from '../week-model.ts';
import { AXIS_FONT_SIZE, CHART_FONT, CHART_WIDTH, SIGNED_DOLLAR_LABEL } from './chart.ts';
import type { Palette } from './palette.ts';

/** The small charts: which numbers of a day, in which colours, and the labels of the axis. */
const PANELS = [
  { title: 'Premium', bars: { total: 'ink' }, labels: { labelExpr: SIGNED_DOLLAR_LABEL } },
  {
    title: 'Net premium: calls blue, puts orange',
    bars: { netCalls: 'bullish', netPuts: 'bearish' },
    labels: { labelExpr: SIGNED_DOLLAR_LABEL },
  },
  { title: 'Put/call by premium', bars: { putCallByPremium: 'ink' }, labels: { format: '.1f' } },
] as const;

/** Places of a week: its weekdays and a gap. */
const PLACES = 6;
const PANEL_HEIGHT = 104;
/** Room for the labels of an axis: the panels' plots are one below the other. */
const LABEL_WIDTH = 76;
const PADDING = 10;
const LABEL_SIZE = AXIS_FONT_SIZE - 2;
/** Opacity of the weeks before. */
const FAINT = 0.45;

type Panel = Extract<TopLevelSpec, { vconcat: unknown }>['vconcat'][number];

/** @param count how many of the small charts */
export function buildWeekChart({ before, days }: Week, palette: Palette, count: number = PANELS.length): TopLevelSpec {
  const weeks = [...before.toReversed(), days];
  const all = weeks.flatMap((week, at) =>
    week.map((day) => ({ ...day, place: at * PLACES + weekday(day.date), isLatest: week === days })),
  );
  const lacking = all.filter(({ numbers, state }) => numbers === null && !['closed', 'empty'].includes(state));
  const names = weeks.map(([first]) => (first === undefined ? '' : formatShortDay(mondayOf(first.date))));
  const draw = ({ title, bars, labels }: (typeof PANELS)[number], index: number): Panel => {
    const x = placeAxis(weeks.length, index === count - 1 ? names : [], palette);
    const kinds = Object.entries(bars) as (readonly ['total', 'ink'])[]; // Keys and colours of any panel.
    const domain = kinds.map(([key]) => key);
    const values = all.flatMap(({ place, isLatest, numbers }) =>
      domain.map((key) => ({ place, isLatest, kind: key, value: numbers?.[key] ?? null })),
    );
    return {
      title: { text: title, anchor: 'start', frame: 'group', fontSize: LABEL_SIZE, color: palette.ink, offset: 8 },
      width: CHART_WIDTH - LABEL_WIDTH - 2 * PADDING,
      height: PANEL_HEIGHT,
      layer: [
        {
          data: { values },
          mark: { type: 'bar', cornerRadius: 1 },
          encoding: {
            x,
            xOffset: { field: 'kind', type: 'nominal', scale: { domain } },
            y: {
              field: 'value',
              type: 'quantitative',
              axis: {
                ...{ title: null, tickCount: 3, domain: false, ticks: false, gridColor: palette.faint },
                ...{ minExtent: LABEL_WIDTH, maxExtent: LABEL_WIDTH, ...labels },
              },
            },
            color: {
              ...{ field: 'kind', type: 'nominal', legend: null },
              scale: { domain, range: kinds.map(([, colour]) => palette[colour]) },
            },
            opacity: { condition: { test: 'datum.isLatest', value: 1 }, value: FAINT },
          },
        },
        {
          data: { values: lacking.map(({ place }) => ({ place })) },
          mark: { type: 'text', text: '?', baseline: 'bottom', fontSize: AXIS_FONT_SIZE, color: palette.bearish },
          encoding: { x, y: { datum: 0, type: 'quantitative' } },
        },
      ],
      resolve: { scale: { color: 'independent', xOffset: 'independent' } },
    };
  };
  return {
    $schema: 'https://vega.github.io/schema/vega-lite/v6.json',
    ...{ padding: PADDING, background: palette.ground, spacing: 20 },
    config: {
      ...{ font: CHART_FONT, view: { stroke: null } },
      axis: { labelFontSize: LABEL_SIZE, labelColor: palette.ink },
    },
    vconcat: PANELS.slice(0, count).map(draw),
    resolve: { scale: { color: 'independent', xOffset: 'independent' } },
  };
}

/** @param names of the weeks, below their Mondays; empty: no labels */
function placeAxis(weeks: number, names: readonly string[], { axis }: Palette) {
  const domain = Array.from({ length: weeks * PLACES - 1 }, (_, place) => place + 1);
  const labels = names.map((name, week) => `datum.value == ${week * PLACES + 1} ? '${name}' : `);
  return {
    field: 'place',
    type: 'ordinal',
    scale: { type: 'band', domain, paddingInner: 0.2 },
    axis: {
      ...{ title: null, ticks: false, grid: false, labelAngle: 0, labelOverlap: false, labelPadding: 8 },
      ...{ domainColor: axis, labels: names.length > 0, labelExpr: `${labels.join('')}''` },
    },
  } as const;
}
