/**
 * Conditions of a dataset's dates as a calendar: one week per row, or, for many weeks, months as blocks. Pure. Each
 * condition has its own sign, so that it can be read without colors.
 */
import { type CalendarOverride, isSession } from '../../calendar/session.ts';
import { addDays, mondayOf, weekday } from '../../calendar/wall-clock.ts';
import { formatCount } from '../../core/units.ts';
import type { Condition } from '../../plan/conditions.ts';
import type { DateStatus } from '../../state/documents.ts';
import type { Style } from '../terminal/color.ts';

const SIGNS: Readonly<Record<Condition, { readonly sign: string; readonly tone: keyof Style }>> = {
  available: { sign: '■', tone: 'green' },
  degraded: { sign: 'D', tone: 'yellow' },
  pending: { sign: 'P', tone: 'cyan' },
  missing: { sign: 'M', tone: 'magenta' },
  empty: { sign: '□', tone: 'dim' },
  expired: { sign: 'X', tone: 'red' },
};
const CLOSED = '·';
const DAYS = ['Mon', 'Tue', 'Wed', 'Thu', 'Fri'];
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

/** Most rows that fit a screen; above that, months are shown side by side. */
const MAX_WEEK_ROWS = 26;

/** `Mo Tu We Th Fr`, two characters a day. */
const BLOCK_WIDTH = 14;
const BLOCK_GAP = 3;

interface HeatMapInput {
  /** Ascending; at least one. */
  readonly dates: readonly DateStatus[];
  readonly calendar: CalendarOverride;
  readonly style: Style;
  /** Width in characters for months side by side. */
  readonly columns: number;
}

/** The sign of a date: one character, with its color. */
type Cell = (date: string) => string;

/** Lines of the map and of its legend. */
export function formatHeatMap({ dates, calendar, style, columns }: HeatMapInput): readonly string[] {
  const conditions = new Map(dates.map(({ date, condition }) => [date, condition]));
  const closed = listClosedDays({ dates, calendar });
  const cell: Cell = (date) => {
    const condition = conditions.get(date);
    if (condition !== undefined) return style[SIGNS[condition].tone](SIGNS[condition].sign);
    return closed.includes(date) ? style.dim(CLOSED) : ' ';
  };
  const weeks = listDays(mondayOf(dates[0]?.date ?? ''), dates.at(-1)?.date ?? '', 7);
  const map =
    weeks.length > MAX_WEEK_ROWS
      ? formatMonths(dates, cell, style, columns)
      : [style.dim(['week of   ', ...DAYS, 'rows'.padStart(14)].join('  ')), ...formatWeeks(dates, weeks, cell)];
  const legend = Object.entries(SIGNS).flatMap(([condition, { sign, tone }]) => {
    const count = dates.filter((date) => date.condition === condition).length;
    return count === 0 ? [] : [`${style[tone](sign)} ${condition} ${count}`];
  });
  if (closed.length > 0) legend.push(`${style.dim(CLOSED)} closed ${closed.length}`);
  return [...map, '', legend.join('   ')];
}

/** Weekdays between the first and the last date that have no session and no condition. */
export function listClosedDays({ dates, calendar }: Pick<HeatMapInput, 'dates' | 'calendar'>): readonly string[] {
  const known = new Set(dates.map(({ date }) => date));
  return listDays(dates[0]?.date ?? '', dates.at(-1)?.date ?? '', 1).filter(
    (date) => weekday(date) >= 1 && weekday(date) <= 5 && !known.has(date) && !isSession(date, calendar),
  );
}

/** Every `step` days; none without a first day. */
function listDays(first: string, last: string, step: number): readonly string[] {
  const days: string[] = [];
  for (let day = first; day !== '' && day <= last; day = addDays(day, step)) days.push(day);
  return days;
}

function formatWeeks(dates: readonly DateStatus[], weeks: readonly string[], cell: Cell): readonly string[] {
  return weeks.map((week) => {
    const signs = DAYS.map((_, day) => ` ${cell(addDays(week, day))} `);
    const sealed = dates.flatMap(({ date, rows }) => (mondayOf(date) === week && rows !== null ? [rows] : []));
    const count = sealed.length === 0 ? '' : formatCount(sealed.reduce((sum, rows) => sum + rows, 0));
    return [week, ...signs, count.padStart(14)].join('  ').trimEnd();
  });
}

/** As many months side by side as fit. */
function formatMonths(dates: readonly DateStatus[], cell: Cell, style: Style, columns: number): readonly string[] {
  const months = [...new Set(dates.map(({ date }) => date.slice(0, 'YYYY-MM'.length)))];
  const abreast = Math.max(1, Math.floor((columns + BLOCK_GAP) / (BLOCK_WIDTH + BLOCK_GAP)));
  const lines: string[] = [];
  for (let start = 0; start < months.length; start += abreast) {
    const blocks = months.slice(start, start + abreast).map((month) => formatMonth(month, cell, style));
    if (lines.length > 0) lines.push('');
    for (let row = 0; row < Math.max(...blocks.map(({ length }) => length)); row += 1) {
      const cells = blocks.map((block) => block[row] ?? ' '.repeat(BLOCK_WIDTH));
      lines.push(cells.join(' '.repeat(BLOCK_GAP)).trimEnd());
    }
  }
  return lines;
}

/** Each line is as wide as the block, not counting colors. */
function formatMonth(month: string, cell: Cell, style: Style): readonly string[] {
  const title = `${MONTHS[Number(month.slice(5)) - 1]} ${month.slice(0, 4)}`;
  const lines = [style.bold(title.padEnd(BLOCK_WIDTH)), style.dim(DAYS.map((day) => day.slice(0, 2)).join(' '))];
  for (let week = mondayOf(`${month}-01`); week.slice(0, 7) <= month; week = addDays(week, 7)) {
    const days = DAYS.map((_, day) => addDays(week, day)).map((date) => (date.startsWith(month) ? cell(date) : ' '));
    if (days.some((sign) => sign !== ' ')) lines.push(days.map((sign) => ` ${sign}`).join(' '));
  }
  return lines;
}
