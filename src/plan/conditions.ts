/**
 * The condition of a date of a dataset: its five names, and the one rule that says which date has which. Pure: what the
 * store, the source and earlier runs say comes in as arguments.
 */
import { type DateRange, isInRange } from '../calendar/date-range.ts';
import { listSessions } from '../calendar/session.ts';
import type { LookbackRange } from './dates.ts';

/**
 * - `available`: sealed, complete; `degraded`: sealed, known not to be complete
 * - `pending`: not sealed, and it can still be had, now or after the session has settled
 * - `missing`: a session that the source has no rows of, although it has rows of earlier dates
 * - `expired`: left the lookback before it was sealed
 */
export const CONDITIONS = ['available', 'degraded', 'pending', 'missing', 'expired'] as const;
export const SEALED_CONDITIONS = ['available', 'degraded'] as const;

export type Condition = (typeof CONDITIONS)[number];
export type SealedCondition = (typeof SEALED_CONDITIONS)[number];

export function isSealed(condition: Condition): condition is SealedCondition {
  return condition === 'available' || condition === 'degraded';
}

/** Whether a date can still be had, or could have been: neither sealed nor lost. */
export function isOpen(condition: Condition): condition is 'pending' | 'missing' {
  return condition === 'pending' || condition === 'missing';
}

export interface ConditionFacts {
  /** What the manifests in the store say. */
  readonly sealed: ReadonlyMap<string, SealedCondition>;
  /** What earlier runs recorded: in `condition.json`, else on this machine. */
  readonly recorded: ReadonlyMap<string, Condition>;
  readonly lookback: LookbackRange;
  /**
   * Whether the job has a condition of its own (`where`): then a session without rows may be none of its dates, so that
   * one counts only when rows of it were ever seen.
   */
  readonly isFiltered: boolean;
  /** What the source showed just now; `undefined` when it was not asked. */
  readonly shown?:
    | {
        /** Dates with rows. */
        readonly dates: readonly string[];
        /** Session dates that were asked for and have no rows. */
        readonly empty: ReadonlySet<string>;
        /** Dates that were asked for; `undefined`: all of the lookback. */
        readonly range: DateRange | undefined;
      }
    | undefined;
}

/**
 * Conditions of all session dates from the first known one (sealed, recorded, or with rows) to the last settled one.
 * Dates before it are no gap: the job, or the source, did not exist. By date, ascending.
 */
export function deriveConditions(facts: ConditionFacts): ReadonlyMap<string, Condition> {
  const { sealed, recorded, lookback, shown } = facts;
  const conditions = new Map<string, Condition>(sealed);
  const [first] = [...sealed.keys(), ...recorded.keys(), ...(shown?.dates ?? [])].sort();
  const newest = [...recorded.keys()].sort().at(-1) ?? '';
  if (first !== undefined && lookback.lastSettled !== undefined) {
    for (const date of listSessions(first, lookback.lastSettled, lookback.calendar)) {
      if (sealed.has(date)) continue;
      const condition = shown ? judgeAsked(date, facts, shown) : judgeUnasked(date, facts, newest);
      if (condition !== undefined) conditions.set(date, condition);
    }
  }
  if (!shown) {
    // A date that this machine's clock or calendar does not know is told all the same.
    for (const [date, condition] of recorded)
      if (!isSealed(condition) && !conditions.has(date)) conditions.set(date, condition);
  }
  return new Map([...conditions].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** A session that was without rows while it could be asked for is missing for good; it did not expire. */
function judgeAsked(
  date: string,
  { recorded, lookback, isFiltered }: ConditionFacts,
  { empty, range }: NonNullable<ConditionFacts['shown']>,
): Condition | undefined {
  const before = recorded.get(date);
  if (date < lookback.firstWhole) {
    if (before === 'missing') return before;
    const hadRows = before === 'pending' || before === 'expired';
    return isFiltered && !hadRows ? undefined : 'expired';
  }
  if (empty.has(date)) return isFiltered ? undefined : 'missing';
  return before === 'missing' && !isInRange(date, range) ? before : 'pending';
}

/** Without the source: what was lost or empty stays so, and the calendar says the rest. */
function judgeUnasked(
  date: string,
  { recorded, lookback, isFiltered }: ConditionFacts,
  newest: string,
): Condition | undefined {
  const before = recorded.get(date);
  if (before === 'missing' || before === 'expired') return before;
  // What the last run left out had no rows; of later dates it could not know.
  if (isFiltered && before === undefined && date <= newest) return undefined;
  return date < lookback.firstWhole ? 'expired' : 'pending';
}
