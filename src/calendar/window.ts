/**
 * Windows: half-open ranges of one trading date, each fetched with one request. Pure. A date's rows are cut along an
 * axis: by time (second, then id) or, if the server's table is sorted that way, by symbol (symbol, second, id). A bound
 * lies between two rows of that order, so windows can be cut anywhere. Their texts are stable: the stage stores them to
 * record which windows are in.
 */
import { formatSecond, SECONDS_PER_DAY } from './wall-clock.ts';

/** The sort order along which a date's windows are cut. */
export type Axis = 'time' | 'symbol';

export interface Bound {
  /** Symbol axis only: rows of symbols below it lie before the bound. */
  readonly symbol?: string | undefined;
  /** Second of the day, 0 to 86,400. On the symbol axis, within the rows of `symbol`. */
  readonly second: number;
  /**
   * Rows of that second (of the grain, if rows are grouped) with a key below this one lie before the bound;
   * `undefined`: the whole second lies after it. The key is the row's id, or the group's split key.
   */
  readonly id?: string | undefined;
}

export interface Window {
  readonly date: string;
  readonly from: Bound;
  readonly to: Bound;
}

/** A part of a date. */
export type Stretch = Pick<Window, 'from' | 'to'>;

/** Group lengths in seconds. Windows of grouped rows may end only between groups. */
export const GRAIN_SECONDS = { minute: 60, hour: 3600, day: SECONDS_PER_DAY } as const;
export type Grain = keyof typeof GRAIN_SECONDS;

/** The ends of a date on either axis. */
export const DAY_START: Bound = { second: 0 };
export const DAY_END: Bound = { second: SECONDS_PER_DAY };

export function wholeDay(date: string): Window {
  return { date, from: DAY_START, to: DAY_END };
}

/** The axis along which a window is cut; `undefined` for a whole day. */
export function axisOfStretch({ from, to }: Stretch): Axis | undefined {
  if (from.symbol !== undefined || to.symbol !== undefined) return 'symbol';
  return compareBounds(from, DAY_START) === 0 && compareBounds(to, DAY_END) === 0 ? undefined : 'time';
}

/** Order of two bounds of one axis in a day; a bound without an id comes before those inside its second. */
export function compareBounds(a: Bound, b: Bound): number {
  if (a.symbol !== b.symbol) {
    // A bound without a symbol is an end of the day.
    if (a.symbol === undefined) return a.second === 0 ? -1 : 1;
    if (b.symbol === undefined) return b.second === 0 ? 1 : -1;
    return compareText(a.symbol, b.symbol);
  }
  if (a.second !== b.second) return a.second - b.second;
  if (a.id === b.id) return 0;
  if (a.id === undefined) return -1;
  if (b.id === undefined) return 1;
  return compareText(a.id, b.id);
}

/** The engine's text order: by bytes. */
export function compareText(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

/** Whether no row can lie between the bounds of the window. */
export function isEmptyWindow({ from, to }: Stretch): boolean {
  return compareBounds(from, to) >= 0;
}

/** Whether two stretches of one axis share a place where a row can lie. */
export function isOverlapping(a: Stretch, b: Stretch): boolean {
  return compareBounds(a.from, b.to) < 0 && compareBounds(b.from, a.to) < 0;
}

/** Stable text of a window: `09:30:00..09:31:00`, with percent-encoded ids after `+`, symbols before `@`. */
export function formatWindow(window: Stretch): string {
  return `${formatBound(window.from)}..${formatBound(window.to)}`;
}

/** The reverse of `formatWindow`. @throws RangeError if the text is not a window */
export function parseWindow(date: string, text: string): Window {
  const [from, to] = text.split('..');
  if (from === undefined || to === undefined) throw new RangeError(`not a window: ${text}`);
  return { date, from: parseBound(from), to: parseBound(to) };
}

function formatBound({ symbol, second, id }: Bound): string {
  const before = symbol === undefined ? '' : `${encodeText(symbol)}@`;
  return before + formatSecond(second) + (id === undefined ? '' : `+${encodeText(id)}`);
}

/** Encodes dots too, so that `..` only ever separates bounds. */
function encodeText(text: string): string {
  return encodeURIComponent(text).replaceAll('.', '%2E').replaceAll("'", '%27');
}

function parseBound(text: string): Bound {
  const match = /^(?:([^@]*)@)?(\d{2}):(\d{2}):(\d{2})(?:\+(.*))?$/.exec(text);
  if (!match) throw new RangeError(`not a bound of a window: ${text}`);
  const [, symbol, hours, minutes, seconds, id] = match;
  const decode = (part: string | undefined) => (part === undefined ? undefined : decodeURIComponent(part));
  const second = Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds);
  return { symbol: decode(symbol), second, id: decode(id) };
}
