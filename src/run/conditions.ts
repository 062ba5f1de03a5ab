/** Conditions of a dataset's dates: from the manifests in the store, this run's plan, and what earlier runs knew. */
import { isFault } from '../core/errors.ts';
import type { Job } from '../job/job.ts';
import { type Condition, computeConditions } from '../plan/dates.ts';
import { listSealedDates, readManifest } from '../seal/ledger.ts';
import type { Manifest } from '../seal/manifest.ts';
import type { RunContext } from './context.ts';
import type { DateRange, RunPlan } from './plan.ts';
import type { RunResult } from './result.ts';

/** @param before the job's last run: a date that it knew is a loss when it expires, even if nothing was ever sealed */
export async function readConditions(
  context: RunContext,
  job: Job,
  plan: RunPlan,
  before: RunResult | undefined,
): Promise<ReadonlyMap<string, Condition>> {
  const sealed = new Map<string, 'available' | 'degraded'>();
  for (const date of await listSealedDates(context.store, job.drop.dataset)) {
    // Dates sealed long ago are in their manifests; reading them all would cost a request each.
    const inside = date >= plan.lookback.clipped;
    sealed.set(date, inside ? ((await readManifestIfValid(context, job, date))?.condition ?? 'degraded') : 'available');
  }
  // With a condition of the job's own, a session without rows cannot be told from one that it does not match.
  const filtered = job.source.kind === 'rows' && job.source.where !== '';
  const empty = filtered ? new Set<string>() : plan.empty;
  const known = [...sealed.keys(), ...plan.dates.map(({ date }) => date), ...Object.keys(before?.conditions ?? {})];
  const conditions = computeConditions({ sealed, empty, lookback: plan.lookback }, known.sort()[0]);
  if (!filtered) return conditions;
  return new Map([...conditions].filter(([date]) => !plan.empty.has(date)));
}

/** A damaged manifest makes its date degraded, not the whole run fail: `verify` says what is wrong with it. */
export async function readManifestIfValid(context: RunContext, job: Job, date: string): Promise<Manifest | undefined> {
  try {
    return await readManifest(context.store, job.drop.dataset, date);
  } catch (error) {
    if (!isFault(error) || error.code !== 'MANIFEST_INVALID') throw error;
    context.log.error({ event: 'manifest-invalid', date, reason: error.message });
    return undefined;
  }
}

export interface Shortfall {
  /** Dates that this run is the first to find expired. */
  readonly lost: readonly string[];
  /** Dates inside the lookback that are missing or degraded. */
  readonly gaps: readonly string[];
}

/** What is not as it should be; for a run of chosen dates, among those only. */
export function findShortfall(
  conditions: ReadonlyMap<string, Condition>,
  clipped: string,
  before: RunResult | undefined,
  range: DateRange | undefined,
): Shortfall {
  const dates = [...conditions].filter(([date]) => !range || (date >= range.from && date <= range.to));
  const known = before?.conditions ?? {};
  return {
    lost: dates
      .filter(([date, condition]) => condition === 'expired' && known[date] !== 'expired')
      .map(([date]) => date),
    gaps: dates
      .filter(([date, condition]) => date >= clipped && (condition === 'missing' || condition === 'degraded'))
      .map(([date]) => date),
  };
}
