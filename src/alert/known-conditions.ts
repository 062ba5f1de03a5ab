/**
 * Conditions of the dates when no run could report any: from the last run's record, the sealed dates and the calendar,
 * brought up to now. Even if the API does not answer for days, dates about to expire must be reported. Invariant: it
 * sends no request to a source, and reports no gap that it could not check.
 */
import type { CalendarOverride } from '../calendar/session.ts';
import { describeError, Fault } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import type { Job } from '../job/job.ts';
import type { ConditionDocument } from '../ledger/condition-file.ts';
import { Ledger } from '../ledger/ledger.ts';
import { type Condition, deriveConditions, isSealed, type SealedCondition } from '../plan/conditions.ts';
import { lookbackOf } from '../plan/lookback.ts';
import type { Store } from '../store/store.ts';

interface DerivedDeps {
  readonly store: Store | undefined;
  readonly calendar?: CalendarOverride | undefined;
  readonly log: Log;
}

interface DerivedConditions {
  /** Empty if the store cannot be read. */
  readonly conditions: ReadonlyMap<string, Condition>;
  /** Gaps that a person accepted. */
  readonly accepted: ReadonlySet<string>;
  /** Why an opened store could not be read. */
  readonly unread: string | undefined;
}

const NONE = { conditions: new Map<string, Condition>(), accepted: new Set<string>() } as const;

/** Never throws. */
export async function readKnownConditions(deps: DerivedDeps, job: Job, nowMs: number): Promise<DerivedConditions> {
  const { store, log } = deps;
  if (!store) return { ...NONE, unread: undefined };
  try {
    const conditions = await deriveFromStore({ ...deps, store }, job, nowMs);
    const accepted = await new Ledger(store, job.drop.dataset).acceptedGaps(conditions);
    return { conditions, accepted: new Set(accepted.keys()), unread: undefined };
  } catch (error) {
    const reason = describeError(error);
    log.error({ event: 'conditions-unread', reason }, `cannot read the conditions of the dates: ${reason}`);
    return { ...NONE, unread: reason };
  }
}

/** @throws StoreFault, Fault `CONDITION_INVALID` */
async function deriveFromStore(
  { store, calendar, log }: DerivedDeps & { readonly store: Store },
  job: Job,
  nowMs: number,
): Promise<ReadonlyMap<string, Condition>> {
  const ledger = new Ledger(store, job.drop.dataset);
  const document = await ledger.conditions();
  if (document.fault !== undefined) {
    throw new Fault('CONDITION_INVALID', `condition.json is invalid: ${document.fault}`);
  }
  const derive = (sealed: ReadonlyMap<string, SealedCondition>) =>
    deriveConditions({
      sealed,
      recorded: new Map([...document.entries].map(([date, { condition }]) => [date, condition])),
      lookback: lookbackOf(job, nowMs, calendar),
    });
  const sealed = listSealed(document);
  const conditions = derive(sealed);
  if ([...conditions.values()].every(isSealed)) return conditions;
  // A run that was killed after sealing a date did not record it.
  return derive(await addUnwritten(ledger, log, sealed));
}

function listSealed({ entries }: ConditionDocument): ReadonlyMap<string, SealedCondition> {
  const sealed = new Map<string, SealedCondition>();
  for (const { date, condition } of entries.values()) {
    if (isSealed(condition)) sealed.set(date, condition);
  }
  return sealed;
}

async function addUnwritten(
  ledger: Ledger,
  log: Log,
  known: ReadonlyMap<string, SealedCondition>,
): Promise<ReadonlyMap<string, SealedCondition>> {
  const sealed = new Map(known);
  for (const date of await ledger.dates()) {
    if (sealed.has(date)) continue;
    const manifest = await ledger.validManifest(date, ({ message: reason }) => {
      log.error({ event: 'manifest-invalid', date, reason }, `${date}: ${reason}`);
    });
    sealed.set(date, manifest?.condition ?? 'degraded');
  }
  return sealed;
}
