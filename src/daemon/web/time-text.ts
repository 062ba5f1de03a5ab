/**
 * Formats instants and spans for operators: how long from now, and when, in UTC and in the exchange's or the job's time
 * zone. Pure; it ignores the machine's locale. Spans are coarse, so that a refreshed page seldom changes.
 */
import { EXCHANGE_TIME_ZONE } from '../../api-contract/published-limits.ts';
import { html, type Markup } from './html.ts';

const SECOND_MS = 1000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
/** Up to two days, spans are in hours, because people express urgency in hours. */
const HOURS_UNTIL_MS = 48 * HOUR_MS;

/** One formatter per time zone: creating one takes longer than rendering a page. */
const clocks = new Map<string, Intl.DateTimeFormat>();

/** A span in one unit, rounded down: `45 s`, `12 min`, `31 h`, `3 days`. */
export function formatSpan(ms: number): string {
  if (ms < MINUTE_MS) return `${Math.max(0, Math.floor(ms / SECOND_MS))} s`;
  if (ms < HOUR_MS) return `${Math.floor(ms / MINUTE_MS)} min`;
  if (ms < HOURS_UNTIL_MS) return `${Math.floor(ms / HOUR_MS)} h`;
  return `${Math.floor(ms / DAY_MS)} days`;
}

/** `in 3 h`, `12 min ago`; within a minute `in less than a minute` or `just now`. */
export function formatRelative(atMs: number, nowMs: number): string {
  const ms = atMs - nowMs;
  if (Math.abs(ms) < MINUTE_MS) return ms > 0 ? 'in less than a minute' : 'just now';
  return ms > 0 ? `in ${formatSpan(ms)}` : `${formatSpan(-ms)} ago`;
}

/** `Mon 2026-11-23 18:00` in a time zone; in UTC if the zone is unknown. */
export function formatInstant(atMs: number, timeZone: string): string {
  const field: Record<string, string> = {};
  for (const { type, value } of clockOf(timeZone).formatToParts(atMs)) field[type] = value;
  const date = `${field['year']}-${field['month']}-${field['day']}`;
  return `${field['weekday']} ${date} ${field['hour']}:${field['minute']}`;
}

/** In UTC and in New York: `Sat 2026-11-21 05:00 UTC, 00:00 New York`; the date appears twice if it differs. */
export function formatBothClocks(atMs: number): string {
  const utc = formatInstant(atMs, 'UTC');
  const exchange = formatInstant(atMs, EXCHANGE_TIME_ZONE);
  const sameDate = utc.slice(0, -6) === exchange.slice(0, -6);
  return `${utc} UTC, ${sameDate ? exchange.slice(-5) : exchange} New York`;
}

/** Readable by people, and by programs that read the page. */
export function renderTime(atMs: number, text: string): Markup {
  return html`<time datetime="${new Date(atMs).toISOString()}">${text}</time>`;
}

/** Formats a date as `Fri 20 Nov 2026`. */
export function formatDay(date: string): string {
  const [weekday = '', day, month, year] = new Date(`${date}T00:00:00Z`).toUTCString().split(' ');
  return `${weekday.slice(0, 3)} ${Number(day)} ${month} ${year}`;
}

function clockOf(timeZone: string): Intl.DateTimeFormat {
  const known = clocks.get(timeZone);
  if (known) return known;
  const clock = createClock(isTimeZone(timeZone) ? timeZone : 'UTC');
  clocks.set(timeZone, clock);
  return clock;
}

function isTimeZone(timeZone: string): boolean {
  try {
    return Boolean(new Intl.DateTimeFormat('en-GB', { timeZone }));
  } catch {
    return false;
  }
}

function createClock(timeZone: string): Intl.DateTimeFormat {
  return new Intl.DateTimeFormat('en-GB', {
    timeZone,
    hourCycle: 'h23',
    weekday: 'short',
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
    hour: '2-digit',
    minute: '2-digit',
  });
}
