/**
 * Bounds of the text of `time`: combined in the engine's text order, and converted to conditions on times. Invariant: a
 * condition is true for every row whose text is within the bounds; a bound that is not a time gives no condition. Pure.
 */
import { quoteString } from '../engine/literal.ts';

/** Texts whose text order is the order of their times; `completeTime` fills in the missing parts. */
const TIME_TEXT = /^(\d{4}-\d{2}-\d{2})(?: (\d{2})(?::(\d{2})(?::(\d{2}))?)?)?$/;
const FIRST_YEAR = 1970;
const LAST_YEAR = 2200;

export interface TimeBounds {
  readonly from: string | undefined;
  readonly to: string | undefined;
}

export const UNBOUNDED: TimeBounds = { from: undefined, to: undefined };

/** Bounds of rows that satisfy both. */
export function intersect(a: TimeBounds, b: TimeBounds): TimeBounds {
  const from = a.from === undefined || (b.from !== undefined && isBefore(a.from, b.from)) ? b.from : a.from;
  const to = a.to === undefined || (b.to !== undefined && isBefore(b.to, a.to)) ? b.to : a.to;
  return { from, to };
}

/** Bounds of rows that satisfy either. */
export function unite(a: TimeBounds, b: TimeBounds): TimeBounds {
  const from = a.from === undefined || b.from === undefined ? undefined : isBefore(b.from, a.from) ? b.from : a.from;
  const to = a.to === undefined || b.to === undefined ? undefined : isBefore(a.to, b.to) ? b.to : a.to;
  return { from, to };
}

/** Compares by bytes, as the engine compares texts. */
export function isBefore(a: string, b: string): boolean {
  return Buffer.compare(Buffer.from(a), Buffer.from(b)) < 0;
}

/** Conditions on the files' times that all rows within the bounds satisfy. */
export function describeBounds({ from, to }: TimeBounds): readonly string[] {
  const first = from === undefined ? undefined : completeTime(from);
  const last = to === undefined ? undefined : completeTime(to);
  return [
    ...(first === undefined ? [] : [`time >= toDateTime64(${quoteString(first)}, 6, 'UTC')`]),
    // The text has whole seconds; the file may have fractions.
    ...(last === undefined ? [] : [`time < toDateTime64(${quoteString(last)}, 6, 'UTC') + toIntervalSecond(1)`]),
  ];
}

/**
 * The first second whose text begins with `text`. A text at or after `text` is a time at or after this second, and a
 * text at or before `text` is a time at or before it. `undefined` if `text` is not a time.
 */
export function completeTime(text: string): string | undefined {
  const [, date, hour = '00', minute = '00', second = '00'] = TIME_TEXT.exec(text) ?? [];
  if (date === undefined) return undefined;
  const year = Number(date.slice(0, 4));
  if (year < FIRST_YEAR || year > LAST_YEAR) return undefined;
  const complete = `${date} ${hour}:${minute}:${second}`;
  const epochMs = Date.parse(`${complete.replace(' ', 'T')}Z`);
  // February 30 sorts as a text, but is not a time.
  if (Number.isNaN(epochMs)) return undefined;
  return new Date(epochMs).toISOString().slice(0, 19).replace('T', ' ') === complete ? complete : undefined;
}
