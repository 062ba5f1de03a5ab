/**
 * The exchange's wall clock: instants to and from `YYYY-MM-DD HH:MM:SS` in America/New_York. Pure. Wall-clock strings
 * sort in time order, except in the repeated hour in autumn, when no session is open.
 */
import { EXCHANGE_TIME_ZONE } from '../api-contract/published-limits.ts';

export const SECONDS_PER_DAY = 86_400;
const DAY_MS = SECONDS_PER_DAY * 1000;

const parts = new Intl.DateTimeFormat('en-CA', {
  timeZone: EXCHANGE_TIME_ZONE,
  hourCycle: 'h23',
  year: 'numeric',
  month: '2-digit',
  day: '2-digit',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
});

/** The exchange's wall clock at an instant, `YYYY-MM-DD HH:MM:SS`. @param epochMs milliseconds since the epoch */
export function formatWallClock(epochMs: number): string {
  const field: Record<string, string> = {};
  for (const { type, value } of parts.formatToParts(epochMs)) field[type] = value;
  return `${field['year']}-${field['month']}-${field['day']} ${field['hour']}:${field['minute']}:${field['second']}`;
}

/** The exchange's date at an instant, `YYYY-MM-DD`. */
export function formatWallDate(epochMs: number): string {
  return formatWallClock(epochMs).slice(0, 10);
}

/**
 * The instant when the exchange's clock shows `date` and `secondOfDay`. A time in the hour skipped in spring is moved
 * past the jump by the same amount; in the hour repeated in autumn, the earlier instant is used (as `compatible` in
 * ECMAScript's Temporal).
 * @returns milliseconds since the epoch
 */
export function parseWallClock(date: string, secondOfDay: number): number {
  const asUtc = Date.parse(`${date}T00:00:00Z`) + secondOfDay * 1000;
  // Two rounds find the offset in force: the first guess is at most a few hours off. If they never agree, the time was
  // skipped, and the later of the two lies after the jump.
  const first = asUtc - wallOffsetMs(asUtc);
  const second = asUtc - wallOffsetMs(first);
  return wallOffsetMs(second) === wallOffsetMs(first) ? second : Math.max(first, second);
}

/** `YYYY-MM-DD` moved by whole days. */
export function addDays(date: string, days: number): string {
  return new Date(Date.parse(`${date}T00:00:00Z`) + days * DAY_MS).toISOString().slice(0, 10);
}

/** Day of the week of a date, 0 = Sunday. */
export function weekday(date: string): number {
  return new Date(`${date}T00:00:00Z`).getUTCDay();
}

/** The Monday of the week of a date. */
export function mondayOf(date: string): string {
  return addDays(date, -((weekday(date) + 6) % 7));
}

/** Whether the text is a date that exists, `YYYY-MM-DD`. */
export function isDate(text: string): boolean {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(text)) return false;
  const epochMs = Date.parse(`${text}T00:00:00Z`);
  return !Number.isNaN(epochMs) && new Date(epochMs).toISOString().startsWith(text);
}

/** `HH:MM:SS` of a second of the day; 86,400 is `24:00:00`. */
export function formatSecond(secondOfDay: number): string {
  const two = (value: number) => String(value).padStart(2, '0');
  return `${two(Math.floor(secondOfDay / 3600))}:${two(Math.floor(secondOfDay / 60) % 60)}:${two(secondOfDay % 60)}`;
}

/** `HH:MM` of a second of the day. */
export function formatMinute(secondOfDay: number): string {
  return formatSecond(secondOfDay).slice(0, 'HH:MM'.length);
}

/** Second of the day of `HH:MM:SS`; a part that is missing is zero. */
export function parseSecond(time: string): number {
  const [hours = 0, minutes = 0, seconds = 0] = time.split(':').map(Number);
  return hours * 3600 + minutes * 60 + seconds;
}

function wallOffsetMs(epochMs: number): number {
  const wall = Date.parse(`${formatWallClock(epochMs).replace(' ', 'T')}Z`);
  return wall - Math.floor(epochMs / 1000) * 1000;
}

/** A date range given to a command, both ends included. */
export interface DateRange {
  readonly from: string;
  readonly to: string;
}

export function isInRange(date: string, range: DateRange | undefined): boolean {
  return range === undefined || (date >= range.from && date <= range.to);
}
