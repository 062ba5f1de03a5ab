/**
 * One job of the daemon: turns its ticks, and what people ask for, into runs. A tick is an instant of the job's schedule;
 * one of a shared schedule is claimed by the daemon that runs it; staging fetches what a running session has so far.
 * Invariants: a tick is seen once, however the clock moves, and ends in a run, in a day without a session, or in a log line
 * that says why not; of several missed ticks only the newest counts, and one with a session before others. A job has one
 * run at a time, and one that is due: the newest tick, which may have come during the run, or the retry of the last one. A
 * tick of a shared schedule is held until it is finished. What a person asks for goes the way of a tick, but is neither
 * caught up, retried, claimed nor alerted. Nothing is started after the stop.
 */
import { LOOKBACK_DAYS } from '../api-contract/published-limits.ts';
import { isSession } from '../calendar/session.ts';
import { formatWallDate } from '../calendar/wall-clock.ts';
import { describeError } from '../core/errors.ts';
import type { JobSchedule } from '../job/job.ts';
import { createTicks, type Ticks } from '../plan/ticks.ts';
import { isOwed, type RunRecord } from '../state/run-record.ts';
import { JobAlerts } from './alerts.ts';
import type { FiledJob } from './job-files.ts';
import { type EndedRun, JobRun } from './job-run.ts';
import { JobStatus } from './job-status.ts';
import { type JobView, toInstant, toInstantOrNull } from './shapes.ts';
import type { Ask, AskAnswer, DueRun, World } from './state.ts';

/** A tick that was seen later than this was missed. */
const ON_TIME_MS = 5_000;
const LOOKBACK_MS = LOOKBACK_DAYS * 86_400_000;
/** If the clock is set back by more than this, it was wrong before, and what was seen is forgotten. NTP steps are smaller. */
const WRONG_CLOCK_MS = 600_000;
/** A clock change is noticed within this time; ticks since then count as new. */
const NOTICED_MS = 60_000;
/** After a failed claim: Redis may be away for long. */
const CLAIM_WAIT_MS = 15_000;

/** @property sinceMs when it began to wait for a free place; of a retry also when it will */
export interface WaitingRun extends DueRun {
  readonly sinceMs: number;
}

export class DaemonJob {
  readonly name: string;
  filed: FiledJob;
  readonly alerts: JobAlerts;
  readonly status: JobStatus;
  /** The file is gone, or not taken yet; its run may still be active. */
  isRemoved = true;
  run: JobRun | undefined;
  /** When it last began to stage the running session. */
  stagedAtMs = Number.NEGATIVE_INFINITY;
  readonly #world: World;
  #fault: JobView['fault'] = null;
  /** While its file has a schedule. */
  #ticks: Ticks | undefined;
  /** Ticks up to here have been seen. */
  #seenMs = 0;
  /** Its claim of a tick that was found; the loop waits for it. */
  #claiming: Promise<void> | undefined;
  #claimFailedMs = Number.NEGATIVE_INFINITY;
  /** The newest tick that was not run, or the retry of the last one. */
  #due: WaitingRun | undefined;
  /** What a person asked for, until it is started. */
  #asked: WaitingRun | undefined;
  /** Ticks of a shared schedule that this daemon holds until they are settled. */
  readonly #held = new Set<number>();

  constructor(world: World, filed: FiledJob) {
    this.#world = world;
    this.name = filed.job.name;
    this.filed = filed;
    this.alerts = new JobAlerts(world, this);
    this.status = new JobStatus(world, this);
  }

  /** Whether its process only stages the running session. */
  get isStaging(): boolean {
    return this.run?.due.reason === 'stage';
  }

  get schedule(): JobSchedule | undefined {
    return this.filed.job.schedule;
  }

  /** What waits for a free place, or for staging to give way. */
  get waiting(): WaitingRun | undefined {
    if (this.run && !this.isStaging) return undefined;
    const due = this.#asked ?? this.#due;
    return due && (due.reason !== 'retry' || due.sinceMs <= this.#world.nowMs) ? due : undefined;
  }

  /** Whether it is not known yet if a tick that was found is its own. */
  get isClaiming(): boolean {
    return this.#claiming !== undefined;
  }

  view(): JobView {
    const { run, name, status, waiting } = this;
    const { file, settleSeconds, schedule } = this.filed.job;
    return {
      name,
      file,
      settle_seconds: settleSeconds,
      schedule: schedule
        ? { cron: schedule.cron, timezone: schedule.timezone, distributed: schedule.distributed }
        : null,
      next_run: toInstantOrNull(this.#ticks?.next(this.#world.nowMs)),
      retry_at: toInstantOrNull(waiting || this.#due?.reason !== 'retry' ? undefined : this.#due.sinceMs),
      waiting_since: toInstantOrNull(run ? undefined : waiting?.sinceMs),
      running: run ? { id: run.runId, reason: run.due.reason, started_at: toInstant(run.startedAtMs) } : null,
      active: run?.record ?? null,
      runs: this.#world.outside.runs.of(name),
      fault: this.#fault,
      status: status.read?.document ?? null,
      status_read_at: toInstantOrNull(status.read?.readAtMs),
      status_fault: status.fault ?? null,
    };
  }

  /** Its file as it is now. @param lastMs newest instant up to which a new job is known to have run */
  take(filed: FiledJob, lastMs: number | undefined): void {
    const { nowMs, outside } = this.#world;
    const { schedule, file } = filed.job;
    const wasKnown = !this.isRemoved;
    const before = wasKnown ? this.schedule : undefined;
    const fault = this.#fault;
    this.filed = filed;
    this.isRemoved = false;
    this.#fault = filed.fault === undefined ? null : { message: filed.fault, since: fault?.since ?? toInstant(nowMs) };
    if (filed.fault !== undefined && filed.fault !== fault?.message) {
      const text = `${file} is broken, the last valid version stays in use: ${filed.fault}`;
      outside.log.error({ event: 'job-broken', file, reason: filed.fault }, text);
    }
    if (fault && !this.#fault) outside.log.info({ event: 'job-mended', job: this.name }, `${file} is valid again`);
    if ((schedule?.retrySeconds ?? null) === null) this.#dropRetry();
    if (!schedule) this.#ticks = undefined;
    // A known job that only now gains a schedule is due from now on.
    else if (!before) this.#plan(schedule, wasKnown ? nowMs : lastMs);
    else if (!isSame(before, schedule)) this.#plan(schedule, Math.max(this.#seenMs, nowMs));
  }

  /**
   * At the start: its last run may have died, and the daemon before have ended before that was reported. A backfill since
   * then has ended that, or another machine that shares the schedule; what is tried again now needs nobody.
   */
  recall(): void {
    if (!this.schedule || this.schedule.distributed || this.schedule.retrySeconds !== null) return;
    const commands = ['run', 'backfill'];
    const last = this.#world.outside.runs.of(this.name).find(({ command }) => commands.includes(command));
    const isDead = last?.outcome === 'died' || last?.outcome === 'timed-out';
    if (!isDead || last.reason === 'hand' || last.reason === 'asked') return;
    this.alerts.died = last.error?.message ?? 'The run ended without a message.';
  }

  remove(): void {
    this.#ticks = undefined;
    this.isRemoved = true;
    this.#world.outside.log.info({ event: 'unscheduled', job: this.name }, `${this.name}: its file was removed`);
    if (this.#due) this.#settle(this.#due);
    this.#due = undefined;
    this.#asked = undefined;
    this.alerts.died = undefined;
  }

  /**
   * Looks for what is due, also for what a clock that was set, or a claim that failed, has left.
   * @param stepMs since it looked last @returns when a tick that was found is claimed
   */
  async look(stepMs: number): Promise<void> {
    if (Math.abs(this.#world.nowMs - this.#claimFailedMs) >= CLAIM_WAIT_MS) {
      this.#claiming ??= this.#claimDue().finally(() => {
        this.#claiming = undefined;
      });
    }
    this.run?.work(stepMs);
    this.alerts.look(this.#fault, this.run?.startedAtMs ?? this.waiting?.sinceMs);
    await this.#claiming;
  }

  /** A tick for this daemon to run. Only the newest is kept: one run exports everything that is not sealed. */
  admit(due: DueRun): void {
    const { nowMs, isStopping, outside } = this.#world;
    const { run, waiting } = this;
    const before = this.#due;
    if (this.isRemoved || isStopping) return;
    if (this.schedule?.distributed) this.#held.add(due.tickMs);
    // Found again after its file was gone for a moment: it stays held.
    if (run?.isTick && run.due.tickMs === due.tickMs) return;
    if (waiting || (run && !this.isStaging)) {
      const text = `${this.name} is due, but its last run has not ended`;
      outside.log.warn({ event: 'overlap', job: this.name }, text);
    }
    const isSure = this.#isSure(due);
    if (before) {
      // A retry that a wrong clock has planned may be a year away, and of a later tick.
      const isPlanned = before.reason === 'retry' && before.sinceMs > nowMs;
      const isBetter = isPlanned || (this.#isSure(before) === isSure ? before.tickMs <= due.tickMs : isSure);
      if (before.tickMs !== due.tickMs) this.#settle(isBetter ? before : due);
      if (!isBetter) return;
    }
    this.#due = { ...due, sinceMs: waiting?.sinceMs ?? nowMs };
    if (!isSure) void this.status.refresh();
  }

  /**
   * Its waiting run, if it can start. On a day without a session only pending dates justify a process; if the status is
   * unknown, a run that finds nothing is cheaper than a lost date.
   */
  decide(): WaitingRun | undefined {
    const { waiting: due, status } = this;
    if (!due || this.#isSure(due)) return due;
    if (status.isReading) return undefined;
    if (status.pending?.length !== 0) {
      this.#due = { ...due, reason: 'gap' };
      return this.#due;
    }
    this.#due = undefined;
    this.#settle(due);
    const text = `${this.name}: no session on ${formatWallDate(due.tickMs)}`;
    this.#world.outside.log.info({ event: 'no-session', job: this.name }, text);
    return undefined;
  }

  /** A command waits for its place as a tick does; where a retry is planned, a run is that retry. */
  ask(ask: Ask): AskAnswer {
    const { name, run, waiting } = this;
    const { nowMs } = this.#world;
    if (ask.command === 'stop') {
      run?.stop();
      if (run) return { outcome: 'done', text: `The run of ${name} was asked to stop.` };
      if (!waiting) return refuse(`${name} has no run by this daemon to stop.`);
      if (waiting === this.#asked) this.#asked = undefined;
      else {
        this.#due = undefined;
        this.#settle(waiting);
      }
      return { outcome: 'done', text: `The run of ${name} no longer waits.` };
    }
    if (waiting || (run && !this.isStaging)) {
      return refuse(`${name} ${waiting ? 'is about to run' : 'is running'}: a job has one run at a time.`);
    }
    const { command, options } = ask;
    if (this.#due && command === 'run' && options.length === 0) {
      this.#due = { ...this.#due, sinceMs: nowMs };
      return { outcome: 'started', text: `The retry of ${name} begins now.` };
    }
    this.#asked = { reason: 'asked', tickMs: nowMs, sinceMs: nowMs, asked: { command, options } };
    return { outcome: 'started', text: `${command} of ${name} begins as soon as a slot is free.` };
  }

  /**
   * Starts a run. @param reload reads the job files again: one of them may have become broken
   * @returns its record when it has ended, and what follows from that is planned
   */
  async start(due: DueRun, reload: () => Promise<void>): Promise<RunRecord | undefined> {
    if (due === this.#due) this.#due = undefined;
    if (due === this.#asked) this.#asked = undefined;
    const run = new JobRun(this.#world, this, due);
    this.run = run;
    const ended = await run.carryOut(reload);
    this.run = undefined;
    this.#follow(run, ended);
    return ended.record;
  }

  /** Tells that this daemon is alive, and still runs the ticks that it holds. */
  async renewClaims(): Promise<void> {
    const { log, coordinator } = this.#world.outside;
    const { name: job } = this;
    for (const dueAtMs of this.#held) {
      const renew = async () => await coordinator?.renew({ job, dueAtMs });
      const isMine = await this.#world.attempt('warn', { event: 'renew-failed', job }, renew);
      // Ignore a tick that was settled while its renewal was in progress.
      if (isMine !== false || !this.#held.delete(dueAtMs)) continue;
      log.warn({ event: 'claim-lost', job }, `${job}: another daemon has taken over its run`);
      if (this.#due?.tickMs === dueAtMs) this.#due = undefined;
      else if (this.run?.due.tickMs === dueAtMs) this.run.stop();
    }
  }

  /** Plans it by its schedule, and runs what was missed. */
  #plan(schedule: JobSchedule, lastMs: number | undefined): void {
    const { nowMs } = this.#world;
    this.#ticks = createTicks(schedule);
    // A record from the future comes from a wrong clock.
    this.#seenMs = lastMs === undefined || lastMs > nowMs + WRONG_CLOCK_MS ? 0 : lastMs;
    const missedMs = this.#see();
    const next = toInstantOrNull(this.#ticks.next(nowMs)) ?? undefined;
    const line = { event: 'scheduled', job: this.name, next, missed: toInstantOrNull(missedMs) ?? undefined };
    this.#world.outside.log.info(line, `${this.name}: next run ${next}`);
    // Also one of this second: a run of it may have died with the daemon before.
    if (missedMs !== undefined) void this.#claim(missedMs, 'catch-up');
  }

  /** The newest tick that was not seen before; it counts as seen now. */
  #see(): number | undefined {
    const { nowMs, outside } = this.#world;
    if (this.#seenMs > nowMs + WRONG_CLOCK_MS) this.#seenMs = nowMs - NOTICED_MS;
    const afterMs = Math.max(this.#seenMs, nowMs - LOOKBACK_MS);
    this.#seenMs = Math.max(this.#seenMs, nowMs);
    const hasSession = (tickMs: number) => isSession(formatWallDate(tickMs), outside.calendar);
    return this.#ticks?.newest(afterMs, nowMs, hasSession) ?? this.#ticks?.newest(afterMs, nowMs);
  }

  async #claimDue(): Promise<void> {
    const tickMs = this.#see();
    if (tickMs === undefined) return;
    await this.#claim(tickMs, this.#world.nowMs - tickMs <= ON_TIME_MS ? 'scheduled' : 'catch-up');
  }

  /** Runs the tick, unless the schedule is shared, and another daemon has it. */
  async #claim(tickMs: number, reason: 'scheduled' | 'catch-up'): Promise<void> {
    const { coordinator, log } = this.#world.outside;
    try {
      const isShared = this.schedule?.distributed && coordinator;
      if (isShared && !(await coordinator.claim({ job: this.name, dueAtMs: tickMs }))) this.#dropRetry();
      else this.admit({ tickMs, reason });
    } catch (error) {
      // It is still owed: a later look sees it again.
      this.#seenMs = Math.min(this.#seenMs, tickMs - 1);
      this.#claimFailedMs = this.#world.nowMs;
      const failure = describeError(error);
      log.error({ event: 'claim-failed', job: this.name, reason: failure }, `${this.name}: ${failure}`);
    }
  }

  /** Whether it runs whatever the status says. */
  #isSure({ tickMs, reason, asked }: DueRun): boolean {
    const isDecided = asked !== undefined || reason === 'retry' || reason === 'gap';
    return isDecided || isSession(formatWallDate(tickMs), this.#world.outside.calendar);
  }

  /** What follows from the end of a run. */
  #follow({ due, isTick }: JobRun, { outcome, record, unsent }: EndedRun): void {
    const { nowMs, outside, isStopping } = this.#world;
    // After a stop, another daemon takes over an interrupted run, or the next start catches it up.
    if (isStopping && outcome !== 'done') return;
    const seconds = this.schedule?.retrySeconds ?? null;
    const atMs = nowMs + (seconds ?? 0) * 1000;
    if (isTick) {
      const canRetry = seconds !== null && !isStopping && isOwed({ outcome, has_open: record?.has_open ?? false });
      // A tick that came during the run serves as the retry.
      if (canRetry && !this.#due && atMs < (this.#ticks?.next(nowMs) ?? 0)) {
        const at = toInstant(atMs);
        this.#due = { ...due, reason: 'retry', sinceMs: atMs };
        outside.log.info({ event: 'retry-planned', job: this.name, at }, `${this.name}: next retry at ${at}`);
      } else this.#settle(due);
      if (!this.isRemoved) this.alerts.died = unsent ?? this.alerts.died;
    }
    // The run came to its end, so an earlier crash is over.
    if (unsent === undefined && record?.command === 'run' && record.error === null) this.alerts.died = undefined;
    if (due.reason !== 'stage' && !this.isRemoved && !isStopping) void this.status.refresh();
  }

  #dropRetry(): void {
    if (this.#due?.reason !== 'retry') return;
    this.#settle(this.#due);
    this.#due = undefined;
  }

  /** No daemon needs to run this tick any more. Does nothing if the tick is not held. */
  #settle({ tickMs: dueAtMs }: DueRun): void {
    const { name: job } = this;
    if (!this.#held.delete(dueAtMs)) return;
    const complete = async () => await this.#world.outside.coordinator?.complete({ job, dueAtMs });
    // If it fails, the lease will expire, and another daemon runs the finished tick again, which costs a request.
    void this.#world.attempt('warn', { event: 'complete-failed', job }, complete);
  }
}

function refuse(text: string): AskAnswer {
  return { outcome: 'refused', text };
}

function isSame(a: JobSchedule, b: JobSchedule): boolean {
  return a.cron === b.cron && a.timezone === b.timezone && a.distributed === b.distributed;
}
