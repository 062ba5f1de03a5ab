/**
 * Conditions of the dates when no run could report any: from the last run's record, the sealed dates and the calendar,
 * brought up to now. Even if the API does not answer for days, dates about to expire must be reported. Invariant: it
 * sends no request to a source, and reports no gap that it could not check.
 */
import type { CalendarOverride } from '../calendar/session.ts';
import { describeError, Fault } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import type { Job } from '../job/job.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { type Condition, deriveConditions, isSealed, type SealedCondition } from '../plan/conditions.ts';
import { lookbackOf } from '../plan/dates.ts';

interface KnownConditions {
  /** Empty if the store cannot be read. */
  readonly conditions: Readonly<Record<string, Condition>>;
  /** Gaps that a person accepted. */
  readonly accepted: readonly string[];
  /** Why an opened store could not be read, else null. */
  readonly unread: string | null;
}

/** Never throws. @param ledger `undefined` if the store could not be opened */
export async function readKnownConditions(
  ledger: Ledger | undefined,
  log: Log,
  job: Job,
  nowMs: number,
  calendar: CalendarOverride | undefined,
): Promise<KnownConditions> {
  if (!ledger) return { conditions: {}, accepted: [], unread: null };
  try {
    const { entries, fault } = await ledger.conditions();
    if (fault !== undefined) throw new Fault('CONDITION_INVALID', `condition.json is invalid: ${fault}`);
    const recorded = new Map<string, Condition>();
    const sealed = new Map<string, SealedCondition>();
    for (const { date, condition } of entries.values()) {
      recorded.set(date, condition);
      if (isSealed(condition)) sealed.set(date, condition);
    }
    const facts = { sealed, recorded, lookback: lookbackOf(job, nowMs, calendar) };
    let conditions = deriveConditions(facts);
    if (![...conditions.values()].every(isSealed)) {
      // A run that was killed after sealing a date did not record it.
      for (const date of await ledger.dates()) {
        if (sealed.has(date)) continue;
        const manifest = await ledger.validManifest(date, ({ message: reason }) => {
          log.error({ event: 'manifest-invalid', date, reason }, `${date}: ${reason}`);
        });
        sealed.set(date, manifest?.condition ?? 'degraded');
      }
      conditions = deriveConditions(facts);
    }
    const accepted = await ledger.acceptedGaps(conditions);
    return { conditions: Object.fromEntries(conditions), accepted: [...accepted.keys()], unread: null };
  } catch (error) {
    const reason = describeError(error);
    log.error({ event: 'conditions-unread', reason }, `cannot read the conditions of the dates: ${reason}`);
    return { conditions: {}, accepted: [], unread: reason };
  }
}
