/** Shapes of single values shared by sections of a job file: names, mail addresses, time zones, amounts with units. */
import { z } from 'zod';

/** Names become folders, keys and file names, so they are plain. */
export const nameSchema = z
  .string()
  .regex(/^[a-z0-9][a-z0-9_-]{0,62}$/, 'lower-case letters, digits, - and _, beginning with a letter or digit');

/** Of a column. */
export const identifierSchema = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]{0,62}$/, 'a column name: letters, digits and _, not beginning with a digit');

export const addressSchema = z.email('an e-mail address like desk@example.com');

export const timezoneSchema = z.string().refine(isTimeZone, 'a time zone of the IANA database, e.g. America/New_York');

const SIZE = /^(\d+(?:\.\d+)?) ?(B|kB|KB|MB|GB)$/;
const SIZE_UNITS: Readonly<Record<string, number>> = { B: 1, kB: 1000, KB: 1000, MB: 1_000_000, GB: 1_000_000_000 };

/** `5MB`: units are powers of 1,000, as in all output. */
export const sizeSchema = z.string().regex(SIZE, 'a size with its unit: B, kB, MB or GB, e.g. 5MB');

/** Bytes of a text that `sizeSchema` accepts. */
export function parseSizeBytes(text: string): number {
  const [, amount = '0', unit = 'B'] = SIZE.exec(text) ?? [];
  return Math.floor(Number(amount) * (SIZE_UNITS[unit] ?? 1));
}

const DURATION = /^([1-9]\d*) ?(m|h|d)$/;
const DURATION_UNITS: Readonly<Record<string, number>> = { m: 60, h: 3600, d: 86_400 };

export const durationSchema = z.string().regex(DURATION, 'a duration in minutes, hours or days: 90m, 12h or 7d');

/** Seconds of a text that `durationSchema` accepts. */
export function parseDurationSeconds(text: string): number {
  const [, amount = '0', unit = 'm'] = DURATION.exec(text) ?? [];
  return Number(amount) * (DURATION_UNITS[unit] ?? 1);
}

function isTimeZone(text: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: text });
    return true;
  } catch {
    return false;
  }
}
