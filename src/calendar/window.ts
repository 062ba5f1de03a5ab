/**
 * Windows: half-open ranges of one trading date, asked in one request each. Pure. A bound is a second of the day and,
 * where one second is too much for a page, an id inside it, so windows can be cut anywhere between two rows. Their ids
 * are stable text: the stage keeps them as the ledger of what is in.
 */
import { formatSecond, SECONDS_PER_DAY } from './wall-clock.ts';

export interface Bound {
  /** Second of the day, 0 to 86,400. */
  readonly second: number;
  /** Rows of that second with an id below this one lie before the bound; `undefined`: all of the second lies after it. */
  readonly id?: string;
}

export interface Window {
  readonly date: string;
  readonly from: Bound;
  readonly to: Bound;
}

export const DAY_START: Bound = { second: 0 };
export const DAY_END: Bound = { second: SECONDS_PER_DAY };

export function wholeDay(date: string): Window {
  return { date, from: DAY_START, to: DAY_END };
}

/** Whether no row can lie between the bounds of the window. */
export function isEmptyWindow({ from, to }: Pick<Window, 'from' | 'to'>): boolean {
  return from.second > to.second || (from.second === to.second && (to.id === undefined || from.id === to.id));
}

/** Stable text of a window: `09:30:00..09:31:00`, with percent-encoded ids after `+` where it is cut inside a second. */
export function formatWindow(window: Pick<Window, 'from' | 'to'>): string {
  return `${formatBound(window.from)}..${formatBound(window.to)}`;
}

/** The reverse of `formatWindow`. @throws RangeError when the text is not a window's */
export function parseWindow(date: string, text: string): Window {
  const [from, to] = text.split('..');
  if (from === undefined || to === undefined) throw new RangeError(`not a window: ${text}`);
  return { date, from: parseBound(from), to: parseBound(to) };
}

function formatBound(bound: Bound): string {
  // Dots are encoded too, so that `..` separates bounds whatever an id holds.
  const id =
    bound.id === undefined ? '' : `+${encodeURIComponent(bound.id).replaceAll('.', '%2E').replaceAll("'", '%27')}`;
  return formatSecond(bound.second) + id;
}

function parseBound(text: string): Bound {
  const match = /^(\d{2}):(\d{2}):(\d{2})(?:\+(.*))?$/.exec(text);
  if (!match) throw new RangeError(`not a bound of a window: ${text}`);
  const second = Number(match[1]) * 3600 + Number(match[2]) * 60 + Number(match[3]);
  return match[4] === undefined ? { second } : { second, id: decodeURIComponent(match[4]) };
}
