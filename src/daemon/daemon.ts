/**
 * The daemon: its loop, its job files, its places for runs, and the view of it. It knows time, files and processes, but no
 * stages: all that it knows of a dataset comes from child processes. Once a second a step looks at clock and jobs and
 * starts what is due; it waits for nothing that can hang. Invariants: at most one run per job and `maxRuns` in total; a
 * date that expires sooner is fetched first, but after an hour of waiting, no job that came later goes first, so jobs whose
 * dates never expire do not starve. Staging of the running session gives way: none starts while any run is active or
 * waiting, and it is stopped when one is due; its pages stay staged, and the next tick fetches what it left.
 */
import { once } from 'node:events';
import { basename } from 'node:path';
import { MINIMUM_DATA_DELAY_MINUTES } from '../api-contract/published-limits.ts';
import { type CalendarOverride, isSession, OPEN_SECOND } from '../calendar/session.ts';
import { formatSecond, formatWallClock } from '../calendar/wall-clock.ts';
import { describeError, Fault } from '../core/errors.ts';
import type { Job } from '../job/job.ts';
import { formatJobReference } from '../job/job-folder.ts';
import { settledAt } from '../plan/dates.ts';
import type { RunRecord } from '../state/run-record.ts';
import { DaemonJob, type WaitingRun } from './daemon-job.ts';
import type { JobFilesReading } from './job-files.ts';
import { stopInTime } from './run-process.ts';
import { type JobView, toInstant } from './shapes.ts';
import { type Ask, type AskAnswer, type DueRun, LEASE_MS, type Outside, RENEW_MS, World } from './state.ts';

const STEP_MS = 1_000;
/** How often to look for old statuses and for what is to be staged. */
const BEAT_STEPS = 15;
/** If the clock is off by more than this, it was set, or the machine slept. */
const JUMP_MS = 5_000;
const RELOAD_MS = 10_000;
const PROGRESS_MS = 2_000;
/** Maximum age of a status that nobody views, and of one that someone does. */
const STATUS_IDLE_MS = 900_000;
const STATUS_SHOWN_MS = 60_000;
/** How long a run waits for the first status of its job: a store may hang. */
const ORDER_PATIENCE_MS = 60_000;
/** Longer than the nightly export of a job, and far shorter than a day, the least time that a date has left. */
const MAX_WAIT_MS = 3_600_000;
/** How long a tick waits for the claims of others that are due with it: Redis may hang. */
const CLAIM_PATIENCE_MS = 2_000;
/**
 * Ticks missed before a start arrive within this time: they count as simultaneous, and expiry orders them however long
 * they wait.
 */
const ARRIVAL_MS = 60_000;

/** Of a job whose file was never valid. */
const UNKNOWN = {
  settle_seconds: 0,
  schedule: null,
  next_run: null,
  retry_at: null,
  waiting_since: null,
  running: null,
  active: null,
  runs: [],
  status: null,
  status_read_at: null,
  status_fault: null,
} as const;

export type Daemon = ReturnType<typeof createDaemon>;
export type DaemonView = Readonly<ReturnType<Daemon['view']>>;

export function createDaemon(outside: Outside) {
  const jobs = new Map<string, DaemonJob>();
  const world = new World(outside);
  const startedAtMs = world.nowMs;
  const going = new Set<Promise<void>>();
  /** Files without a known valid text. */
  let unusable: readonly JobView[] = [];
  let reloading: Promise<unknown> = Promise.resolve();
  let [beatAtMs, steppedAtMs, steps] = [startedAtMs, startedAtMs, 0];
  let onEnd: (run: RunRecord) => void = () => undefined;
  return { view, look, ask, reload, storeOf, pathOf, run, countRuns };

  /** Cheap, because probes call it. */
  function view() {
    const views = [...[...jobs.values()].map((job) => job.view()), ...unusable];
    const sorted: readonly JobView[] = views.sort((a, b) => (a.name < b.name ? -1 : 1));
    return {
      version: outside.version,
      /** Distinguishes this daemon from others that share a schedule. */
      id: outside.id,
      startedAtMs,
      /** When the loop last claimed all that was due: if that is long ago, the loop is stuck. */
      beatAtMs,
      isStopping: world.isStopping,
      jobs: sorted,
    };
  }

  /** Someone views a page: refreshes the dataset statuses that children report, and the runs that are remembered. */
  async function look(): Promise<void> {
    refreshOldest(STATUS_SHOWN_MS);
    await outside.runs.refresh(jobs.keys());
  }

  function ask(asked: Ask): AskAnswer {
    const job = jobs.get(asked.job);
    if (world.isStopping) return { outcome: 'refused', text: 'The daemon is stopping.' };
    if (!job || job.isRemoved) return { outcome: 'refused', text: `${asked.job} is not a job of this daemon.` };
    return job.ask(asked);
  }

  /** Reads the job files again. Never rejects: a failure is logged. */
  async function reload(): Promise<void> {
    try {
      await load();
    } catch (error) {
      const line = { event: 'reload-failed', reason: describeError(error) };
      outside.log.error(line, 'reload failed; the loaded job files stay in use');
    }
  }

  /** @param count called with each run that has ended, except staging */
  function countRuns(count: (run: RunRecord) => void): void {
    onEnd = count;
  }

  /** The job's drop location as in its file; empty for an unknown job. */
  function storeOf(job: string): string {
    return jobs.get(job)?.filed.job.drop.to ?? '';
  }

  /** The job's file for child processes. */
  function pathOf(job: string): string {
    // One that is gone meanwhile: the command says so.
    return jobs.get(job)?.filed.path ?? job;
  }

  /**
   * Runs until the signal aborts; then stops its children and returns in less than ten seconds. @throws Fault at start
   */
  async function run(signal: AbortSignal): Promise<void> {
    const { clock, log, commands, coordinator, runs } = outside;
    const { stopping } = world;
    signal.addEventListener('abort', () => stopping.abort(), { once: true });
    if (signal.aborted) stopping.abort();
    // A stop must not wait for the check of a file.
    const isLoaded = await Promise.race([load().then(() => true), untilAborted(signal)]);
    if (!isLoaded) return;
    await runs.refresh(jobs.keys());
    for (const job of jobs.values()) job.recall();
    steppedAtMs = world.nowMs;
    void repeat(STEP_MS, 'step', step);
    void repeat(RELOAD_MS, 'reload', reload);
    void repeat(PROGRESS_MS, 'readRecords', readRecords);
    if (coordinator) {
      void repeat(RENEW_MS, 'renewClaims', renewClaims);
      void repeat(LEASE_MS / 2, 'takeOver', takeOver);
    }
    await untilAborted(signal);
    const running = [...jobs.values()].filter(({ run }) => run).map(({ name }) => name);
    log.info({ event: 'stopping', running }, 'stopping');
    for (const { run } of jobs.values()) run?.stop();
    const over = new AbortController();
    const stopped = stopInTime(commands, clock, over.signal);
    while (going.size > 0) await Promise.all(going);
    await commands.untilIdle();
    over.abort();
    await stopped;
  }

  /** Loads are serialized, so that an older read cannot overwrite a newer one. A failed read changes nothing. */
  async function load(): Promise<void> {
    const turn = reloading.then(async () => {
      const reading = await outside.readFiles();
      if (jobs.size === 0 && unusable.length === 0) assertSome(reading);
      // A job that only gains a schedule is not new.
      const fresh = reading.jobs.filter(({ job }) => job.schedule && (jobs.get(job.name)?.isRemoved ?? true));
      const lastRuns = await Promise.all(
        fresh.map(async ({ job: { name, schedule } }) => {
          const canRetry = (schedule?.retrySeconds ?? null) !== null;
          return [name, await outside.historyOf(name).lastRunAt(canRetry)] as const;
        }),
      );
      // Stopped meanwhile: it would start children that nobody ends.
      if (!world.isStopping) take(reading, new Map(lastRuns));
    });
    reloading = turn.catch(() => undefined); // The caller gets the error.
    await turn;
  }

  /** Applies the current job files: new, changed, broken, fixed or removed jobs. */
  function take(reading: JobFilesReading, lastRuns: ReadonlyMap<string, number | undefined>): void {
    const names = new Set(reading.jobs.map(({ job }) => job.name));
    unusable = reading.unusable.map(({ file, fault: { message } }) => {
      const known = unusable.find((each) => each.file === file)?.fault;
      if (known?.message !== message) {
        outside.log.error({ event: 'job-broken', file, reason: message }, `${file} is broken, left out: ${message}`);
      }
      // A job need not be named after its file.
      const name = names.has(formatJobReference(file)) ? basename(file) : formatJobReference(file);
      return { ...UNKNOWN, name, file, fault: { message, since: known?.since ?? toInstant(world.nowMs) } };
    });
    for (const filed of reading.jobs) {
      const { name } = filed.job;
      const job = jobs.get(name) ?? new DaemonJob(world, filed);
      if (!jobs.has(name)) void job.status.refresh();
      jobs.set(name, job);
      job.take(filed, lastRuns.get(name));
    }
    for (const [name, job] of jobs) {
      if (!names.has(name) && !job.isRemoved) job.remove();
      if (job.isRemoved && !job.run) jobs.delete(name);
    }
  }

  /** Looks at clock and jobs, and starts what is due. */
  async function step(): Promise<void> {
    const { nowMs } = world;
    const jumpMs = nowMs - steppedAtMs - STEP_MS;
    if (Math.abs(jumpMs) > JUMP_MS) {
      outside.log.warn({ event: 'clock-jump', jumpMs }, 'the clock jumped; checking for missed runs');
    }
    steppedAtMs = nowMs;
    steps += 1;
    const looks = [...jobs.values()].map((job) => job.look(STEP_MS));
    const looked = Promise.all(looks).then(() => {
      beatAtMs = world.nowMs;
      fill();
    });
    looked.catch(tellFault('look'));
    fill();
    if (steps % BEAT_STEPS !== 0) return;
    stage();
    refreshOldest(STATUS_IDLE_MS);
  }

  /** Starts waiting runs while there are free places. */
  function fill(): void {
    const { nowMs } = world;
    const all = [...jobs.values()];
    while (!world.isStopping) {
      const waiting = all.flatMap((job) => {
        const due = job.decide();
        return due ? [{ ...due, job, due, expiresAtMs: job.status.expiresAtMs }] : [];
      });
      // Their exports need the places and the requests.
      if (waiting.length > 0) for (const { run, isStaging } of all) if (isStaging) run?.stop();
      // What was missed together waits until it is known which of it expires first.
      const isUnordered = waiting.some(
        ({ job: { status }, reason, sinceMs }) =>
          reason === 'catch-up' && !status.isKnown && nowMs - sinceMs < ORDER_PATIENCE_MS,
      );
      const isClaiming = all.some((job) => job.isClaiming);
      const free = waiting.filter(({ job, reason, sinceMs }) => {
        if (isClaiming && reason === 'scheduled' && nowMs - sinceMs < CLAIM_PATIENCE_MS) return false;
        return !job.run && !(isUnordered && reason === 'catch-up');
      });
      const next = chooseNext(free, nowMs);
      if (!next || all.filter(({ run }) => run).length >= outside.maxRuns) return;
      start(next.job, next.due);
    }
  }

  /** Starts the staging that has waited longest, if one is due and nothing else is to be done. */
  function stage(): void {
    const { nowMs } = world;
    const all = [...jobs.values()];
    if (world.isStopping || all.some(({ run, waiting }) => run || waiting)) return;
    const [job] = all
      .filter(({ filed, isRemoved, stagedAtMs }) => {
        const everyMs = (filed.job.schedule?.stageSeconds ?? 0) * 1000;
        if (everyMs === 0 || isRemoved || !canStage(filed.job, nowMs, outside.calendar)) return false;
        return Math.floor(nowMs / everyMs) !== Math.floor(stagedAtMs / everyMs);
      })
      .sort((a, b) => a.stagedAtMs - b.stagedAtMs);
    if (!job) return;
    job.stagedAtMs = nowMs;
    start(job, { reason: 'stage', tickMs: nowMs });
  }

  function start(job: DaemonJob, due: DueRun): void {
    const run = job
      .start(due, reload)
      .then(async (record) => {
        await outside.runs.refresh(jobs.keys());
        if (record && record.command !== 'stage') onEnd(record);
      })
      .finally(() => {
        going.delete(run);
        if (job.isRemoved && !job.run) jobs.delete(job.name);
        fill();
      })
      .catch(tellFault('run'));
    going.add(run);
  }

  /** Reads the oldest status that is older than this, unless a reading is in progress. */
  function refreshOldest(olderThanMs: number): void {
    const statuses = [...jobs.values()].map(({ status }) => status);
    const [oldest] = statuses.sort((a, b) => b.ageMs - a.ageMs);
    if (oldest && oldest.ageMs >= olderThanMs && !statuses.some(({ isReading }) => isReading)) void oldest.refresh();
  }

  async function readRecords(): Promise<void> {
    for (const { run } of jobs.values()) await run?.readRecord();
  }

  async function renewClaims(): Promise<void> {
    for (const job of [...jobs.values()]) await job.renewClaims();
  }

  async function takeOver(): Promise<void> {
    const names = [...jobs.values()]
      .filter(({ schedule, run, waiting }) => schedule?.distributed && !run && !waiting)
      .map(({ name }) => name);
    const taken = names.length > 0 ? await outside.coordinator?.takeOver(names) : undefined;
    for (const { job, dueAtMs } of taken ?? []) jobs.get(job)?.admit({ tickMs: dueAtMs, reason: 'take-over' });
  }

  /** Repeats an action until the stop, one call at a time, whether or not it fails. */
  async function repeat(everyMs: number, what: string, action: () => Promise<void>): Promise<void> {
    const { signal } = world.stopping;
    while (!signal.aborted) {
      await outside.clock.sleep(everyMs, signal).catch(() => undefined); // The stop.
      if (signal.aborted) return;
      await action().catch(tellFault(what));
    }
  }

  function tellFault(what: string): (error: unknown) => void {
    return (error) => {
      const reason = describeError(error);
      outside.log.error({ event: 'loop-fault', what, reason }, reason);
    };
  }
}

async function untilAborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort');
}

/** Whether a session of today is visible in part, and cannot be sealed yet. */
function canStage({ settleSeconds }: Job, nowMs: number, calendar: CalendarOverride): boolean {
  const visible = formatWallClock(nowMs - MINIMUM_DATA_DELAY_MINUTES * 60_000);
  const date = visible.slice(0, 10);
  if (!isSession(date, calendar) || visible < `${date} ${formatSecond(OPEN_SECOND)}`) return false;
  return nowMs < settledAt(date, { settleSeconds, calendar });
}

/** @param waiting those that may start @returns `undefined` when there is none */
function chooseNext<T extends WaitingRun & { readonly expiresAtMs: number }>(waiting: readonly T[], nowMs: number) {
  // A time in the future means that the clock was set back.
  const overdue = waiting.filter(({ sinceMs }) => Math.abs(nowMs - sinceMs) >= MAX_WAIT_MS);
  const arrivalOf = ({ sinceMs }: T) => (overdue.length === 0 ? 0 : Math.floor(sinceMs / ARRIVAL_MS));
  // Infinities compare as equal.
  const byExpiry = (a: T, b: T) => (a.expiresAtMs === b.expiresAtMs ? 0 : a.expiresAtMs - b.expiresAtMs);
  const order = (a: T, b: T) => arrivalOf(a) - arrivalOf(b) || byExpiry(a, b) || a.tickMs - b.tickMs;
  return (overdue.length === 0 ? waiting : overdue).toSorted(order)[0];
}

/** @throws Fault (kind `usage`) when no job has a schedule, or when a job needs a setting that is missing */
function assertSome({ jobs, unusable }: JobFilesReading): void {
  const unset = unusable.find(({ fault }) => fault.code === 'SETTING_MISSING')?.fault;
  if (unset) throw unset;
  if (jobs.some(({ job }) => job.schedule)) return;
  const [first] = unusable;
  if (first) throw first.fault;
  throw new Fault('JOBS_MISSING', 'no job file in the folder of the jobs has a schedule', {
    kind: 'usage',
    hint: 'Add `schedule:` to a job file, or give another folder with --jobs DIR.',
  });
}
