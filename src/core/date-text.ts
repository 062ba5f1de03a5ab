/**
 * Dates, times and spans as people read them, in American English: `Nov 20, 2026`, `Nov 20, 16:45 ET`, `12 min ago`. The
 * only owner of these formats; machines get ISO 8601, and a date that one types into a command stays `2026-11-20`. Pure;
 * it ignores the machine's locale. A text that is no date is returned on one line of bounded length.
 */

const SECOND_MS = 1000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
/** Up to two days, spans are in hours, because people express urgency in hours. */
const HOURS_UNTIL_MS = 2 * DAY_MS;
/** Of a text that is no date. */
const MAX_CHARACTERS = 40;
/** Half a year: readers take a day and month without a year for the nearest one. */
const FAR_DAYS = 180;

/** `Thursday, November 19, 2026` for `2026-11-19`. */
export function formatDay(date: string): string {
  return formatParts(date, { weekday: 'long', month: 'long', day: 'numeric', year: 'numeric' });
}

/** `Nov 19, 2026`. */
export function formatDate(date: string): string {
  return formatParts(date, { month: 'short', day: 'numeric', year: 'numeric' });
}

/** `Nov 19`. */
export function formatShortDay(date: string): string {
  return formatParts(date, { month: 'short', day: 'numeric' });
}

/** `Nov 18` for a day within half a year of `date`, before or after it; `Nov 18, 2025` for one farther away. */
export function formatNearDay(day: string, date: string): string {
  const days = Math.abs(Date.parse(day) - Date.parse(date)) / DAY_MS;
  return days > FAR_DAYS ? formatDate(day) : formatShortDay(day);
}

/** `Fri, Nov 20, 2026`. */
export function formatWeekDate(date: string): string {
  return formatParts(date, { weekday: 'short', month: 'short', day: 'numeric', year: 'numeric' });
}

/** An ISO instant, or milliseconds since the epoch. */
type Instant = string | number;

const DAY_AND_TIME: Intl.DateTimeFormatOptions = { month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit' };

/**
 * `Nov 19, 2026, 17:31 ET`.
 * @param timezone IANA name
 * @param near within half a year of this date or instant, the year is left out: `Nov 19, 17:31 ET`
 */
export function formatInstant(instant: Instant, timezone: string, near: Instant = ''): string {
  const isNear = Math.abs(new Date(instant).getTime() - new Date(near).getTime()) <= FAR_DAYS * DAY_MS;
  const year: Intl.DateTimeFormatOptions = isNear ? {} : { year: 'numeric' };
  const text = formatIn(instant, timezone, { timeZoneName: 'short', ...DAY_AND_TIME, ...year });
  // `ET` all year, as desks say it.
  return text.replace(/ ([ECMP])[SD]T$/, ' $1T');
}

/** `Nov 19, 17:31`, for a column whose heading has the time zone. */
export function formatDayTime(instant: Instant, timezone: string): string {
  return formatIn(instant, timezone, DAY_AND_TIME);
}

/** `17:31`, where the day and the time zone are known. */
export function formatTime(instant: Instant, timezone: string): string {
  return formatIn(instant, timezone, { hour: '2-digit', minute: '2-digit' });
}

/** `17:31:07`, for lines of a log. */
export function formatExactTime(instant: Instant, timezone: string): string {
  return formatIn(instant, timezone, { hour: '2-digit', minute: '2-digit', second: '2-digit' });
}

/** A span in one unit, rounded down: `45 s`, `12 min`, `31 h`, `3 days`. Coarse, so that a refreshed page seldom changes. */
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

function shorten(text: string): string {
  return text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, ' ').slice(0, MAX_CHARACTERS);
}

function formatParts(date: string, parts: Intl.DateTimeFormatOptions): string {
  const day = new Date(`${date}T00:00:00Z`);
  return Number.isNaN(day.getTime()) ? shorten(date) : formatterOf('UTC', parts).format(day);
}

function formatIn(instant: Instant, timezone: string, parts: Intl.DateTimeFormatOptions): string {
  const time = new Date(instant);
  if (Number.isNaN(time.getTime())) return shorten(String(instant));
  return formatterOf(timezone, { hourCycle: 'h23', ...parts }).format(time);
}

/** Creating a formatter takes longer than rendering a page; the formats above and the jobs' time zones are few. */
const formatters = new Map<string, Intl.DateTimeFormat>();

function formatterOf(timeZone: string, parts: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const key = `${timeZone} ${Object.entries(parts).join(' ')}`;
  const known = formatters.get(key);
  if (known) return known;
  const formatter = createFormatter(timeZone, parts);
  formatters.set(key, formatter);
  return formatter;
}

/** An unknown time zone is shown as UTC: the job file's check refuses it. */
function createFormatter(timeZone: string, parts: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  try {
    return new Intl.DateTimeFormat('en-US', { timeZone, ...parts });
  } catch {
    return new Intl.DateTimeFormat('en-US', { timeZone: 'UTC', ...parts });
  }
}
