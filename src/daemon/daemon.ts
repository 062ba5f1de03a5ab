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
import { createRunPlan, type RunPlan, STATUS_SHOWN_MS } from './run-plan.ts';
import { stopInTime } from './run-process.ts';
import {
  type Ask,
  type AskAnswer,
  DaemonJob,
  DaemonState,
  isBusy,
  type JobView,
  LEASE_MS,
  type Outside,
  RENEW_MS,
} from './state.ts';

/** How often to check the clock, missed ticks, retries and unsent alerts. */
const BEAT_MS = 15_000;
/** If the clock is off by more than this, it was set, or the machine slept. */
const JUMP_MS = 5_000;
const RELOAD_MS = 60_000;
const PROGRESS_MS = 2_000;

export type DaemonView = Readonly<ReturnType<Daemon['view']>>;

export class Daemon {
  readonly #outside: Outside;
  readonly #state: DaemonState;
  readonly #plan: RunPlan;
  readonly #startedAtMs: number;
  /** Files without a known valid text. */
  #unusable: readonly JobView[] = [];
  #reloading: Promise<unknown> = Promise.resolve();
  #beatAtMs: number;

  constructor(outside: Outside) {
    this.#outside = outside;
    this.#state = new DaemonState(outside);
    this.#plan = createRunPlan(this.#state, () => this.reload());
    this.#startedAtMs = this.#state.nowMs;
    this.#beatAtMs = this.#startedAtMs;
  }

  /** Cheap, because probes call it. */
  view() {
    const { nowMs, isStopping, jobs } = this.#state;
    const views = [...[...jobs.values()].map((job) => this.#viewJob(job, nowMs)), ...this.#unusable];
    const sorted: readonly JobView[] = views.sort((a, b) => (a.name < b.name ? -1 : 1));
    return {
      version: this.#outside.version,
      /** Distinguishes this daemon from others that share a schedule. */
      id: this.#outside.id,
      startedAtMs: this.#startedAtMs,
      /** When the loop last completed a beat: if that is long ago, the loop is stuck. */
      beatAtMs: this.#beatAtMs,
      isStopping,
      jobs: sorted,
    };
  }

  /** Someone views a page: refreshes the dataset statuses that children report, and the runs that are remembered. */
  async look(): Promise<void> {
    this.#plan.statuses.refreshOldest(STATUS_SHOWN_MS);
    await this.#outside.runs.refresh(this.#state.jobs.keys());
  }

  /** Does what a person asks for, or says why not. */
  ask(ask: Ask): AskAnswer {
    return this.#plan.ask(ask);
  }

  /** Reads the job files again. Never rejects: a failure is logged. */
  async reload(): Promise<void> {
    try {
      await this.#load();
    } catch (error) {
      const line = { event: 'reload-failed', reason: describeError(error) };
      this.#outside.log.error(line, 'reload failed; the loaded job files stay in use');
    }
  }

  /** The job's drop location as in its file; empty for an unknown job. */
  storeOf(job: string): string {
    return this.#state.jobs.get(job)?.filed.job.drop.to ?? '';
  }

  /** The job's file for child processes. */
  pathOf(job: string): string {
    // One that is gone meanwhile: the command says so.
    return this.#state.jobs.get(job)?.filed.path ?? job;
  }

  /**
   * Runs until the signal aborts; then stops its children and returns in less than ten seconds. @throws Fault at start
   */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, log, commands, coordinator, runs, readCalendar, watchFiles } = this.#outside;
    const { jobs, stopping } = this.#state;
    this.#state.calendar = await readCalendar();
    signal.addEventListener('abort', () => stopping.abort(), { once: true });
    if (signal.aborted) stopping.abort();
    // A stop must not wait for a Redis that does not answer.
    const isLoaded = await Promise.race([this.#load().then(() => true), untilAborted(signal)]);
    if (!isLoaded) return;
    await runs.refresh(jobs.keys());
    watchFiles(() => void this.reload(), stopping.signal);
    void this.#repeat(BEAT_MS, 'beat', () => this.#beat());
    void this.#repeat(RELOAD_MS, 'reload', () => this.reload());
    void this.#repeat(PROGRESS_MS, 'readRecords', () => this.#readRecords());
    if (coordinator) {
      void this.#repeat(RENEW_MS, 'renewClaims', () => this.#renewClaims());
      void this.#repeat(LEASE_MS / 2, 'takeOver', () => this.#takeOver());
    }
    for (const job of jobs.values()) void this.#plan.alerts.recall(job);
    await untilAborted(signal);
    const running = [...jobs.values()].filter(({ run }) => run?.phase === 'running').map(({ name }) => name);
    log.info({ event: 'stopping', running }, 'stopping');
    for (const job of jobs.values()) this.#plan.places.stop(job, 'asked');
    const over = new AbortController();
    const stopped = stopInTime([commands], clock, over.signal);
    await Promise.all([this.#plan.places.untilIdle(), commands.untilIdle()]);
    over.abort();
    await stopped;
  }

  /** Loads are serialized, so that an older read cannot overwrite a newer one. A failed read changes nothing. */
  async #load(): Promise<void> {
    const turn = this.#reloading.then(async () => {
      const { jobs } = this.#state;
      const reading = await this.#outside.readFiles();
      if (jobs.size === 0 && this.#unusable.length === 0) assertSome(reading);
      // In parallel, because Redis may be slow to fail. A job that only gains a schedule is not new.
      const fresh = reading.jobs.filter(({ job }) => job.schedule && (jobs.get(job.name)?.isRemoved ?? true));
      const lastRuns = await Promise.all(
        fresh.map(async ({ job }) => [job.name, await this.#readLastRun(job)] as const),
      );
      // Stopped meanwhile: it would start children that nobody ends.
      if (!this.#state.isStopping) this.#take(reading, new Map(lastRuns));
    });
    this.#reloading = turn.catch(() => undefined); // The caller gets the error.
    await turn;
  }

  /** Newest instant up to which a new job is known to have run. */
  async #readLastRun({ name, schedule }: Job): Promise<number | undefined> {
    const { notesOf, historyOf, coordinator } = this.#outside;
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
  #take(reading: JobFilesReading, lastRuns: ReadonlyMap<string, number | undefined>): void {
    const { jobs, nowMs } = this.#state;
    const names = new Set(reading.jobs.map(({ job }) => job.name));
    this.#unusable = reading.unusable.map(({ file, fault: { message } }) => {
      const known = this.#unusable.find((view) => view.file === file)?.fault;
      if (known?.message !== message) this.#logBroken(file, message, 'left out');
      // A job need not be named after its file.
      const name = names.has(formatJobReference(file)) ? basename(file) : formatJobReference(file);
      return { name, file, settleSeconds: 0, runs: [], fault: { message, sinceMs: known?.sinceMs ?? nowMs } };
    });
    for (const filed of reading.jobs) this.#place(filed, lastRuns.get(filed.job.name));
    for (const [name, job] of jobs) if (!names.has(name) && !job.isRemoved) this.#remove(job);
  }

  #place(filed: FiledJob, lastMs: number | undefined): void {
    const { name, schedule, file } = filed.job;
    const known = this.#state.jobs.get(name);
    const wasKnown = known !== undefined && !known.isRemoved;
    const before = wasKnown ? known.filed.job.schedule : undefined;
    const job = known ?? new DaemonJob(filed);
    job.filed = filed;
    job.isRemoved = false;
    this.#state.jobs.set(name, job);
    if (filed.fault === undefined) {
      if (job.fault) this.#outside.log.info({ event: 'job-mended', job: name }, `${file} is valid again`);
      job.fault = undefined;
    } else {
      if (job.fault?.message !== filed.fault) {
        this.#logBroken(file, filed.fault, 'the last valid version stays in use');
      }
      job.fault = { message: filed.fault, sinceMs: job.fault?.sinceMs ?? this.#state.nowMs };
    }
    if (!known) this.#plan.statuses.refresh(job);
    if (!schedule) job.ticks = undefined;
    // A known job that only now gains a schedule is due from now on.
    else if (!before) this.#plan.schedule(job, wasKnown ? this.#state.nowMs : lastMs);
    else if (!isSame(before, schedule)) this.#plan.schedule(job, Math.max(job.seenMs, this.#state.nowMs));
  }

  #remove(job: DaemonJob): void {
    const { run } = job;
    job.ticks = undefined;
    job.isRemoved = true;
    this.#outside.log.info({ event: 'unscheduled', job: job.name }, `${job.name}: its file was removed`);
    if (run && run.phase !== 'running') {
      job.run = undefined;
      this.#plan.settle(job, run.due);
    }
    this.#plan.dropRetry(job);
    this.#plan.alerts.dropAll(job);
    if (run?.phase !== 'running') this.#plan.forgetTick(job);
    if (!isBusy(job)) this.#state.jobs.delete(job.name);
  }

  #logBroken(file: string, reason: string, consequence: string): void {
    this.#outside.log.error({ event: 'job-broken', file, reason }, `${file} is broken, ${consequence}: ${reason}`);
  }

  async #beat(): Promise<void> {
    const jumpMs = this.#state.nowMs - this.#beatAtMs - BEAT_MS;
    if (Math.abs(jumpMs) > JUMP_MS) {
      this.#outside.log.warn({ event: 'clock-jump', jumpMs }, 'the clock jumped; checking for missed runs');
    }
    await this.#plan.beat();
    // The duration of the beat itself is not a clock jump.
    this.#beatAtMs = this.#state.nowMs;
  }

  async #readRecords(): Promise<void> {
    for (const { name, run } of this.#state.jobs.values()) {
      if (run?.phase === 'running') run.record = (await this.#outside.historyOf(name).read(run.runId)) ?? null;
    }
  }

  async #renewClaims(): Promise<void> {
    const held = [...this.#state.jobs.values()].flatMap((job) => [...job.heldTicks].map((ms) => [job, ms] as const));
    for (const [job, dueAtMs] of held) {
      const renew = async () => await this.#outside.coordinator?.renew({ job: job.name, dueAtMs });
      const isMine = await this.#state.attempt('warn', { event: 'renew-failed', job: job.name }, renew);
      if (isMine === false) this.#plan.loseClaim(job, dueAtMs);
    }
  }

  async #takeOver(): Promise<void> {
    const shared = [...this.#state.jobs.values()].filter((job) => job.filed.job.schedule?.distributed && !isBusy(job));
    const names = shared.map(({ name }) => name);
    const taken = names.length > 0 ? await this.#outside.coordinator?.takeOver(names) : undefined;
    for (const { job: name, dueAtMs } of taken ?? []) {
      const job = this.#state.jobs.get(name);
      if (job) this.#plan.admit(job, { tickMs: dueAtMs, reason: 'take-over' });
    }
  }

  /** Repeats an action until the stop, one call at a time, whether or not it fails. */
  async #repeat(everyMs: number, what: string, action: () => Promise<void>): Promise<void> {
    const { signal } = this.#state.stopping;
    while (!signal.aborted) {
      await this.#outside.clock.sleep(everyMs, signal).catch(() => undefined); // The stop.
      if (signal.aborted) return;
      await action().catch((error: unknown) => {
        const reason = describeError(error);
        this.#outside.log.error({ event: 'loop-fault', what, reason }, reason);
      });
    }
  }

  #viewJob(job: DaemonJob, nowMs: number): JobView {
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
      runs: this.#outside.runs.of(job.name),
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
