/**
 * Unusual activity: a symbol's premium of the day over the mean of its last sessions (at most five, a session without it
 * counting as 0). Compared are counted records with counted records; the sessions come from the summaries beside their
 * drops. A session in which a symbol's premium is not known is left out of its mean. Pure. What stands out is a rule of thumb, so its limits are here by name:
 */
import type { UnusualSymbol } from '../model.ts';
import { divide, type EngineNumber, type PremiumRow, readNumber, readPremium } from './premium.ts';

/** Rows of the table. */
export const UNUSUAL_SYMBOLS = 10;
/** Of the last sessions, those in which the symbol must have traded: a mean over fewer is one trade's size. */
const MIN_SESSIONS = 3;
/** Dollars of the day: below it one order makes any ratio, and nobody acts on it. */
const MIN_PREMIUM = 1_000_000;
/** A symbol's premium halves or doubles from one day to the next without anything having happened. */
const MIN_RATIO = 2;

/** Those that stand out first, the largest ratio in front, as the ORDER BY of the engine. */
export const UNUSUAL_ORDER = `if(sessions >= ${MIN_SESSIONS} AND mean > 0 AND total_premium >= ${MIN_PREMIUM} AND total_premium >= ${MIN_RATIO} * mean, total_premium / mean, 0) DESC`;

export type UnusualRow = PremiumRow & {
  readonly symbol: string;
  readonly mean: EngineNumber;
  readonly previous: EngineNumber;
  readonly sessions: number;
  readonly unusual_place: number;
};

/** @param hasPrevious whether the session before is one of those compared with */
export function readUnusual(rows: readonly UnusualRow[], hasPrevious: boolean): readonly UnusualSymbol[] {
  return rows
    .filter((row) => row.unusual_place <= UNUSUAL_SYMBOLS)
    .sort((a, b) => a.unusual_place - b.unusual_place)
    .map((row) => readAgainstPast(row, hasPrevious))
    .filter((symbol) => symbol !== null)
    .filter(({ premium, ratio }) => premium >= MIN_PREMIUM && ratio >= MIN_RATIO);
}

/** A symbol against its own past, whether it stands out or not; null when its past is too short. */
export function readAgainstPast(row: UnusualRow, hasPrevious: boolean): UnusualSymbol | null {
  const { total, netCalls, netPuts, bullish, bearish } = readPremium(row);
  const mean = readNumber(row.mean);
  const ratio = divide(total, mean);
  if (total === null || mean === null || ratio === null || row.sessions < MIN_SESSIONS) return null;
  return {
    symbol: row.symbol,
    premium: total,
    previous: hasPrevious ? readNumber(row.previous) : null,
    mean,
    ratio,
    sessions: row.sessions,
    netCalls,
    netPuts,
    bullish,
    bearish,
  };
}
