/**
 * The status of a job: conditions of its dates, the active run, the last runs, the next run, and mailed reports.
 * Read-only, with few reads of the store: a listing shows which dates are sealed, `condition.json` has the rest; a
 * manifest is read only where the two disagree. A store that cannot be read is reported in the status, not thrown.
 */
import { createTask } from 'node-cron';
import { readOwedEvents } from '../../alert/outbox.ts';
import { addDays, formatSecond } from '../../calendar/wall-clock.ts';
import { describeError, isFault } from '../../core/errors.ts';
import { listArchive } from '../../deliver/report-copies.ts';
import type { Job } from '../../job/job.ts';
import type { ConditionEntry } from '../../ledger/condition-file.ts';
import { Ledger } from '../../ledger/ledger.ts';
import { readSealed } from '../../ledger/update-conditions.ts';
import type { Openers } from '../../openers.ts';
import { type Condition, deriveConditions, isOpen, isSealed } from '../../plan/conditions.ts';
import { expires, expiresAt, type LookbackRange, lookbackOf } from '../../plan/dates.ts';
import type { AcceptedGap, DateStatus, JobStatus } from '../../state/documents.ts';
import { type KnownDates, limitsPath, openJobState, type Staging } from '../../state/job-state.ts';
import { ApiLimits } from '../../state/limits.ts';
import { RunHistory } from '../../state/run-history.ts';
import { isEndedRun, type RunRecord } from '../../state/run-record.ts';

/** About a quarter's sessions; older copies are in the store under their dates. */
const MAX_REPORTS = 60;

/** An earlier backfill is no news. */
const SEARCHED_RUNS = 50;

/** Everything that is shown about a job; the caller only formats it. */
export type StatusReading = Readonly<Awaited<ReturnType<typeof readStatus>>>;

type StatusOpeners = Pick<
  Openers,
  'clock' | 'openStore' | 'readCalendar' | 'readKeyFingerprint' | 'sourceUrl' | 'stateDir'
>;

interface StatusOptions {
  /** Look only at the objects of so many weeks up to the newest date; earlier dates are as `condition.json` has them. */
  readonly recentWeeks?: number | undefined;
  /** Leave out earlier dates that are available. */
  readonly brief?: boolean | undefined;
}

export async function readStatus(openers: StatusOpeners, job: Job, options: StatusOptions = {}) {
  const state = openJobState(openers.stateDir, job.name);
  const calendar = await openers.readCalendar();
  const nowMs = openers.clock.now();
  const lookback = lookbackOf(job, nowMs + (await readClockOffset(openers, job, nowMs)), calendar);
  const known = await state.known.read();
  const { results, ...runs } = await readRuns(new RunHistory(openers.stateDir, job.name));
  const { schedule } = job;
  const task = schedule && createTask(schedule.cron, () => undefined, { timezone: schedule.timezone });
  const reading = await readStore(openers, job, known, lookback, options).catch((error: unknown) => {
    if (!isFault(error)) throw error;
    // Without the store: what the last run knew at its end.
    const recalled = Object.entries(known?.conditions ?? {}).sort(([a], [b]) => (a < b ? -1 : 1));
    const dates = recalled.map(([date, condition]) => {
      const { rows = null, revision = null } = results.get(date) ?? {};
      return describeDate(job, date, condition, isSealed(condition) ? { rows, revision } : undefined);
    });
    const store = known?.store ?? job.drop.to;
    return { store, dates, reports: [], owed_events: null, fault: describeError(error), conditionFault: undefined };
  });
  const { conditionFault, dates, ...found } = reading;
  const document: JobStatus = {
    job: job.name,
    dataset: job.drop.dataset,
    ...found,
    dates: dates.map((date) => {
      return { ...date, failed: date.condition === 'available' ? undefined : results.get(date.date)?.error };
    }),
    ...runs,
    next_run: task?.getNextRuns(1)[0]?.toISOString() ?? null,
    staged: describeStaging(await state.staging.read(), dates),
  };
  /** `conditionFault`: what is wrong with `condition.json`; it is ignored then. */
  return { document, timezone: schedule?.timezone, calendar, nowMs, conditionFault };
}

/**
 * The runs of the document, and what the last attempt of each date came to. Newest first, until nothing is left to find:
 * of a job that never succeeds all its runs.
 */
async function readRuns(history: RunHistory) {
  const runs = new Map<'running' | 'last_run' | 'last_backfill' | 'last_success', RunRecord>();
  const results = new Map<string, RunRecord['dates'][number]>();
  let read = 0;
  await history.find((run) => {
    read += 1;
    const note = (what: Parameters<typeof runs.get>[0], isSo: boolean) =>
      isSo && !runs.has(what) && runs.set(what, run);
    note('running', run.outcome === null && run.progress !== null);
    note('last_run', isEndedRun(run));
    note('last_backfill', run.command === 'backfill' && run.outcome !== null && run.outcome !== 'active');
    note('last_success', run.command === 'run' && run.outcome === 'done');
    for (const result of run.dates) if (!results.has(result.date)) results.set(result.date, result);
    return runs.has('last_success') && (runs.has('last_backfill') || read >= SEARCHED_RUNS);
  }, true);
  return {
    running: runs.get('running') ?? null,
    last_run: runs.get('last_run') ?? null,
    last_backfill: runs.get('last_backfill') ?? null,
    last_success: runs.get('last_success')?.finished_at ?? null,
    results,
  };
}

/**
 * The API's clock minus this machine's, as the last run measured it; 0 if unknown. Status works without the API's
 * settings, and every run asks a server for its time.
 */
async function readClockOffset(openers: StatusOpeners, { source }: Job, nowMs: number): Promise<number> {
  if (source.kind === 'table') return 0;
  try {
    const url = openers.sourceUrl(source.api);
    const path = limitsPath(openers.stateDir, url, openers.readKeyFingerprint(source), source);
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

async function readStore(
  { openStore }: StatusOpeners,
  job: Job,
  known: KnownDates | undefined,
  lookback: LookbackRange,
  options: StatusOptions,
) {
  const store = await openStore(job.drop.to, { objects: job.drop.s3 });
  try {
    const ledger = new Ledger(store, job.drop.dataset);
    const [{ entries, fault: conditionFault, since }, reports, owed_events] = await Promise.all([
      readConditions(ledger, options),
      listArchive(store, job.name, MAX_REPORTS),
      readOwedEvents(store, job),
    ]);
    const sealed = await readSealed(ledger, entries, { since });
    const conditions = deriveConditions({
      sealed: new Map([...sealed].map(([date, { condition }]) => [date, condition])),
      // Every run writes the document, even for a date selection, so it is the newer of the two.
      recorded: new Map<string, Condition>([
        ...Object.entries(known?.conditions ?? {}),
        ...[...entries.values()].map(({ date, condition }) => [date, condition] as const),
      ]),
      lookback,
      since,
    });
    const dates = [...conditions].map(([date, condition]) =>
      describeDate(job, date, condition, sealed.get(date), entries.get(date)?.accepted),
    );
    return { store: store.url, dates, reports, owed_events, fault: null, conditionFault };
  } finally {
    await store.close();
  }
}

/** `since`: the first date whose objects are looked at; absent: all are. */
async function readConditions(ledger: Ledger, { recentWeeks, brief = false }: StatusOptions) {
  if (recentWeeks !== undefined && brief) return await ledger.recentConditions(recentWeeks);
  const document = await ledger.conditions();
  const newest = [...document.entries.keys()].sort().at(-1);
  const since = recentWeeks === undefined || newest === undefined ? undefined : addDays(newest, -7 * recentWeeks);
  return { ...document, since };
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
    through: sealed?.through,
    degraded_reason: sealed?.degraded_reason,
    doubts: sealed?.doubts?.length ? sealed.doubts : undefined,
    nulls: sealed?.nulls,
    audit: sealed?.audit,
    accepted: accepted?.condition === condition ? accepted : null,
  };
}
