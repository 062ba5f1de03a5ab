/**
 * The condition of a date of a dataset: the conditions, and the one rule that assigns them. Pure: facts from the
 * store, the source and earlier runs come in as arguments.
 */

import { listSessions } from '../calendar/session.ts';
import { type DateRange, isInRange } from '../calendar/wall-clock.ts';
import type { LookbackRange } from './dates.ts';

/**
 * - `available`: sealed, complete; `degraded`: sealed, known to be incomplete
 * - `pending`: not sealed, but can still be fetched, now or after the session has settled
 * - `missing`: a session without rows at the source, although earlier dates have rows
 * - `empty`: a session with rows at the source, none of which meets the job's own condition or SQL: nothing to seal
 * - `expired`: left the lookback before it was sealed
 */
export const CONDITIONS = ['available', 'degraded', 'pending', 'missing', 'empty', 'expired'] as const;
export const SEALED_CONDITIONS = ['available', 'degraded'] as const;

export type Condition = (typeof CONDITIONS)[number];
export type SealedCondition = (typeof SEALED_CONDITIONS)[number];

export function isSealed(condition: Condition): condition is SealedCondition {
  return condition === 'available' || condition === 'degraded';
}

/** Whether a date is neither sealed nor lost: it can still be fetched, or could have been. */
export function isOpen(condition: Condition): condition is 'pending' | 'missing' {
  return condition === 'pending' || condition === 'missing';
}

/** Whether nothing will be sealed for a date, unless its source changes. */
export function isGone(condition: Condition | undefined): boolean {
  return condition === 'missing' || condition === 'empty' || condition === 'expired';
}

export interface ConditionFacts {
  /** Conditions in the manifests of the store. */
  readonly sealed: ReadonlyMap<string, SealedCondition>;
  /** Conditions that earlier runs recorded: from `condition.json`, otherwise from this machine. */
  readonly recorded: ReadonlyMap<string, Condition>;
  readonly lookback: LookbackRange;
  /** Earlier dates are known from records only: the calendar is not searched for others. */
  readonly since?: string | undefined;
  /** The source's current answer; `undefined` if it was not queried. */
  readonly shown?:
    | {
        /** Dates with rows. */
        readonly dates: readonly string[];
        /** Queried session dates without rows of the job. */
        readonly empty: ReadonlySet<string>;
        /** The subset of `empty` on which the source has other rows. */
        readonly unmatched?: ReadonlySet<string> | undefined;
        /** Queried dates; `undefined`: the whole lookback. */
        readonly range: DateRange | undefined;
      }
    | undefined;
}

/**
 * Conditions of all session dates from the first known one (sealed, recorded, or with rows) to the last settled one.
 * Earlier dates are not gaps: the job or the source did not exist yet. Ascending by date.
 */
export function deriveConditions(facts: ConditionFacts): ReadonlyMap<string, Condition> {
  const { sealed, recorded, lookback, shown, since = '' } = facts;
  const conditions = new Map<string, Condition>(sealed);
  const [first] = [...sealed.keys(), ...recorded.keys(), ...(shown?.dates ?? [])].sort();
  if (first !== undefined && lookback.lastSettled !== undefined) {
    const older = [...recorded].flatMap(([date, condition]) => (date < since && !isSealed(condition) ? [date] : []));
    const sessions = listSessions([first, since].sort().at(-1) ?? first, lookback.lastSettled, lookback.calendar);
    for (const date of [...older, ...sessions]) {
      if (sealed.has(date)) continue;
      conditions.set(date, shown ? judgeAsked(date, facts, shown) : judgeUnasked(date, facts));
    }
  }
  if (!shown) {
    // Report recorded dates even if this machine's clock or calendar does not know them.
    for (const [date, condition] of recorded)
      if (!isSealed(condition) && !conditions.has(date)) conditions.set(date, condition);
  }
  return new Map([...conditions].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** A session that had no rows while it was inside the lookback stays missing or empty; it did not expire. */
function judgeAsked(
  date: string,
  { recorded, lookback }: ConditionFacts,
  { dates, empty, unmatched, range }: NonNullable<ConditionFacts['shown']>,
): Condition {
  const before = recorded.get(date);
  if (date < lookback.firstWhole) return before === 'missing' || before === 'empty' ? before : 'expired';
  if (empty.has(date)) return unmatched?.has(date) ? 'empty' : 'missing';
  if (before === 'empty' && !dates.includes(date)) return before;
  return before === 'missing' && !isInRange(date, range) ? before : 'pending';
}

/** Without the source: lost or empty dates stay so, and the calendar decides the rest. */
function judgeUnasked(date: string, { recorded, lookback }: ConditionFacts): Condition {
  const before = recorded.get(date);
  if (before === 'missing' || before === 'empty' || before === 'expired') return before;
  return date < lookback.firstWhole ? 'expired' : 'pending';
}
