/**
 * The daemon: its loops, its job files, and the view of it. It knows time, files and processes, but no stages: all that
 * it knows of a dataset comes from child processes. `run-plan.ts` decides what runs when.
 */
import { once } from 'node:events';
import { basename } from 'node:path';
import { describeError, Fault } from '../core/errors.ts';
import type { Job, JobSchedule } from '../job/job.ts';
import { formatJobReference } from '../job/job-folder.ts';
import type { FiledJob, JobFilesReading } from './job-files.ts';
import { createRunPlan, STATUS_SHOWN_MS } from './run-plan.ts';
import { stopInTime } from './run-process.ts';
import { DaemonJob, DaemonState, isBusy, type JobView, LEASE_MS, type Outside, RENEW_MS } from './state.ts';

/** How often to check the clock, missed ticks, retries and unsent alerts. */
const BEAT_MS = 15_000;
/** If the clock is off by more than this, it was set, or the machine slept. */
const JUMP_MS = 5_000;
const RELOAD_MS = 60_000;
const PROGRESS_MS = 2_000;

export type Daemon = ReturnType<typeof createDaemon>;
export type DaemonView = Readonly<ReturnType<Daemon['view']>>;

export function createDaemon(outside: Outside) {
  const state = new DaemonState(outside);
  const plan = createRunPlan(state, reload);
  const startedAtMs = state.nowMs;
  /** Files without a known valid text. */
  let unusable: readonly JobView[] = [];
  let reloading: Promise<unknown> = Promise.resolve();
  let beatAtMs = startedAtMs;
  return { view, look, ask: plan.ask, reload, storeOf, pathOf, run };

  /** Cheap, because probes call it. */
  function view() {
    const { nowMs, isStopping, jobs } = state;
    const views = [...[...jobs.values()].map((job) => viewJob(job, nowMs)), ...unusable];
    const sorted: readonly JobView[] = views.sort((a, b) => (a.name < b.name ? -1 : 1));
    return {
      version: outside.version,
      /** Distinguishes this daemon from others that share a schedule. */
      id: outside.id,
      startedAtMs,
      /** When the loop last completed a beat: if that is long ago, the loop is stuck. */
      beatAtMs,
      isStopping,
      jobs: sorted,
    };
  }

  /** Someone views a page: refreshes the dataset statuses that children report, and the runs that are remembered. */
  async function look(): Promise<void> {
    plan.statuses.refreshOldest(STATUS_SHOWN_MS);
    await outside.runs.refresh(state.jobs.keys());
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

  /** The job's drop location as in its file; empty for an unknown job. */
  function storeOf(job: string): string {
    return state.jobs.get(job)?.filed.job.drop.to ?? '';
  }

  /** The job's file for child processes. */
  function pathOf(job: string): string {
    // One that is gone meanwhile: the command says so.
    return state.jobs.get(job)?.filed.path ?? job;
  }

  /**
   * Runs until the signal aborts; then stops its children and returns in less than ten seconds. @throws Fault at start
   */
  async function run(signal: AbortSignal): Promise<void> {
    const { clock, log, commands, coordinator, runs, readCalendar, watchFiles } = outside;
    const { jobs, stopping } = state;
    state.calendar = await readCalendar();
    signal.addEventListener('abort', () => stopping.abort(), { once: true });
    if (signal.aborted) stopping.abort();
    // A stop must not wait for a Redis that does not answer.
    const isLoaded = await Promise.race([load().then(() => true), untilAborted(signal)]);
    if (!isLoaded) return;
    await runs.refresh(jobs.keys());
    watchFiles(() => void reload(), stopping.signal);
    void repeat(BEAT_MS, 'beat', beat);
    void repeat(RELOAD_MS, 'reload', reload);
    void repeat(PROGRESS_MS, 'readRecords', readRecords);
    if (coordinator) {
      void repeat(RENEW_MS, 'renewClaims', renewClaims);
      void repeat(LEASE_MS / 2, 'takeOver', takeOver);
    }
    for (const job of jobs.values()) void plan.alerts.recall(job);
    await untilAborted(signal);
    const running = [...jobs.values()].filter(({ run }) => run?.phase === 'running').map(({ name }) => name);
    log.info({ event: 'stopping', running }, 'stopping');
    for (const job of jobs.values()) plan.places.stop(job, 'asked');
    const over = new AbortController();
    const stopped = stopInTime([commands], clock, over.signal);
    await Promise.all([plan.places.untilIdle(), commands.untilIdle()]);
    over.abort();
    await stopped;
  }

  /** Loads are serialized, so that an older read cannot overwrite a newer one. A failed read changes nothing. */
  async function load(): Promise<void> {
    const turn = reloading.then(async () => {
      const { jobs } = state;
      const reading = await outside.readFiles();
      if (jobs.size === 0 && unusable.length === 0) assertSome(reading);
      // In parallel, because Redis may be slow to fail. A job that only gains a schedule is not new.
      const fresh = reading.jobs.filter(({ job }) => job.schedule && (jobs.get(job.name)?.isRemoved ?? true));
      const lastRuns = await Promise.all(fresh.map(async ({ job }) => [job.name, await readLastRun(job)] as const));
      // Stopped meanwhile: it would start children that nobody ends.
      if (!state.isStopping) take(reading, new Map(lastRuns));
    });
    reloading = turn.catch(() => undefined); // The caller gets the error.
    await turn;
  }

  /** Newest instant up to which a new job is known to have run. */
  async function readLastRun({ name, schedule }: Job): Promise<number | undefined> {
    const { notesOf, historyOf, coordinator } = outside;
    // If the disk cannot be read, other sources decide.
    const owed = await notesOf(name)
      .unfinished.read()
      .catch(() => undefined);
    // An unfinished tick is still owed, even if its run already wrote its record.
    const here = owed ? Date.parse(owed.due_at) - 1 : await historyOf(name).lastRunAt();
    if (!schedule?.distributed) return here;
    const anywhere = await coordinator?.lastTick(name).catch(() => undefined); // The claim decides later.
    return here === undefined || (anywhere ?? 0) > here ? anywhere : here;
  }

  /** Applies the current job files: new, changed, broken, fixed or removed jobs. */
  function take(reading: JobFilesReading, lastRuns: ReadonlyMap<string, number | undefined>): void {
    const { jobs, nowMs } = state;
    const names = new Set(reading.jobs.map(({ job }) => job.name));
    unusable = reading.unusable.map(({ file, fault: { message } }) => {
      const known = unusable.find((view) => view.file === file)?.fault;
      if (known?.message !== message) logBroken(file, message, 'left out');
      // A job need not be named after its file.
      const name = names.has(formatJobReference(file)) ? basename(file) : formatJobReference(file);
      return { name, file, settleSeconds: 0, runs: [], fault: { message, sinceMs: known?.sinceMs ?? nowMs } };
    });
    for (const filed of reading.jobs) place(filed, lastRuns.get(filed.job.name));
    for (const [name, job] of jobs) if (!names.has(name) && !job.isRemoved) remove(job);
  }

  function place(filed: FiledJob, lastMs: number | undefined): void {
    const { name, schedule, file } = filed.job;
    const known = state.jobs.get(name);
    const wasKnown = known !== undefined && !known.isRemoved;
    const before = wasKnown ? known.filed.job.schedule : undefined;
    const job = known ?? new DaemonJob(filed);
    job.filed = filed;
    job.isRemoved = false;
    state.jobs.set(name, job);
    if (filed.fault === undefined) {
      if (job.fault) outside.log.info({ event: 'job-mended', job: name }, `${file} is valid again`);
      job.fault = undefined;
    } else {
      if (job.fault?.message !== filed.fault) {
        logBroken(file, filed.fault, 'the last valid version stays in use');
      }
      job.fault = { message: filed.fault, sinceMs: job.fault?.sinceMs ?? state.nowMs };
    }
    if (!known) plan.statuses.refresh(job);
    if (!schedule) job.ticks = undefined;
    // A known job that only now gains a schedule is due from now on.
    else if (!before) plan.schedule(job, wasKnown ? state.nowMs : lastMs);
    else if (!isSame(before, schedule)) plan.schedule(job, Math.max(job.seenMs, state.nowMs));
  }

  function remove(job: DaemonJob): void {
    const { run } = job;
    job.ticks = undefined;
    job.isRemoved = true;
    outside.log.info({ event: 'unscheduled', job: job.name }, `${job.name}: its file was removed`);
    if (run && run.phase !== 'running') {
      job.run = undefined;
      plan.settle(job, run.due);
    }
    plan.dropRetry(job);
    plan.alerts.dropAll(job);
    if (run?.phase !== 'running') plan.forgetTick(job);
    if (!isBusy(job)) state.jobs.delete(job.name);
  }

  function logBroken(file: string, reason: string, consequence: string): void {
    outside.log.error({ event: 'job-broken', file, reason }, `${file} is broken, ${consequence}: ${reason}`);
  }

  async function beat(): Promise<void> {
    const jumpMs = state.nowMs - beatAtMs - BEAT_MS;
    if (Math.abs(jumpMs) > JUMP_MS) {
      outside.log.warn({ event: 'clock-jump', jumpMs }, 'the clock jumped; checking for missed runs');
    }
    await plan.beat();
    // The duration of the beat itself is not a clock jump.
    beatAtMs = state.nowMs;
  }

  async function readRecords(): Promise<void> {
    for (const { name, run } of state.jobs.values()) {
      if (run?.phase === 'running') run.record = (await outside.historyOf(name).read(run.runId)) ?? null;
    }
  }

  async function renewClaims(): Promise<void> {
    const held = [...state.jobs.values()].flatMap((job) => [...job.heldTicks].map((ms) => [job, ms] as const));
    for (const [job, dueAtMs] of held) {
      const renew = async () => await outside.coordinator?.renew({ job: job.name, dueAtMs });
      const isMine = await state.attempt('warn', { event: 'renew-failed', job: job.name }, renew);
      if (isMine === false) plan.loseClaim(job, dueAtMs);
    }
  }

  async function takeOver(): Promise<void> {
    const shared = [...state.jobs.values()].filter((job) => job.filed.job.schedule?.distributed && !isBusy(job));
    const names = shared.map(({ name }) => name);
    const taken = names.length > 0 ? await outside.coordinator?.takeOver(names) : undefined;
    for (const { job: name, dueAtMs } of taken ?? []) {
      const job = state.jobs.get(name);
      if (job) plan.admit(job, { tickMs: dueAtMs, reason: 'take-over' });
    }
  }

  /** Repeats an action until the stop, one call at a time, whether or not it fails. */
  async function repeat(everyMs: number, what: string, action: () => Promise<void>): Promise<void> {
    const { signal } = state.stopping;
    while (!signal.aborted) {
      await outside.clock.sleep(everyMs, signal).catch(() => undefined); // The stop.
      if (signal.aborted) return;
      await action().catch((error: unknown) => {
        const reason = describeError(error);
        outside.log.error({ event: 'loop-fault', what, reason }, reason);
      });
    }
  }

  function viewJob(job: DaemonJob, nowMs: number): JobView {
    const { run, filed } = job;
    const { schedule, file, settleSeconds } = filed.job;
    return {
      name: job.name,
      file,
      settleSeconds,
      schedule: schedule && { cron: schedule.cron, timezone: schedule.timezone, distributed: schedule.distributed },
      nextRunAtMs: job.ticks?.next(nowMs),
      retryAtMs: job.retry?.atMs,
      waitingSinceMs: run?.phase === 'waiting' ? run.sinceMs : undefined,
      running:
        run?.phase === 'running'
          ? { runId: run.runId, reason: run.due.reason, startedAtMs: run.startedAtMs, record: run.record }
          : undefined,
      runs: outside.runs.of(job.name),
      fault: job.fault,
      status: job.status,
      statusFault: job.statusFault,
    };
  }
}

async function untilAborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort');
}

function isSame(a: JobSchedule, b: JobSchedule): boolean {
  return a.cron === b.cron && a.timezone === b.timezone && a.distributed === b.distributed;
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
