/**
 * The status of a job: conditions of its dates, the active run, the last runs, the next run, and mailed reports.
 * Read-only, with few reads of the store: a listing shows which dates are sealed, `condition.json` has the rest; a
 * manifest is read only where the two disagree. A store that cannot be read is reported in the status, not thrown.
 */
import { createTask } from 'node-cron';
import { readOwedEvents } from '../../alert/outbox.ts';
import type { CalendarOverride } from '../../calendar/session.ts';
import { addDays, formatSecond } from '../../calendar/wall-clock.ts';
import { describeError, isFault } from '../../core/errors.ts';
import { listArchive } from '../../deliver/report-copies.ts';
import type { Job } from '../../job/job.ts';
import type { ConditionEntry, RecentConditions, SealedEntry } from '../../ledger/condition-file.ts';
import { Ledger } from '../../ledger/ledger.ts';
import { readSealedFacts } from '../../ledger/sealed-facts.ts';
import type { Openers } from '../../openers.ts';
import { type Condition, deriveConditions, isOpen, isSealed } from '../../plan/conditions.ts';
import { expires, expiresAt, type LookbackRange, lookbackOf } from '../../plan/dates.ts';
import type { AcceptedGap } from '../../state/date-records.ts';
import type { DateStatus, JobStatus } from '../../state/documents.ts';
import { type KnownDates, limitsPath, openJobState, type Staging } from '../../state/job-state.ts';
import { ApiLimits } from '../../state/limits.ts';
import { RunHistory } from '../../state/run-history.ts';
import { isEndedRun, type RunRecord } from '../../state/run-record.ts';
import type { Store } from '../../store/store.ts';

/** About a quarter's sessions; older copies are in the store under their dates. */
const MAX_REPORTS = 60;

/** An earlier backfill is no news. */
const SEARCHED_RUNS = 50;

/** Everything that is shown about a job; the caller only formats it. */
export interface StatusReading {
  readonly document: JobStatus;
  /** Time zone of the schedule. */
  readonly timezone: string | undefined;
  readonly calendar: CalendarOverride;
  /** When the status was read. */
  readonly nowMs: number;
  /** What is wrong with `condition.json`; it is ignored then. */
  readonly conditionFault: string | undefined;
}

type StatusDeps = Pick<
  Openers,
  'clock' | 'openStore' | 'readCalendar' | 'readKeyFingerprint' | 'sourceUrl' | 'stateDir'
>;

interface StatusOptions {
  /** Look only at the objects of so many weeks up to the newest date; earlier dates are as `condition.json` has them. */
  readonly recentWeeks?: number | undefined;
  /** Leave out earlier dates that are available. */
  readonly brief?: boolean | undefined;
}

export async function readStatus(deps: StatusDeps, job: Job, options: StatusOptions = {}): Promise<StatusReading> {
  const state = openJobState(deps.stateDir, job.name);
  const calendar = await deps.readCalendar();
  const nowMs = deps.clock.now();
  const lookback = lookbackOf(job, nowMs + (await readClockOffset(deps, job, nowMs)), calendar);
  const known = await state.known.read();
  const runs = await readRuns(new RunHistory(deps.stateDir, job.name));
  const task = job.schedule && createTask(job.schedule.cron, () => undefined, { timezone: job.schedule.timezone });
  const reading = await readStore(deps, job, known, { lookback, ...options }).catch((error: unknown) => {
    if (!isFault(error)) throw error;
    return recallDates(job, known, runs, describeError(error));
  });
  return {
    document: {
      job: job.name,
      dataset: job.drop.dataset,
      store: reading.store,
      dates: reading.dates.map((date) => ({
        ...date,
        failed: date.condition === 'available' ? undefined : runs.results.get(date.date)?.error,
      })),
      last_run: runs.lastRun ?? null,
      last_backfill: runs.lastBackfill ?? null,
      last_success: runs.lastSuccess?.finished_at ?? null,
      next_run: task?.getNextRuns(1)[0]?.toISOString() ?? null,
      running: runs.running ?? null,
      staged: describeStaging(await state.staging.read(), reading.dates),
      reports: reading.reports,
      owed_events: reading.owed_events,
      fault: reading.fault,
    },
    timezone: job.schedule?.timezone,
    calendar,
    nowMs,
    conditionFault: reading.conditionFault,
  };
}

interface KnownRuns {
  readonly running: RunRecord | undefined;
  readonly lastRun: RunRecord | undefined;
  readonly lastBackfill: RunRecord | undefined;
  readonly lastSuccess: RunRecord | undefined;
  /** What the last attempt of each date came to. */
  readonly results: ReadonlyMap<string, RunRecord['dates'][number]>;
}

/** Newest first, until nothing is left to find: of a job that never succeeds all its runs. */
async function readRuns(history: RunHistory): Promise<KnownRuns> {
  let [running, lastRun, lastBackfill, lastSuccess]: readonly (RunRecord | undefined)[] = [];
  const results = new Map<string, RunRecord['dates'][number]>();
  let read = 0;
  await history.find((run) => {
    read += 1;
    if (run.outcome === null && run.progress !== null) running ??= run;
    if (isEndedRun(run)) lastRun ??= run;
    if (run.command === 'backfill' && run.outcome !== null && run.outcome !== 'active') lastBackfill ??= run;
    if (run.command === 'run' && run.outcome === 'done') lastSuccess ??= run;
    for (const result of run.dates) if (!results.has(result.date)) results.set(result.date, result);
    return lastSuccess !== undefined && (lastBackfill !== undefined || read >= SEARCHED_RUNS);
  }, true);
  return { running, lastRun, lastBackfill, lastSuccess, results };
}

/**
 * The API's clock minus this machine's, as the last run measured it; 0 if unknown. Status works without the API's
 * settings, and every run asks a server for its time.
 */
async function readClockOffset(deps: StatusDeps, { source }: Job, nowMs: number): Promise<number> {
  if (source.kind === 'table') return 0;
  try {
    const url = deps.sourceUrl(source.api);
    const path = limitsPath(deps.stateDir, url, deps.readKeyFingerprint(source), source);
    return (await new ApiLimits(path, url, nowMs).load()).clockOffsetMs;
  } catch (error) {
    if (!isFault(error)) throw error;
    return 0;
  }
}

/** Until its date is sealed. */
function describeStaging(staging: Staging | undefined, dates: readonly DateStatus[]): JobStatus['staged'] {
  if (staging === undefined || staging.rows === 0) return null;
  const { date, second, rows } = staging;
  const isOver = dates.some((one) => one.date > date || (one.date === date && one.condition !== 'pending'));
  return isOver ? null : { date, through: formatSecond(second), rows };
}

interface StoreReading extends Pick<JobStatus, 'store' | 'dates' | 'reports' | 'owed_events' | 'fault'> {
  readonly conditionFault: string | undefined;
}

async function readStore(
  { openStore }: StatusDeps,
  job: Job,
  known: KnownDates | undefined,
  { lookback, ...options }: StatusOptions & { readonly lookback: LookbackRange },
): Promise<StoreReading> {
  const store = await openStore(job.drop.to, { objects: job.drop.s3 });
  try {
    const { dataset } = job.drop;
    const [{ entries, fault, since }, reports, owed] = await Promise.all([
      readConditions(store, dataset, options),
      listArchive(store, job.name, MAX_REPORTS),
      readOwedEvents(store, job),
    ]);
    const sealed = await readSealedFacts(new Ledger(store, dataset), entries, since);
    const conditions = joinConditions({ sealed, entries, known, since }, lookback);
    const dates = [...conditions].map(([date, condition]) =>
      describeDate(job, date, condition, sealed.get(date), entries.get(date)?.accepted),
    );
    return { store: store.url, dates, reports, owed_events: owed, fault: null, conditionFault: fault };
  } finally {
    await store.close();
  }
}

async function readConditions(
  store: Store,
  dataset: string,
  { recentWeeks, brief = false }: StatusOptions,
): Promise<RecentConditions> {
  if (recentWeeks !== undefined && brief) return await new Ledger(store, dataset).recentConditions(recentWeeks);
  const document = await new Ledger(store, dataset).conditions();
  const newest = [...document.entries.keys()].sort().at(-1);
  const since = recentWeeks === undefined || newest === undefined ? undefined : addDays(newest, -7 * recentWeeks);
  return { ...document, since };
}

interface FoundDates {
  readonly sealed: ReadonlyMap<string, SealedEntry>;
  readonly entries: ReadonlyMap<string, ConditionEntry>;
  readonly known: KnownDates | undefined;
  /** The first date whose objects were looked at; `undefined`: all were. */
  readonly since: string | undefined;
}

function joinConditions(
  { sealed, entries, known, since }: FoundDates,
  lookback: LookbackRange,
): ReadonlyMap<string, Condition> {
  return deriveConditions({
    sealed: new Map([...sealed].map(([date, { condition }]) => [date, condition])),
    // Every run writes the document, even for a date selection, so it is the newer of the two.
    recorded: new Map<string, Condition>([
      ...Object.entries(known?.conditions ?? {}),
      ...[...entries.values()].map(({ date, condition }) => [date, condition] as const),
    ]),
    lookback,
    since,
  });
}

/** Without the store: what the last run knew at its end. */
function recallDates(job: Job, known: KnownDates | undefined, runs: KnownRuns, fault: string): StoreReading {
  const dates = Object.entries(known?.conditions ?? {})
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([date, condition]) => {
      const { rows = null, revision = null } = runs.results.get(date) ?? {};
      return describeDate(job, date, condition, isSealed(condition) ? { rows, revision } : undefined);
    });
  return {
    store: known?.store ?? job.drop.to,
    dates,
    reports: [],
    owed_events: null,
    fault,
    conditionFault: undefined,
  };
}

function describeDate(
  job: Job,
  date: string,
  condition: Condition,
  sealed: Partial<ConditionEntry> | undefined,
  accepted?: AcceptedGap,
): DateStatus {
  return {
    date,
    condition,
    rows: sealed?.rows ?? null,
    revision: sealed?.revision ?? null,
    begins_to_expire: expires(job.source) && isOpen(condition) ? new Date(expiresAt(date)).toISOString() : null,
    damage: sealed?.damage ?? null,
    degraded_reason: sealed?.degraded_reason,
    doubts: sealed?.doubts?.length ? sealed.doubts : undefined,
    nulls: sealed?.nulls,
    audit: sealed?.audit,
    accepted: accepted?.condition === condition ? accepted : null,
  };
}
