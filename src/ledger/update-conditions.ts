/**
 * Conditions of a dataset's dates: from the manifests in the store, this run's plan, and what earlier runs knew. The
 * memory is `condition.json` in the store: with it a loss stays known to a worker with an empty disk. The document is
 * derived anew by every run, so an update that another worker overwrote is made again by the next.
 */

import { LOOKBACK_DAYS } from '../api-contract/published-limits.ts';
import { type DateRange, isInRange } from '../calendar/date-range.ts';
import { isSession } from '../calendar/session.ts';
import { addDays } from '../calendar/wall-clock.ts';
import { isFault } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import type { Job } from '../job/job.ts';
import { type Condition, deriveConditions, isSealed } from '../plan/conditions.ts';
import type { DayCounts } from '../plan/counts.ts';
import type { LookbackRange } from '../plan/dates.ts';
import { expires } from '../plan/lookback.ts';
import type { RunResult } from '../state/run-result.ts';
import { isStoreChange } from '../store/identity.ts';
import type { Store } from '../store/store.ts';
import {
  type ConditionDocument,
  type ConditionEntry,
  describeSealed,
  describeUnsealed,
  readConditionDocument,
  sizesOf,
  writeConditionDocument,
} from './condition-file.ts';
import { findDamage, isAsExpected } from './damage.ts';
import type { Manifest } from './manifest.ts';
import { listSealed, readManifest, type SealedDate } from './sealed-dates.ts';

export interface Conditions {
  readonly conditions: ReadonlyMap<string, Condition>;
  /** Dates whose loss is no news: an earlier run knew of it. */
  readonly lostBefore: ReadonlySet<string>;
  /** Sealed dates whose files are not what was sealed, with what is wrong, in words. */
  readonly damaged: ReadonlyMap<string, string>;
}

interface ConditionDeps {
  readonly store: Store;
  readonly log: Log;
}

/** What the source showed of dates, as far as it was asked. */
interface SeenDates {
  readonly lookback: LookbackRange;
  /** Dates with rows; `counts` of those that were counted. */
  readonly dates: readonly { readonly date: string; readonly counts: DayCounts | undefined }[];
  /** Session dates that are over and have no rows. */
  readonly empty: ReadonlySet<string>;
}

/** What is known of dates beside the plan and the store. */
export interface KnownDates {
  /** The job's last run: a date that it knew is a loss when it expires, even if nothing was ever sealed. */
  readonly before?: RunResult | undefined;
  /** Dates with rows on this disk. */
  readonly staged: readonly string[];
  /** Dates that the plan was restricted to; of others the source was not asked. */
  readonly range?: DateRange | undefined;
}

/**
 * Writes dates whose rows were seen into `condition.json` as `pending`, before the first of them is fetched: when the run
 * is stopped, and no other comes before they expire, they are known to be lost, to a worker with an empty disk too. What
 * cannot be written now is written by the end of the run.
 */
export async function noteRows(deps: ConditionDeps, job: Job, { dates, lookback }: SeenDates): Promise<void> {
  const { dataset } = job.drop;
  if (!expires(job.source)) return;
  try {
    const document = await readConditionDocument(deps.store, dataset);
    const news = dates
      // What was not counted may have no rows, and what is no session has no condition.
      .filter(({ date, counts = [] }) => counts.length > 0 && isSession(date, lookback.calendar))
      .filter(({ date }) => !document.entries.has(date))
      .map(({ date }) => describeUnsealed(date, 'pending'));
    if (document.fault !== undefined || news.length === 0) return;
    await writeConditionDocument(deps.store, dataset, [...document.entries.values(), ...news], document);
  } catch (error) {
    if (!isFault(error) || error.kind === 'interrupted' || isStoreChange(error)) throw error;
    deps.log.warn(
      { event: 'conditions-unwritten', dataset, reason: error.message },
      `${dataset}: its conditions were not written: ${error.message}`,
    );
  }
}

/** Computes the conditions and writes them to `condition.json` when they are others than those there. */
export async function updateConditions(
  deps: ConditionDeps,
  job: Job,
  plan: SeenDates,
  { before, staged, range }: KnownDates,
): Promise<Conditions> {
  const { dataset } = job.drop;
  const document = await readConditionDocument(deps.store, dataset);
  const reason = document.fault;
  if (reason !== undefined)
    deps.log.warn({ event: 'conditions-invalid', dataset, reason }, `${dataset}: its conditions begin anew: ${reason}`);
  const sealed = await readSealed(deps, job, plan, document);
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
    sealed: new Map(
      [...sealed].flatMap(([date, { condition }]) => (isSealed(condition) ? [[date, condition] as const] : [])),
    ),
    recorded,
    lookback: plan.lookback,
    isFiltered: isFiltered(job),
    shown: { dates: plan.dates.map(({ date }) => date), empty: plan.empty, range },
  });
  const entries = [...conditions].map(([date, condition]) => sealed.get(date) ?? describeUnsealed(date, condition));
  await writeConditionDocument(deps.store, dataset, entries, document);
  return {
    conditions,
    lostBefore,
    damaged: new Map(
      [...sealed].flatMap(([date, { damage }]) => (damage === undefined ? [] : [[date, damage] as const])),
    ),
  };
}

/**
 * Entries of the sealed dates. A manifest costs a request, so those of old dates are read only when they are not known, or
 * when the listing shows another object than is known.
 */
async function readSealed(
  deps: ConditionDeps,
  job: Job,
  plan: SeenDates,
  document: ConditionDocument,
): Promise<ReadonlyMap<string, ConditionEntry>> {
  // Restatements happen inside the lookback. Twice its length, so that one whose update of the document was lost in a
  // race is still seen by the runs that follow.
  const changeable = addDays(plan.lookback.clipped, -LOOKBACK_DAYS);
  const sealed = new Map<string, ConditionEntry>();
  const { dataset } = job.drop;
  for (const found of await listSealed(deps.store, dataset)) {
    const { date } = found;
    const kept = date < changeable ? document.entries.get(date) : undefined;
    if (kept && isCurrent(kept, found)) sealed.set(date, kept);
    else {
      const manifest = await readManifestIfValid(deps, job, date);
      const damage = manifest && (await findDamage(deps.store, dataset, found, sizesOf(manifest)));
      sealed.set(date, manifest ? describeSealed(manifest, damage?.reason) : describeUnsealed(date, 'degraded'));
    }
  }
  return sealed;
}

/** Whether what is known of a sealed date may be believed: all is known, and its files are as they were. */
function isCurrent(entry: ConditionEntry, found: SealedDate): boolean {
  const { revision, beside, damage } = entry;
  return revision !== null && beside !== undefined && damage === undefined && isAsExpected(found, entry);
}

/** Whether the job has a condition of its own: then a session without rows may be none of its dates. */
export function isFiltered({ source }: Pick<Job, 'source'>): boolean {
  return 'where' in source && source.where !== '';
}

/** A damaged manifest makes its date degraded, not the whole run fail: `verify` says what is wrong with it. */
export async function readManifestIfValid(deps: ConditionDeps, job: Job, date: string): Promise<Manifest | undefined> {
  try {
    return await readManifest(deps.store, job.drop.dataset, date);
  } catch (error) {
    if (!isFault(error) || error.code !== 'MANIFEST_INVALID') throw error;
    deps.log.error({ event: 'manifest-invalid', date, reason: error.message }, `${date}: ${error.message}`);
    return undefined;
  }
}

interface Shortfall {
  /** Dates that this run is the first to find expired. */
  readonly lost: readonly string[];
  /** Dates inside the lookback that are missing or degraded. */
  readonly gaps: readonly string[];
}

/** What is not as it should be; for a run of chosen dates, among those only. */
export function findShortfall(
  conditions: ReadonlyMap<string, Condition>,
  clipped: string,
  lostBefore: ReadonlySet<string>,
  range: DateRange | undefined,
): Shortfall {
  const dates = [...conditions].filter(([date]) => isInRange(date, range));
  return {
    lost: dates.filter(([date, condition]) => condition === 'expired' && !lostBefore.has(date)).map(([date]) => date),
    gaps: dates
      .filter(([date, condition]) => date >= clipped && (condition === 'missing' || condition === 'degraded'))
      .map(([date]) => date),
  };
}
