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

/** `5MB` as bytes: units are powers of 1,000, as in all output. */
export const sizeSchema = z
  .string()
  .regex(SIZE, 'a size with its unit: B, kB, MB or GB, e.g. 5MB')
  .transform((text) => {
    const [, amount = '0', unit = 'B'] = SIZE.exec(text) ?? [];
    return Math.floor(Number(amount) * (SIZE_UNITS[unit] ?? 1));
  });

const DURATION = /^([1-9]\d*) ?(m|h|d)$/;
const DURATION_UNITS: Readonly<Record<string, number>> = { m: 60, h: 3600, d: 86_400 };

/** As seconds. */
export const durationSchema = z
  .string()
  .regex(DURATION, 'a duration in minutes, hours or days: 90m, 12h or 7d')
  .transform(toSeconds);

/** Of which segment the end is awaited: the close, the curb, or the one that like sessions have. */
const SETTLE = /^(close|curb|learned)?(?:(?:^| )([1-9]\d* ?[mhd]))?$/;

/** `15m`, `curb`, `learned 5m`: which end is awaited, and how many seconds after it. */
export const settleSchema = z
  .string()
  .min(1)
  .regex(SETTLE, 'close, curb or learned, a duration, or both: learned, 15m or "curb 5m"')
  .transform((text) => {
    const [, until = 'close', after] = SETTLE.exec(text) ?? [];
    return { until: until as SettleUntil, seconds: after === undefined ? undefined : toSeconds(after) };
  });

export type SettleUntil = 'close' | 'curb' | 'learned';

/** As seconds; null: off. */
export function durationOrOff(example: string) {
  return z
    .string()
    .regex(/^(?:off|[1-9]\d* ?[mhd])$/, `a duration in minutes, hours or days (${example}), or off`)
    .transform((text) => (text === 'off' ? null : toSeconds(text)));
}

function toSeconds(text: string): number {
  const [, amount = '0', unit = 'm'] = DURATION.exec(text) ?? [];
  return Number(amount) * (DURATION_UNITS[unit] ?? 1);
}

/** What may be left out. */
export function optional<T extends z.ZodType>(schema: T, description: string) {
  return schema.optional().describe(description);
}

/** What may be left out, and has this value then. */
export function usual<T extends z.ZodType>(schema: T, value: z.util.NoUndefined<z.output<T>>, description: string) {
  return schema.default(value).describe(description);
}

/** What may be left out, and is null then. */
export function orNull<T extends z.ZodType>(schema: T) {
  return schema.optional().transform((value) => value ?? null);
}

type Camel<Name> = Name extends `${infer Head}_${infer Tail}` ? `${Head}${Capitalize<Camel<Tail>>}` : Name;

/** Keys of a job file have underscores. */
export function camelCase<T extends object>(section: T) {
  const rename = (name: string) => name.replace(/_[a-z]/g, (pair) => pair.slice(1).toUpperCase());
  return Object.fromEntries(Object.entries(section).map(([name, value]) => [rename(name), value])) as {
    readonly [K in keyof T as Camel<K>]: T[K];
  };
}

function isTimeZone(text: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: text });
    return true;
  } catch {
    return false;
  }
}
