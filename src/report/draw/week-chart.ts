/**
 * The days of a week beside those of the weeks before it, as small charts below each other: premium, net premium and put/call. Pure.
 * Each week has a place for Monday to Friday, so a holiday is a gap; a day without data has a question mark.
 */
import type { TopLevelSpec } from 'vega-lite';
import { mondayOf, weekday } from '../../calendar/wall-clock.ts';
import { formatShortDay } from '../../core/date-text.ts';
import type { Week, WeekDay } from '../week-model.ts';
import { AXIS_FONT_SIZE, CHART_FONT, CHART_WIDTH, SIGNED_DOLLAR_LABEL } from './chart.ts';
import type { Palette } from './palette.ts';

/** Places of a week: its weekdays and a gap. */
const PLACES = 6;
const PANEL_HEIGHT = 104;
/** Room for the labels of an axis: the panels' plots are one below the other. */
const LABEL_WIDTH = 76;
const PADDING = 10;
/** Of the weeks before. */
const FAINT = 0.45;

type Panel = Extract<TopLevelSpec, { vconcat: unknown }>['vconcat'][number];

interface Bar {
  readonly place: number;
  readonly kind: 'All' | 'Calls' | 'Puts';
  readonly value: number | null;
  readonly isLatest: boolean;
}

export function buildWeekChart({ before, days }: Week, palette: Palette): TopLevelSpec {
  const weeks = [...before.toReversed(), days];
  const list = (read: (numbers: NonNullable<WeekDay['numbers']>) => Partial<Record<Bar['kind'], number | null>>) =>
    weeks.flatMap((week, at) =>
      week.flatMap(({ date, numbers }): readonly Bar[] => {
        const place = { place: placeOf(date, at), isLatest: week === days };
        const values = numbers === null ? {} : read(numbers);
        return Object.entries(values).map(([kind, value]) => ({ ...place, kind: kind as Bar['kind'], value }));
      }),
    );
  const lacking = weeks.flatMap((week, at) =>
    week.flatMap(({ date, numbers, state }) =>
      numbers === null && !['closed', 'empty'].includes(state) ? [{ place: placeOf(date, at) }] : [],
    ),
  );
  const names = weeks.map(([first]) => (first === undefined ? '' : formatShortDay(mondayOf(first.date))));
  const draw = (title: string, bars: readonly Bar[], isLast = false): Panel => ({
    title: {
      text: title,
      anchor: 'start',
      frame: 'group',
      fontSize: AXIS_FONT_SIZE - 2,
      color: palette.ink,
      offset: 8,
    },
    width: CHART_WIDTH - LABEL_WIDTH - 2 * PADDING,
    height: PANEL_HEIGHT,
    layer: [
      {
        data: { values: [...bars] },
        mark: { type: 'bar', cornerRadius: 1 },
        encoding: {
          x: placeAxis(weeks.length, isLast ? names : null, palette),
          xOffset: { field: 'kind', type: 'nominal' },
          y: {
            field: 'value',
            type: 'quantitative',
            axis: {
              ...{ title: null, tickCount: 3, domain: false, ticks: false, gridColor: palette.faint },
              ...{ minExtent: LABEL_WIDTH, maxExtent: LABEL_WIDTH },
              ...(isLast ? { format: '.1f' } : { labelExpr: SIGNED_DOLLAR_LABEL }),
            },
          },
          color: {
            field: 'kind',
            type: 'nominal',
            scale: { domain: ['All', 'Calls', 'Puts'], range: [palette.ink, palette.bullish, palette.bearish] },
            legend: null,
          },
          opacity: { condition: { test: 'datum.isLatest', value: 1 }, value: FAINT },
        },
      },
      {
        data: { values: lacking },
        mark: {
          type: 'text',
          text: '?',
          baseline: 'bottom',
          fontSize: AXIS_FONT_SIZE,
          fontWeight: 'bold',
          color: palette.bearish,
        },
        encoding: { x: placeAxis(weeks.length, isLast ? names : null, palette), y: { datum: 0, type: 'quantitative' } },
      },
    ],
  });
  return {
    $schema: 'https://vega.github.io/schema/vega-lite/v6.json',
    padding: PADDING,
    background: palette.ground,
    spacing: 20,
    config: {
      font: CHART_FONT,
      view: { stroke: null },
      axis: { labelFontSize: AXIS_FONT_SIZE - 2, labelColor: palette.ink },
    },
    vconcat: [
      draw(
        'Premium',
        list(({ total }) => ({ All: total })),
      ),
      draw(
        'Net premium: calls blue, puts orange',
        list(({ netCalls, netPuts }) => ({ Calls: netCalls, Puts: netPuts })),
      ),
      draw(
        'Put/call by premium',
        list(({ putCallByPremium }) => ({ All: putCallByPremium })),
        true,
      ),
    ],
  };
}

function placeOf(date: string, week: number): number {
  return week * PLACES + weekday(date);
}

/** @param names of the weeks, below their Mondays; null: no labels */
function placeAxis(weeks: number, names: readonly string[] | null, { axis }: Palette) {
  const places = Array.from({ length: weeks * PLACES - 1 }, (_, place) => place + 1);
  const labels = (names ?? []).map((name, week) => `datum.value == ${week * PLACES + 1} ? '${name}' : `);
  return {
    field: 'place',
    type: 'ordinal',
    scale: { type: 'band', domain: places, paddingInner: 0.2 },
    axis: {
      ...{
        title: null,
        ticks: false,
        grid: false,
        labelAngle: 0,
        labelOverlap: false,
        labelPadding: 8,
        domainColor: axis,
      },
      ...(names === null ? { labels: false } : { labelExpr: `${labels.join('')}''` }),
    },
  } as const;
}
