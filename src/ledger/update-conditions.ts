/**
 * Derives the conditions of a dataset's dates from the manifests in the store, this run's plan, and the knowledge of
 * earlier runs. `condition.json` in the store is the memory: with it, a worker with an empty disk still knows of a
 * loss. Every run derives the document again, so the next run repeats an update that another worker overwrote.
 */
import { LOOKBACK_DAYS } from '../api-contract/published-limits.ts';
import { isSession } from '../calendar/session.ts';
import { addDays, type DateRange, isInRange } from '../calendar/wall-clock.ts';
import type { Log } from '../core/log.ts';
import type { Job } from '../job/job.ts';
import { type Condition, deriveConditions } from '../plan/conditions.ts';
import type { DayCounts } from '../plan/counts.ts';
import type { LookbackRange } from '../plan/dates.ts';
import { expires } from '../plan/dates.ts';
import type { AuditRecord } from '../state/documents.ts';
import type { KnownDates } from '../state/job-state.ts';
import type { RunResult } from '../state/run-result.ts';
import { attempt } from '../store/identity.ts';
import { describeUnsealed } from './condition-file.ts';
import type { Ledger } from './ledger.ts';
import { readSealed } from './sealed-facts.ts';

export interface Conditions {
  readonly conditions: ReadonlyMap<string, Condition>;
  /** Dates whose loss an earlier run already knew. */
  readonly lostBefore: ReadonlySet<string>;
  /** Sealed dates whose files differ from what was sealed, with the reason in words. */
  readonly damaged: ReadonlyMap<string, string>;
  /** Gaps that a person accepted. */
  readonly accepted: ReadonlySet<string>;
  /** Dates that an earlier run left in the condition that they have. */
  readonly knownBefore: ReadonlySet<string>;
}

/** What the source showed about dates, as far as the run asked. */
interface SeenDates {
  readonly lookback: LookbackRange;
  /** Dates with rows; `counts` only for dates that were counted. */
  readonly dates: readonly { readonly date: string; readonly counts: DayCounts | undefined }[];
  /** Session dates that are over and have no rows of the job. */
  readonly empty: ReadonlySet<string>;
  /** Of these, the dates on which the source has other rows. */
  readonly unmatched?: ReadonlySet<string> | undefined;
}

/** Facts about dates from outside the plan and the store. */
export interface OutsideDates {
  /** What the job's last run knew: a date in it is a loss when it expires, even if nothing was ever sealed. */
  readonly before?: KnownDates | undefined;
  /** Dates with staged rows on this disk. */
  readonly staged: readonly string[];
  /** Range that the plan was restricted to; the source was not asked about other dates. */
  readonly range?: DateRange | undefined;
  /** Audits of this run, by date. */
  readonly audits?: Readonly<Record<string, AuditRecord>> | undefined;
}

/**
 * Writes dates with rows into `condition.json` as `pending` before the first is fetched. If the run is stopped and no
 * other runs before they expire, even a worker with an empty disk knows that they are lost. If this write fails, the
 * end of the run writes them.
 */
export async function noteRows(ledger: Ledger, log: Log, job: Job, { dates, lookback }: SeenDates): Promise<void> {
  const { dataset } = ledger;
  if (!expires(job.source)) return;
  const note = async () => {
    const document = await ledger.conditions();
    const news = dates
      // An uncounted date may have no rows, and a date that is not a session has no condition.
      .filter(({ date, counts = [] }) => counts.length > 0 && isSession(date, lookback.calendar))
      .filter(({ date }) => !document.entries.has(date))
      .map(({ date }) => describeUnsealed(date, 'pending'));
    if (document.fault !== undefined || news.length === 0) return;
    await ledger.writeConditions([...document.entries.values(), ...news], document);
  };
  await attempt(note, ({ message: reason }) =>
    log.warn(
      { event: 'conditions-unwritten', dataset, reason },
      `${dataset}: its conditions were not written: ${reason}`,
    ),
  );
}

/** Computes the conditions and writes them to `condition.json` if they changed. */
export async function updateConditions(
  ledger: Ledger,
  log: Log,
  plan: SeenDates,
  { before, staged, range, audits = {} }: OutsideDates,
): Promise<Conditions> {
  const { dataset } = ledger;
  const document = await ledger.conditions();
  const reason = document.fault;
  if (reason !== undefined)
    log.warn({ event: 'conditions-invalid', dataset, reason }, `${dataset}: its conditions are rebuilt: ${reason}`);
  // Restatements happen inside the lookback. The range is twice as long, so that the next runs still find a restatement
  // whose update of the document was lost in a race.
  const changeable = addDays(plan.lookback.clipped, -LOOKBACK_DAYS);
  const sealed = await readSealed(ledger, document.entries, { changeable }, (date, { message }) => {
    log.error({ event: 'manifest-invalid', date, reason: message }, `${date}: ${message}`);
  });
  const recorded = new Map<string, Condition>(staged.map((date) => [date, 'pending']));
  for (const [date, condition] of Object.entries(before?.conditions ?? {})) recorded.set(date, condition);
  const lostBefore = new Set(
    Object.entries(before?.conditions ?? {}).flatMap(([date, known]) => (known === 'expired' ? [date] : [])),
  );
  for (const [date, { condition }] of document.entries) {
    recorded.set(date, condition);
    if (condition === 'expired') lostBefore.add(date);
  }
  const conditions = deriveConditions({
    sealed: new Map([...sealed].map(([date, { condition }]) => [date, condition])),
    recorded,
    lookback: plan.lookback,
    shown: { dates: plan.dates.map(({ date }) => date), empty: plan.empty, unmatched: plan.unmatched, range },
  });
  const accepted = await ledger.acceptedGaps(conditions);
  const entries = [...conditions].map(([date, condition]) => {
    const entry = sealed.get(date) ?? describeUnsealed(date, condition);
    const audit = audits[date] ?? document.entries.get(date)?.audit;
    // A later revision was proved when it was sealed.
    const isCurrent = audit !== undefined && audit.revision === entry.revision;
    // An audit that found nothing more came after all of its segments.
    const isWhole = isCurrent && audit.result === 'equal';
    const through = 'through' in entry && !isWhole ? entry.through : undefined;
    return { ...entry, through, audit: isCurrent ? audit : undefined, accepted: accepted.get(date) };
  });
  await ledger.writeConditions(entries, document);
  return {
    conditions,
    lostBefore,
    accepted: new Set(accepted.keys()),
    knownBefore: new Set([...conditions].flatMap(([date, now]) => (recorded.get(date) === now ? [date] : []))),
    damaged: new Map(
      [...sealed].flatMap(([date, { damage }]) => (damage === undefined ? [] : [[date, damage] as const])),
    ),
  };
}

/** Lost dates and gaps, as in a run's result; for a run with a date selection, only among the selected dates. */
export function findShortfall(
  { conditions, lostBefore, accepted, knownBefore }: Conditions,
  clipped: string,
  range: DateRange | undefined,
): Pick<RunResult, 'lost' | 'gaps' | 'new_gaps' | 'accepted'> {
  const dates = [...conditions].filter(([date]) => isInRange(date, range) && !accepted.has(date));
  const gaps = dates
    .filter(([date, condition]) => date >= clipped && (condition === 'missing' || condition === 'degraded'))
    .map(([date]) => date);
  return {
    lost: dates.filter(([date, condition]) => condition === 'expired' && !lostBefore.has(date)).map(([date]) => date),
    gaps,
    new_gaps: gaps.filter((date) => !knownBefore.has(date)),
    accepted: [...accepted].filter((date) => isInRange(date, range)),
  };
}
