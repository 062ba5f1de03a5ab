/**
 * Bounds of the text of `time`: joined as the engine compares texts, and turned into conditions on times. Invariant: a
 * condition is true for every row whose text is within the bounds; a bound that is no time gives no condition. Pure.
 */
import { quoteString } from '../engine/literal.ts';

/** Texts for which the order of texts is the order of times, and what completes them. */
const TIME_TEXT = /^(\d{4}-\d{2}-\d{2})(?: (\d{2})(?::(\d{2})(?::(\d{2}))?)?)?$/;
const FIRST_YEAR = 1970;
const LAST_YEAR = 2200;

export interface TimeBounds {
  readonly from: string | undefined;
  readonly to: string | undefined;
}

export const UNBOUNDED: TimeBounds = { from: undefined, to: undefined };

/** Rows that satisfy both. */
export function intersect(a: TimeBounds, b: TimeBounds): TimeBounds {
  const from = a.from === undefined || (b.from !== undefined && isBefore(a.from, b.from)) ? b.from : a.from;
  const to = a.to === undefined || (b.to !== undefined && isBefore(b.to, a.to)) ? b.to : a.to;
  return { from, to };
}

/** Rows that satisfy one of them. */
export function unite(a: TimeBounds, b: TimeBounds): TimeBounds {
  const from = a.from === undefined || b.from === undefined ? undefined : isBefore(b.from, a.from) ? b.from : a.from;
  const to = a.to === undefined || b.to === undefined ? undefined : isBefore(a.to, b.to) ? b.to : a.to;
  return { from, to };
}

/** As the engine compares texts: by their bytes. */
export function isBefore(a: string, b: string): boolean {
  return Buffer.compare(Buffer.from(a), Buffer.from(b)) < 0;
}

/** Conditions on the times in the files that all rows within `bounds` satisfy. */
export function describeBounds({ from, to }: TimeBounds): readonly string[] {
  const first = from === undefined ? undefined : completeTime(from);
  const last = to === undefined ? undefined : completeTime(to);
  return [
    ...(first === undefined ? [] : [`time >= toDateTime64(${quoteString(first)}, 3, 'UTC')`]),
    // The text has whole seconds, the file may have parts of them.
    ...(last === undefined ? [] : [`time < toDateTime64(${quoteString(last)}, 3, 'UTC') + toIntervalSecond(1)`]),
  ];
}

/**
 * The first second whose text begins with `text`; every text that is not before `text` belongs to a time that is not before
 * it, and every text that is not behind, to one that is not behind it. `undefined` for what is no time.
 */
function completeTime(text: string): string | undefined {
  const [, date, hour = '00', minute = '00', second = '00'] = TIME_TEXT.exec(text) ?? [];
  if (date === undefined) return undefined;
  const year = Number(date.slice(0, 4));
  if (year < FIRST_YEAR || year > LAST_YEAR) return undefined;
  const complete = `${date} ${hour}:${minute}:${second}`;
  const epochMs = Date.parse(`${complete.replace(' ', 'T')}Z`);
  // 30 February has an order among texts, but no time.
  if (Number.isNaN(epochMs)) return undefined;
  return new Date(epochMs).toISOString().slice(0, 19).replace('T', ' ') === complete ? complete : undefined;
}
