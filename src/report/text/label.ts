/**
 * Formats labels, dates and numbers for the report. Invariant: `cleanLabel` and `cleanCode` return a text of the data
 * without control characters and with bounded length, so that it cannot forge a line of the text part or a header, or
 * widen a table.
 */
import { formatCount, formatDecimal, formatDollars, formatPercent } from '../../core/units.ts';
import type { Amount } from '../amount.ts';

/** Shown if there is no number. */
export const NONE = '–';

/** Longer than any symbol or contract; a cut text ends with an ellipsis. */
const MAX_LABEL_LENGTH = 40;

/** Longer than any side, sentiment or activity type. */
const MAX_CODE_LENGTH = 12;

/** Sums of the same numbers in a different order differ by less than this. */
const ROUNDING = 1e-9;
const HALF_CENT = 0.005;
/** 10,000%. */
const MANY_TIMES = 100;

const DAY_MS = 86_400_000;
/** Half a year: readers take a day and month without a year for the nearest one. */
const FAR_DAYS = 180;

/** Control characters, line separators, and direction marks. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

const WEEKDAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'] as const;
const MONTHS = [
  'January',
  'February',
  'March',
  'April',
  'May',
  'June',
  'July',
  'August',
  'September',
  'October',
  'November',
  'December',
] as const;

/** A text of the data, on one line of bounded length. */
export function cleanLabel(value: string): string {
  return shorten(value, MAX_LABEL_LENGTH);
}

/** A symbol of the data, on one line; records may have none. */
export function nameSymbol(symbol: string): string {
  return cleanLabel(symbol) || '(no symbol)';
}

/** A code of the data, such as a side or an activity type, on one line of bounded length. */
export function cleanCode(value: string): string {
  return shorten(value, MAX_CODE_LENGTH);
}

function shorten(value: string, maxLength: number): string {
  const letters = [...cleanLine(value)];
  return letters.length > maxLength ? `${letters.slice(0, maxLength - 1).join('')}…` : letters.join('');
}

/** A text of any length on one line, such as a URL. */
export function cleanLine(value: string): string {
  return value.replace(UNPRINTABLE, ' ').trim();
}

/** `1 trade`, `2,295 trades`; `n/a trades` if the count is unknown. */
export function countOf(count: Amount, noun: string): string {
  return `${formatCount(count)} ${noun}${count === 1 ? '' : 's'}`;
}

/** `Thursday, 19 November 2026` for `2026-11-19`; the text itself if it is not a date. */
export function formatDay(date: string): string {
  const day = new Date(`${date}T00:00:00Z`);
  if (Number.isNaN(day.getTime())) return cleanLabel(date);
  return `${WEEKDAYS[day.getUTCDay()]}, ${day.getUTCDate()} ${MONTHS[day.getUTCMonth()]} ${day.getUTCFullYear()}`;
}

/**
 * `09:30:02` from a wall-clock time such as `2026-11-19 09:30:02.000`, with its day if that differs from `date`
 * (sessions that begin the evening before); empty if there is no time.
 */
export function formatWallClock(time: string, date: string): string {
  const [clock] = /\d{2}:\d{2}(:\d{2})?/.exec(time) ?? [];
  if (clock === undefined) return '';
  const day = time.slice(0, date.length);
  return /^\d{4}-\d{2}-\d{2}$/.test(day) && day !== date ? `${formatShortDay(day)} ${clock}` : clock;
}

/** `18 Nov` for `2026-11-18`; the text itself if it is not a date. */
export function formatShortDay(date: string): string {
  const day = new Date(`${date}T00:00:00Z`);
  if (Number.isNaN(day.getTime())) return cleanLabel(date);
  return `${day.getUTCDate()} ${MONTHS[day.getUTCMonth()]?.slice(0, 3)}`;
}

/** `18 Nov` for an earlier day; `18 Nov 2025` if it is so far back that readers would assume this year. */
export function formatPastDay(past: string, date: string): string {
  const days = (Date.parse(date) - Date.parse(past)) / DAY_MS;
  return days > FAR_DAYS ? `${formatShortDay(past)} ${past.slice(0, 4)}` : formatShortDay(past);
}

/** `15 Jan` for a day within the next half year; `17 Dec 2027` for a later one. */
export function formatFutureDay(day: string, date: string): string {
  const days = (Date.parse(day) - Date.parse(date)) / DAY_MS;
  return days > FAR_DAYS ? `${formatShortDay(day)} ${day.slice(0, 4)}` : formatShortDay(day);
}

/**
 * `2026-11-19 17:31 EST` for an ISO instant, in the reader's time zone.
 * @param timezone IANA name; `job/` validates it
 */
export function formatInstant(instant: string, timezone: string): string {
  const time = new Date(instant);
  if (Number.isNaN(time.getTime())) return cleanLabel(instant);
  const format = new Intl.DateTimeFormat('en-US', {
    ...{ timeZone: timezone, timeZoneName: 'short', hourCycle: 'h23' },
    ...{ year: 'numeric', month: '2-digit', day: '2-digit', hour: '2-digit', minute: '2-digit' },
  });
  const parts = new Map(format.formatToParts(time).map(({ type, value }) => [type, value]));
  const of = (type: Intl.DateTimeFormatPartTypes) => parts.get(type) ?? '';
  return `${of('year')}-${of('month')}-${of('day')} ${of('hour')}:${of('minute')} ${of('timeZoneName')}`;
}

/** A count for a narrow column: whole below ten thousand, then `61.2K`, `6.53M`. */
export function formatShortCount(count: Amount): string {
  if (count === null) return formatCount(null);
  return Math.abs(count) < 10_000 ? formatCount(count) : formatDollars(count).replace('$', '');
}

/**
 * A share in whole percent: `62%`. Shares just below 100% show as `>99%`, just above 0 as `<1%`; `n/a` if the share
 * is unknown.
 */
export function formatPart(share: Amount): string {
  if (share === null) return formatPercent(null);
  if (share > ROUNDING && share < 0.005) return '<1%';
  if (share >= 0.995 && share < 1 - ROUNDING) return '>99%';
  return formatPercent(share, 0);
}

/** Whether two dollar amounts are the same for a reader: sums of the same cents can differ in their last digits. */
export function isSameDollars(a: number, b: number): boolean {
  return Math.abs(a - b) < HALF_CENT;
}

/**
 * `+12%`, `-3.4%`, `0%`: whole percent from 10% on, one decimal below; `n/a` if the share does not exist. Growth of
 * 10,000% or more shows as a multiple: `992 ×`.
 */
export function formatSignedPercent(share: Amount): string {
  if (share === null || !Number.isFinite(share)) return formatPercent(null);
  if (share >= MANY_TIMES) return `${formatShortCount(share + 1)} ×`;
  const digits = Math.abs(share) < 0.0995 ? 1 : 0;
  const text = formatPercent(share, digits);
  if (/^-?0(\.0)?%$/.test(text)) return '0%';
  return share > 0 ? `+${text}` : text;
}

/** `a`, `a and b`, `a, b and c`. */
export function joinWords(words: readonly string[]): string {
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`;
}

/** A ratio as printed: `0.70`, or a dash. */
export function formatRatio(ratio: number | null): string {
  return ratio === null ? NONE : formatDecimal(ratio);
}

/** `4.3 ×`. */
export function formatTimes(ratio: number): string {
  return `${formatDecimal(ratio, 1)} ×`;
}
