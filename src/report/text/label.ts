/**
 * Formats labels and numbers for the report; `core/date-text.ts` has dates. Invariant: `cleanLabel` and `cleanCode` return a text of the data
 * without control characters and with bounded length, so that it cannot forge a line of the text part or a header, or
 * widen a table.
 */
import { nameCode } from '../../api-contract/record-type.ts';
import { formatDate, formatShortDay } from '../../core/date-text.ts';
import { formatCount, formatDecimal, formatDollars, formatPercent } from '../../core/units.ts';
import type { Amount } from '../amount.ts';

/** Shown if there is no number. */
export const NONE = '–';

/** Longer than any symbol or contract; a cut text ends with an ellipsis. */
const MAX_LABEL_LENGTH = 40;

/** Longer than any code. */
const MAX_CODE_LENGTH = 12;

/** Sums of the same numbers in a different order differ by less than this. */
const ROUNDING = 1e-9;
const HALF_CENT = 0.005;
/** 1,000%. */
const MANY_TIMES = 10;

/** Control characters, line separators, and direction marks. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

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

const EXPIRY_NAMES: Readonly<Record<string, string>> = {
  week: '1 to 7 days',
  month: '8 to 31 days',
  later: 'more than 31 days',
};

/** A part of the day by expiration or moneyness. */
export function nameBucket(bucket: string): string {
  return EXPIRY_NAMES[bucket] ?? nameCode(bucket);
}

/** What an exposure is of: its chain has every contract, the records only those that traded. */
export function nameBasis({
  isWholeChain,
  isDegradedChain,
}: {
  readonly isWholeChain: boolean;
  readonly isDegradedChain?: boolean | undefined;
}): string {
  if (isDegradedChain) return 'degraded chain';
  return isWholeChain ? 'whole chain' : 'partial: traded contracts only';
}

/** `SPY Nov 20, 2026 600 C` for a contract of the model, `SPY 2026-11-20 600 C`. */
export function nameContract(contract: string): string {
  return cleanLabel(contract.replace(/(?<= )\d{4}-\d{2}-\d{2}(?= )/, formatDate));
}

/** A text of any length on one line, such as a URL. */
export function cleanLine(value: string): string {
  return value.replace(UNPRINTABLE, ' ').trim();
}

/**
 * `09:30:02` from a wall-clock time such as `2026-11-19 09:30:02.000`, with its day if that differs from `date`
 * (sessions that begin the evening before); empty if there is no time.
 */
export function formatWallClock(time: string, date: string): string {
  const [clock] = /\d{2}:\d{2}(:\d{2})?/.exec(time) ?? [];
  if (clock === undefined) return '';
  const day = time.slice(0, date.length);
  return /^\d{4}-\d{2}-\d{2}$/.test(day) && day !== date ? `${formatShortDay(day)}, ${clock}` : clock;
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
 * `+12%`, `−3.4%`, `0%`: whole percent from 10% on, one decimal below; `n/a` if the share does not exist. Growth of
 * 1,000% or more shows as a multiple: `28 ×`.
 */
export function formatSignedPercent(share: Amount): string {
  if (share === null || !Number.isFinite(share)) return formatPercent(null);
  if (share >= MANY_TIMES) return `${formatShortCount(Math.round(share + 1))} ×`;
  // Something is left: that is not −100%.
  const isNearlyAll = share > -1 && share < -0.995;
  const digits = Math.abs(share) < 0.0995 || isNearlyAll ? 1 : 0;
  const text = formatPercent(isNearlyAll ? Math.max(share, -0.999) : share, digits);
  if (/^\u2212?0(\.0)?%$/.test(text)) return '0%';
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

/** `4.3 ×`, `<0.1 ×`. */
export function formatTimes(ratio: number): string {
  return ratio < 0.05 ? '<0.1 ×' : `${formatDecimal(ratio, 1)} ×`;
}

export type Tone = 'bullish' | 'neutral' | 'bearish';

/** The tone of bullish minus bearish premium. Not for GEX: its sign is not a direction. */
export function toneOf(value: Amount): Tone {
  if (value === null || isSameDollars(value, 0)) return 'neutral';
  return value > 0 ? 'bullish' : 'bearish';
}
