/**
 * Conditions of a dataset's dates as a calendar: one week per row, or, for many weeks, months as blocks. Pure. Each
 * condition has its own sign, so that it can be read without colors.
 */
import { type CalendarOverride, isSession } from '../../calendar/session.ts';
import { addDays, mondayOf, weekday } from '../../calendar/wall-clock.ts';
import { formatCount } from '../../core/units.ts';
import type { Condition } from '../../plan/conditions.ts';
import type { DateStatus } from '../../state/status-document.ts';
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

/** Lines of the map and of its legend. */
export function formatHeatMap(input: HeatMapInput): readonly string[] {
  const { dates } = input;
  const weeks = listWeeks(dates);
  const map = weeks.length > MAX_WEEK_ROWS ? formatMonths(input) : formatWeeks(input, weeks);
  return [...map, '', formatLegend(input)];
}

/** Weekdays between the first and the last date that have no session and no condition. */
export function listClosedDays({ dates, calendar }: Pick<HeatMapInput, 'dates' | 'calendar'>): readonly string[] {
  const known = new Set(dates.map(({ date }) => date));
  const [first, last] = [dates[0]?.date, dates.at(-1)?.date];
  const closed: string[] = [];
  if (first === undefined || last === undefined) return closed;
  for (let date = first; date <= last; date = addDays(date, 1)) {
    if (isWeekday(date) && !known.has(date) && !isSession(date, calendar)) closed.push(date);
  }
  return closed;
}

/** Mondays of all weeks from the first date to the last. */
function listWeeks(dates: readonly DateStatus[]): readonly string[] {
  const [first, last] = [dates[0]?.date, dates.at(-1)?.date];
  const weeks: string[] = [];
  if (first === undefined || last === undefined) return weeks;
  for (let week = mondayOf(first); week <= last; week = addDays(week, 7)) weeks.push(week);
  return weeks;
}

function isWeekday(date: string): boolean {
  return weekday(date) >= 1 && weekday(date) <= 5;
}

function formatWeeks(input: HeatMapInput, weeks: readonly string[]): readonly string[] {
  const { dates, style } = input;
  const cell = createCells(input);
  const head = ['week of   ', ...DAYS, 'rows'.padStart(14)].join('  ');
  const rows = weeks.map((week) => {
    const signs = DAYS.map((_, day) => ` ${cell(addDays(week, day))} `);
    const sealed = dates.filter(({ date, rows }) => mondayOf(date) === week && rows !== null);
    const count = sealed.reduce((sum, { rows }) => sum + (rows ?? 0), 0);
    return [week, ...signs, (sealed.length === 0 ? '' : formatCount(count)).padStart(14)].join('  ').trimEnd();
  });
  return [style.dim(head), ...rows];
}

/** As many months side by side as fit. */
function formatMonths(input: HeatMapInput): readonly string[] {
  const { dates, columns } = input;
  const months = [...new Set(dates.map(({ date }) => date.slice(0, 'YYYY-MM'.length)))];
  const abreast = Math.max(1, Math.floor((columns + BLOCK_GAP) / (BLOCK_WIDTH + BLOCK_GAP)));
  const lines: string[] = [];
  for (let start = 0; start < months.length; start += abreast) {
    const blocks = months.slice(start, start + abreast).map((month) => formatMonth(input, month));
    const height = Math.max(...blocks.map((block) => block.length));
    if (lines.length > 0) lines.push('');
    for (let row = 0; row < height; row += 1) {
      const cells = blocks.map((block) => block[row] ?? ' '.repeat(BLOCK_WIDTH));
      lines.push(cells.join(' '.repeat(BLOCK_GAP)).trimEnd());
    }
  }
  return lines;
}

/** Each line is as wide as the block, not counting colors. */
function formatMonth(input: HeatMapInput, month: string): readonly string[] {
  const cell = createCells(input);
  const title = `${MONTHS[Number(month.slice(5)) - 1]} ${month.slice(0, 4)}`;
  const head = DAYS.map((day) => day.slice(0, 2)).join(' ');
  const lines = [input.style.bold(title.padEnd(BLOCK_WIDTH)), input.style.dim(head)];
  for (let week = mondayOf(`${month}-01`); week.slice(0, 7) <= month; week = addDays(week, 7)) {
    const days = DAYS.map((_, day) => addDays(week, day)).map((date) => (date.startsWith(month) ? cell(date) : ' '));
    if (days.some((sign) => sign !== ' ')) lines.push(days.map((sign) => ` ${sign}`).join(' '));
  }
  return lines;
}

/** The sign of a date: one character, with its color. */
function createCells(input: HeatMapInput): (date: string) => string {
  const conditions = new Map(input.dates.map(({ date, condition }) => [date, condition]));
  const closed = new Set(listClosedDays(input));
  return (date) => {
    const condition = conditions.get(date);
    if (condition !== undefined) return input.style[SIGNS[condition].tone](SIGNS[condition].sign);
    return closed.has(date) ? input.style.dim(CLOSED) : ' ';
  };
}

function formatLegend(input: HeatMapInput): string {
  const { dates, style } = input;
  const counts = Object.entries(SIGNS).flatMap(([condition, { sign, tone }]) => {
    const count = dates.filter((date) => date.condition === condition).length;
    return count === 0 ? [] : [`${style[tone](sign)} ${condition} ${count}`];
  });
  const closed = listClosedDays(input).length;
  return [...counts, ...(closed === 0 ? [] : [`${style.dim(CLOSED)} closed ${closed}`])].join('   ');
}
