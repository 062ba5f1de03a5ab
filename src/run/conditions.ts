/**
 * Conditions of a dataset's dates: from the manifests in the store, this run's plan, and what earlier runs knew. The
 * memory is `condition.json` in the store: with it a loss stays known to a worker with an empty disk. The document is
 * derived anew by every run, so an update that another worker overwrote is made again by the next.
 */
import { isSession } from '../calendar/session.ts';
import { addDays } from '../calendar/wall-clock.ts';
import { isFault } from '../core/errors.ts';
import type { Job } from '../job/job.ts';
import { type Condition, computeConditions } from '../plan/dates.ts';
import {
  type ConditionDocument,
  type ConditionEntry,
  describeSealed,
  describeUnsealed,
  readConditionDocument,
  sizesOf,
  writeConditionDocument,
} from '../seal/condition.ts';
import { type Damage, findDamage, isAsExpected } from '../seal/damage.ts';
import { listSealed, readManifest, type SealedDate } from '../seal/ledger.ts';
import type { Manifest } from '../seal/manifest.ts';
import { isStoreChange } from '../store/identity.ts';
import type { Store } from '../store/store.ts';
import { LOOKBACK_DAYS } from '../wire/limits.ts';
import { type ChoiceFacts, type DateRange, isInRange, readFailures } from './choice.ts';
import type { RunContext } from './context.ts';
import { expires } from './lookback.ts';
import type { RunPlan } from './plan.ts';
import type { RunResult } from './result.ts';
import { readAbsences } from './snapshot/absence.ts';
import type { StatePaths } from './state.ts';

export interface Conditions {
  readonly conditions: ReadonlyMap<string, Condition>;
  /** Dates whose loss is no news: an earlier run knew of it. */
  readonly lostBefore: ReadonlySet<string>;
  /** Sealed dates whose files are not what was sealed, with what is wrong, in words. */
  readonly damaged: ReadonlyMap<string, string>;
}

type ConditionDeps = Pick<RunContext, 'store' | 'log'>;

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
export async function noteRows(deps: ConditionDeps, job: Job, { dates, lookback }: RunPlan): Promise<void> {
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
  plan: RunPlan,
  { before, staged, range }: KnownDates,
): Promise<Conditions> {
  const { dataset } = job.drop;
  const document = await readConditionDocument(deps.store, dataset);
  const reason = document.fault;
  if (reason !== undefined)
    deps.log.warn({ event: 'conditions-invalid', dataset, reason }, `${dataset}: its conditions begin anew: ${reason}`);
  const sealed = await readSealed(deps, job, plan, document);
  // With a condition of the job's own, a session without rows cannot be told from one that it does not match.
  const filtered = 'where' in job.source && job.source.where !== '';
  const known = [
    ...sealed.keys(),
    ...plan.dates.map(({ date }) => date),
    ...Object.keys(before?.conditions ?? {}),
    ...document.entries.keys(),
    ...staged,
  ];
  const computed = computeConditions(
    {
      sealed: new Map([...sealed].map(([date, { condition }]) => [date, condition as 'available' | 'degraded'])),
      empty: filtered ? new Set() : plan.empty,
      lookback: plan.lookback,
    },
    known.sort()[0],
  );
  const memory = listMemory(document, before, staged);
  const conditions = new Map(
    [...computed]
      .filter(([date, condition]) => !filtered || hasRows(date, condition, plan, memory))
      .map(([date, condition]) => [date, remember(date, condition, document, range)]),
  );
  const entries = [...conditions].map(([date, condition]) => sealed.get(date) ?? describeUnsealed(date, condition));
  await writeConditionDocument(deps.store, dataset, entries, document);
  return {
    conditions,
    lostBefore: new Set([...memory].flatMap(([date, known]) => (known.has('expired') ? [date] : []))),
    damaged: new Map(
      [...sealed].flatMap(([date, { damage }]) => (damage === undefined ? [] : [[date, damage] as const])),
    ),
  };
}

/** A session that was without rows while it could be asked for is missing for good; it did not expire. */
function remember(
  date: string,
  condition: Condition,
  { entries }: ConditionDocument,
  range: DateRange | undefined,
): Condition {
  const earlier = entries.get(date)?.condition;
  const asked = isInRange(date, range);
  if (earlier === 'missing' && (condition === 'expired' || (condition === 'pending' && !asked))) return earlier;
  return condition;
}

/**
 * Entries of the sealed dates. A manifest costs a request, so those of old dates are read only when they are not known, or
 * when the listing shows another object than is known.
 */
async function readSealed(
  deps: ConditionDeps,
  job: Job,
  plan: RunPlan,
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

/** Conditions that earlier runs knew a date in: by the document, by this machine's record of the last run, by its stages. */
function listMemory(
  document: ConditionDocument,
  before: RunResult | undefined,
  staged: readonly string[],
): ReadonlyMap<string, Set<Condition>> {
  const memory = new Map<string, Set<Condition>>();
  const note = (date: string, condition: Condition) =>
    memory.set(date, (memory.get(date) ?? new Set<Condition>()).add(condition));
  for (const [date, { condition }] of document.entries) note(date, condition);
  for (const [date, condition] of Object.entries(before?.conditions ?? {})) note(date, condition);
  for (const date of staged) note(date, 'pending');
  return memory;
}

/** For a job with a condition of its own: a session is one of its dates only when rows of it were ever seen. */
function hasRows(
  date: string,
  condition: Condition,
  plan: RunPlan,
  memory: ReadonlyMap<string, ReadonlySet<Condition>>,
): boolean {
  if (condition !== 'expired') return !plan.empty.has(date);
  const known = memory.get(date);
  return known !== undefined && (known.has('pending') || known.has('expired'));
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

export interface StoreFacts extends ChoiceFacts {
  /** Sealed dates whose files are not what was sealed. */
  readonly damaged: ReadonlyMap<string, Damage>;
}

/** What a choice of dates is made from. @param setAside dates of which a revision was decided and cannot be published */
export async function readChoiceFacts(
  store: Store,
  job: Job,
  state: Pick<StatePaths, 'failures' | 'absences'>,
  setAside: readonly string[] = [],
): Promise<StoreFacts> {
  const { dataset } = job.drop;
  const { entries } = await readConditionDocument(store, dataset);
  const found = await listSealed(store, dataset);
  const sealed = new Set(found.map(({ date }) => date));
  const damaged = new Map<string, Damage>();
  for (const one of found) {
    const damage = await findDamage(store, dataset, one, entries.get(one.date));
    if (damage !== undefined) damaged.set(one.date, damage);
  }
  return {
    sealed,
    degraded: new Set([...sealed].filter((date) => entries.get(date)?.condition === 'degraded')),
    failed: await readFailures(state.failures),
    again: new Set([...damaged.keys(), ...setAside.filter((date) => sealed.has(date))]),
    damaged,
    absences: await readAbsences(state.absences),
  };
}
