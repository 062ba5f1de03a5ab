/**
 * Whether the rows of a restatement may replace the sealed ones. Many lost rows are no withdrawal: the source lags, or is being
 * reloaded. New rows that repeat trades which stay are a double load. Everything else is news. Pure.
 */
import { formatCount } from '../core/units.ts';
import type { MatchedTrades } from '../seal/changes.ts';
import { judgeSum } from './trades/withdrawn.ts';

/**
 * Prints can be equal in contract, time, price and size, so late rows may repeat some: these always may, like the few rows that
 * may always be withdrawn.
 */
const MAX_REPEATED_ROWS = 10;
/**
 * Of more new rows, the share that may repeat a trade. A late row does so as often as the date's own rows repeat each other,
 * and up to three times as often if all come from its busiest seconds. In a double load nearly all do.
 */
const MAX_REPEATED_SHARE = 0.1;
const BUSY_FACTOR = 3;

export interface FoundChange extends MatchedTrades {
  /** Rows of the sealed date. */
  readonly had: number;
  /** Of these, the rows whose trade is gone from the date, and is in no other. */
  readonly lost: number;
  /** New rows, without trades that have another id now. */
  readonly added: number;
}

/** Why the change is not believed, in words; `undefined` if it is. */
export function judgeChange({ had, lost, added, repeated, shared }: FoundChange): string | undefined {
  if (judgeSum(had, lost) !== undefined) {
    return `${formatCount(lost)} of ${formatCount(had)} sealed rows are gone at the source, too many for a withdrawal`;
  }
  const natural = had === 0 ? 0 : shared / had;
  const share = Math.min(Math.max(MAX_REPEATED_SHARE, natural * BUSY_FACTOR), (1 + natural) / 2);
  if (repeated <= MAX_REPEATED_ROWS || repeated <= added * share) return undefined;
  return `${formatCount(repeated)} of ${formatCount(added)} new rows have contract, time, price and size of a row that stays: the source has loaded trades twice`;
}
