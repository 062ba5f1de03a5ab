/**
 * Words and dates as the report shows them. Invariant: a text that came with the data leaves here without control
 * characters and of bounded length, so that it can forge no line of the text part, no header, and no wide table.
 */
import { formatCount } from '../core/units.ts';

/** Longer than any symbol or contract; what is cut is marked. */
const MAX_LABEL_LENGTH = 40;

/** Control characters, line separators, and marks that reverse the reading direction. */
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

/** A text of the data on one line. */
export function cleanLabel(value: string): string {
  const line = value.replace(UNPRINTABLE, ' ').trim();
  const letters = [...line];
  return letters.length > MAX_LABEL_LENGTH ? `${letters.slice(0, MAX_LABEL_LENGTH - 1).join('')}…` : line;
}

/** A text of any length on one line, such as a URL. */
export function cleanLine(value: string): string {
  return value.replace(UNPRINTABLE, ' ').trim();
}

/** `1 trade`, `2,295 trades`. */
export function countOf(count: number, noun: string): string {
  return `${formatCount(count)} ${noun}${count === 1 ? '' : 's'}`;
}

/** `Thursday, 19 November 2026` for `2026-11-19`; the text itself when it is no date. */
export function formatDay(date: string): string {
  const day = new Date(`${date}T00:00:00Z`);
  if (Number.isNaN(day.getTime())) return cleanLabel(date);
  return `${WEEKDAYS[day.getUTCDay()]}, ${day.getUTCDate()} ${MONTHS[day.getUTCMonth()]} ${day.getUTCFullYear()}`;
}

/** `09:30:02` of a wall-clock time such as `2026-11-19 09:30:02.000`; empty when there is none. */
export function formatWallClock(time: string): string {
  return /\d{2}:\d{2}(:\d{2})?/.exec(time)?.[0] ?? '';
}

/** `2026-11-19 22:31 UTC` of an ISO instant. */
export function formatInstant(instant: string): string {
  const time = new Date(instant);
  return Number.isNaN(time.getTime())
    ? cleanLabel(instant)
    : `${time.toISOString().slice(0, 16).replace('T', ' ')} UTC`;
}
