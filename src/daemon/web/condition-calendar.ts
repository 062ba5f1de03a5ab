/**
 * The calendar of conditions: a table with one row per week. Every condition has its own shape as well as a colour.
 * Every day has a full sentence, read by screen readers and shown on hover and focus, and leads to its drop.
 */
import { EXCHANGE_TIME_ZONE } from '../../api-contract/published-limits.ts';
import { nameHoliday } from '../../calendar/holidays.ts';
import { type CalendarOverride, isSession, nameHalfDay } from '../../calendar/session.ts';
import { addDays, formatWallDate, mondayOf, weekday } from '../../calendar/wall-clock.ts';
import { formatDate, formatInstant, formatShortDay, formatWeekDate } from '../../core/date-text.ts';
import { formatCount } from '../../core/units.ts';
import { CONDITIONS, type Condition } from '../../plan/conditions.ts';
import { describeAccepted } from '../../state/documents.ts';
import { type JobDocument, KEPT_WEEKS } from '../shapes.ts';
import { dropPath, html, type Markup } from './html.ts';

type DateStatus = JobDocument['dates'][number];

/** Weeks always shown; the lookback is 15 days. Older ones are shown when unfolded, and even older dates are in the store. */
const RECENT_WEEKS = 6;
const DAYS = ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun'] as const;

/** In the order of the legend, with a short meaning. */
const CONDITION_WORDS: Readonly<Record<Condition, string>> = {
  available: 'sealed and complete',
  degraded: 'sealed, may be incomplete',
  pending: 'not sealed yet',
  missing: 'the source has no rows',
  empty: 'no row meets the filter',
  expired: 'lost before being sealed',
};

/** Shapes on a 16-unit grid; the page contains each once. */
export const SHAPES: Markup = html`<svg width="0" height="0" aria-hidden="true" focusable="false"><defs>
<symbol id="shape-available" viewBox="0 0 16 16"><path d="M3.2 8.6l3.2 3.2 6.4-7" fill="none" stroke="currentColor" stroke-width="2.2" stroke-linecap="round" stroke-linejoin="round"/></symbol>
<symbol id="shape-degraded" viewBox="0 0 16 16"><path d="M8 2.2L14.4 13.4H1.6z" fill="none" stroke="currentColor" stroke-width="1.8" stroke-linejoin="round"/><path d="M8 6.2v3.4M8 11.3v.3" stroke="currentColor" stroke-width="1.7" stroke-linecap="round"/></symbol>
<symbol id="shape-pending" viewBox="0 0 16 16"><circle cx="8" cy="8" r="5.6" fill="none" stroke="currentColor" stroke-width="1.8"/><path d="M8 5v3.2l2.2 1.4" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round"/></symbol>
<symbol id="shape-missing" viewBox="0 0 16 16"><circle cx="8" cy="8" r="5.6" fill="none" stroke="currentColor" stroke-width="1.8" stroke-dasharray="2.4 2.2"/></symbol>
<symbol id="shape-empty" viewBox="0 0 16 16"><circle cx="8" cy="8" r="5.6" fill="none" stroke="currentColor" stroke-width="1.8"/></symbol>
<symbol id="shape-expired" viewBox="0 0 16 16"><path d="M4 4l8 8M12 4l-8 8" stroke="currentColor" stroke-width="2.2" stroke-linecap="round"/></symbol>
</defs></svg>`;

export function renderShape(condition: Condition): Markup {
  return html`<svg class="shape" aria-hidden="true" focusable="false"><use href="#shape-${condition}"/></svg>`;
}

/**
 * The calendar of a job up to this week.
 * @param statuses oldest first
 * @param key distinguishes its elements from those of other jobs
 * @param job whose drops its days lead to
 */
export function renderCalendar(
  statuses: readonly DateStatus[],
  nowMs: number,
  calendar: CalendarOverride,
  key: string,
  job: string,
): Markup {
  const today = formatWallDate(nowMs);
  const dates = new Map(statuses.map((date) => [date.date, date]));
  const hasWeekends = statuses.some(({ date }) => weekday(date) === 0 || weekday(date) === 6);
  const days = DAYS.slice(0, hasWeekends ? 7 : 5);
  // Before it the job or the source did not exist.
  const first = statuses[0]?.date ?? today;
  const weeks = listWeeks(first, statuses.at(-1)?.date ?? today, today);
  const recent = weeks.slice(-RECENT_WEEKS);
  const earlier = weeks.slice(0, -RECENT_WEEKS);
  const known = new Set(statuses.map(({ condition }) => condition));
  const legend = CONDITIONS.filter((condition) => known.has(condition));
  const renderDay = (date: string) => {
    const day = html`<span class="date" aria-hidden="true">${Number(date.slice(8))}</span>`;
    const status = dates.get(date);
    if (status) {
      const close = nameHalfDay(date, calendar);
      const half = close === undefined ? '' : `, half day, closes ${close}`;
      return html`<td class="day ${status.condition}"><a href="${dropPath(job, date)}" data-key="${date}">${day}${renderShape(status.condition)}<span class="tip">${describeDate(status)}${half}</span></a></td>`;
    }
    const closed = nameClosure(date, calendar);
    if (closed !== undefined) {
      return html`<td class="day closed" tabindex="0" data-key="${date}">${day}<span class="holiday" aria-hidden="true">${hyphenate(closed)}</span><span class="tip">${formatWeekDate(date)}: closed, ${closed}</span></td>`;
    }
    const why = date > today ? 'in the future' : date < first ? 'before the first known date' : 'not due yet';
    return html`<td class="day none">${day}<span class="unseen">${formatWeekDate(date)}: ${isSession(date, calendar) ? why : 'weekend'}</span></td>`;
  };
  /** With the year if the day is in the first week of January. */
  const renderWeek = (monday: string) =>
    html`<tr><th scope="row">${/-01-0[1-7]$/.test(monday) ? formatDate(monday) : formatShortDay(monday)}</th>${days.map((_, index) => renderDay(addDays(monday, index)))}</tr>
`;
  const renderWeeks = (some: readonly string[], caption: string) =>
    html`<table class="calendar"><caption class="unseen">${caption}</caption>
<thead><tr><th scope="col"><span class="unseen">Week of</span></th>${days.map((day) => html`<th scope="col">${day}</th>`)}</tr></thead>
<tbody>${some.map(renderWeek)}</tbody></table>`;
  return html`${renderWeeks(recent, `Conditions of the last ${recent.length === 1 ? 'week' : `${recent.length} weeks`}`)}
<ul class="legend">${legend.map((condition) => html`<li>${renderShape(condition)}<b>${condition}</b> ${CONDITION_WORDS[condition]}</li>`)}</ul>
${
  earlier.length > 0 &&
  html`<details data-key="${key}-earlier"><summary>Earlier: ${tell(earlier, dates)}</summary>
${renderWeeks(earlier, 'Conditions of earlier weeks')}</details>`
}`;
}

function describeDate({
  date,
  condition,
  rows,
  revision,
  damage,
  accepted,
  begins_to_expire: expires,
}: DateStatus): string {
  const parts = [`${formatWeekDate(date)}: ${condition}`];
  if (rows !== null) parts.push(`${formatCount(rows)} rows`);
  if (revision !== null) parts.push(`revision ${revision}`);
  if (damage) parts.push(`damaged: ${damage}`);
  if (accepted) parts.push(describeAccepted(accepted));
  if (expires !== null && !Number.isNaN(Date.parse(expires))) {
    parts.push(`begins to expire ${formatInstant(expires, EXCHANGE_TIME_ZONE, date)}`);
  }
  return parts.join(', ');
}

/** Lets long words break in narrow cells on a phone: not all browsers have a hyphenation dictionary. */
function hyphenate(name: string): string {
  return name.replace(/^(Thanks|Inde|Washing|June|Christ|Memo|Unsche)(?=[a-z])/, '$1\u00ad');
}

/** Why a weekday has no session; `undefined` for session days and normal weekends. */
function nameClosure(date: string, calendar: CalendarOverride): string | undefined {
  if (isSession(date, calendar)) return undefined;
  if (calendar.closed.has(date)) return nameHoliday(date) ?? 'Closed by the calendar file';
  return nameHoliday(date);
}

/** Mondays from the first date's week to this week or the last date's, whichever is later; bounded. */
function listWeeks(first: string, last: string, today: string): readonly string[] {
  const end = mondayOf(last > today ? last : today);
  const weeks: string[] = [];
  for (let week = end; week >= mondayOf(first) && weeks.length < KEPT_WEEKS; week = addDays(week, -7)) weeks.push(week);
  return weeks.reverse();
}

function tell(weeks: readonly string[], dates: ReadonlyMap<string, DateStatus>): string {
  const [from = '', to = ''] = [weeks[0], addDays(weeks.at(-1) ?? '', 6)];
  const inside = [...dates.values()].filter(({ date }) => date >= from && date <= to);
  const counts = CONDITIONS.flatMap((condition) => {
    const count = inside.filter((date) => date.condition === condition).length;
    return count > 0 ? [`${count} ${condition}`] : [];
  });
  return `${weeks.length} week${weeks.length === 1 ? '' : 's'}, ${counts.join(', ')}`;
}
