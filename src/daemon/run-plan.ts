/**
 * Turns ticks, and what people ask for, into runs; `ticks.ts` knows the schedule, `run-places.ts` starts the processes. A
 * tick is an instant of a job's schedule, a beat the regular look for due ones; a tick of a shared schedule is claimed by
 * the daemon that runs it; staging fetches what a running session has so far. Invariants: a tick is seen once, however the clock moves, and ends in
 * a run, in a day without a session, or in a log line that says why not; of several missed ticks only the newest counts,
 * and one with a session before others. A job has one run at a time, and a tick that comes during it waits for its end.
 * A tick of a shared schedule is held until it is finished. What a person asks for goes the way of a tick, but is
 * neither caught up, retried, claimed nor alerted. Nothing is started after the stop.
 *
 * Decides when the dataset status of a job is read again, by a child. Only one reading per job at a time. A reading in
 * progress may have begun before the change of interest, so a second request makes another one follow.
 */
import { LOOKBACK_DAYS } from '../api-contract/published-limits.ts';
import { isSession } from '../calendar/session.ts';
import { formatWallDate } from '../calendar/wall-clock.ts';
import { describeError, Fault } from '../core/errors.ts';
import type { RunOutcome } from '../state/run-record.ts';
import { createAlerts } from './alerts.ts';
import { createRunPlaces, type EndedRun } from './run-places.ts';
import {
  type Ask,
  type AskAnswer,
  type DaemonJob,
  type DaemonState,
  type DueRun,
  isBusy,
  isStaging,
  pendingOf,
  statusSchema,
} from './state.ts';
import { createTicks } from './ticks.ts';

/** A tick that was seen later than this was missed. */
const ON_TIME_MS = 5_000;
/** Timers wait no longer: between two beats none is needed, and a clock may be set. */
const MAX_ALARM_MS = 30_000;
const LOOKBACK_MS = LOOKBACK_DAYS * 86_400_000;
/** If the clock is set back by more than this, it was wrong before, and what was seen is forgotten. NTP steps are smaller. */
const WRONG_CLOCK_MS = 600_000;
/** A beat notices a clock change within this time; ticks since then count as new. */
const NOTICED_MS = 60_000;
/** A status younger than this is good enough to decide whether dates are pending. */
const STATUS_FRESH_MS = 60_000;
/** Outcomes that a retry may fix. It cannot fix a wrong job file or an incomplete date, but a held-back or open one. */
const RETRIED: readonly RunOutcome[] = ['failed', 'died', 'timed-out', 'active'];

export type RunPlan = ReturnType<typeof createRunPlan>;

/** @param reload reads the job files again */
export function createRunPlan(state: DaemonState, reload: () => Promise<void>) {
  const alerts = createAlerts(state);
  const statuses = createStatuses(state, (job) => {
    decide(job);
    places.fillSoon();
  });
  const places = createRunPlaces(state, reload, noteEnd);
  return { statuses, alerts, places, schedule, beat, admit, ask, loseClaim, dropRetry, settle, forgetTick };

  /**
   * Plans the job by the schedule of its file, and runs what was missed.
   * @param lastMs newest instant up to which the job is known to have run
   */
  function schedule(job: DaemonJob, lastMs: number | undefined): void {
    const { nowMs } = state;
    const { name, schedule } = job.filed.job;
    job.ticks = schedule && createTicks(schedule);
    job.armedMs = undefined;
    // A record from the future comes from a wrong clock.
    job.seenMs = lastMs === undefined || lastMs > nowMs + WRONG_CLOCK_MS ? 0 : lastMs;
    const missedMs = see(job);
    const tell = (ms: number | undefined) => (Number.isFinite(ms) ? new Date(ms ?? 0).toISOString() : undefined);
    const [next, missed] = [tell(job.ticks?.next(nowMs)), tell(missedMs)];
    state.outside.log.info({ event: 'scheduled', job: name, next, missed }, `${name}: next run ${next}`);
    // Also one of this second: a run of it may have died with the daemon before.
    if (missedMs !== undefined) void claim(job, missedMs, 'catch-up');
  }

  /** Looks for what is due. @returns when all ticks that were found are claimed */
  async function beat(): Promise<void> {
    const { nowMs, jobs } = state;
    const claims = [...jobs.values()].map((job) => look(job));
    for (const job of jobs.values()) {
      const { retry } = job;
      if (retry && retry.atMs <= nowMs) {
        job.retry = undefined;
        admit(job, retry.due);
      }
      alerts.look(job);
    }
    places.stage();
    statuses.refreshOldest(STATUS_IDLE_MS);
    await Promise.all(claims);
  }

  /** A tick for this daemon to run, or what a person asked for. */
  function admit(job: DaemonJob, due: DueRun): void {
    const { tickMs, reason } = due;
    if (state.jobs.get(job.name) !== job || state.isStopping) return;
    if (due.asked) {
      // It waited for staging to give way.
      places.wait(job, due);
      return;
    }
    const { schedule } = job.filed.job;
    if (schedule?.distributed) job.heldTicks.add(tickMs);
    // The schedule or its retries were removed from the file, so do not retry.
    if (reason === 'retry' && (schedule?.retrySeconds ?? null) === null) {
      endTick(job, due);
      return;
    }
    const isSure = reason === 'retry' || isSession(formatWallDate(tickMs), state.calendar);
    const deciding = job.run?.phase === 'deciding' ? job.run.due : undefined;
    if (isBusy(job) || (deciding && !isSure)) {
      if (isStaging(job)) {
        replaceStaging(job, due);
        return;
      }
      // The tick that is already running, found again after its file was gone for a moment: it stays held.
      if (job.run?.due.tickMs === tickMs) return;
      const line = { event: 'overlap', job: job.name };
      state.outside.log.warn(line, `${job.name} is due, but its last run has not ended`);
      if (isSure && reason !== 'retry') keepNext(job, due);
      else settle(job, due);
      return;
    }
    if (reason !== 'retry') dropRetry(job);
    // A tick that certainly runs replaces one that is still being decided.
    if (deciding) settle(job, deciding);
    if (isSure) {
      places.wait(job, due);
      return;
    }
    job.run = { phase: 'deciding', due };
    const readAtMs = job.status?.readAtMs ?? Number.NEGATIVE_INFINITY;
    if (Math.abs(state.nowMs - readAtMs) > STATUS_FRESH_MS) statuses.refresh(job);
    else decide(job);
  }

  function ask(ask: Ask): AskAnswer {
    const job = state.jobs.get(ask.job);
    if (!job || job.isRemoved) return refuse(`${ask.job} is not a job of this daemon.`);
    const { run, retry } = job;
    if (ask.kind === 'stop') {
      if (!run || run.phase === 'deciding') return refuse(`${job.name} has no run by this daemon to stop.`);
      const wasRunning = run.phase === 'running';
      places.stop(job, 'asked');
      if (!wasRunning && !run.due.asked) endTick(job, run.due);
      const text = `The run of ${job.name} ${wasRunning ? 'was asked to stop' : 'no longer waits'}.`;
      return { outcome: 'done', text };
    }
    const isRetry = ask.kind === 'retry' && retry !== undefined;
    const canReplace = !isRetry && isStaging(job) && !job.next;
    if (state.isStopping) return refuse('The daemon is stopping.');
    if (run && !canReplace) {
      const phase = run.phase === 'running' ? 'is running' : 'is about to run';
      return refuse(`${job.name} ${phase}: a job has one run at a time.`);
    }
    if (isRetry) {
      job.retry = undefined;
      admit(job, retry.due);
      return { outcome: 'started', text: `The retry of ${job.name} begins now.` };
    }
    const asked = ask.kind === 'retry' ? { command: 'run' as const, options: [] } : ask;
    const { command, options } = asked;
    const due = { reason: 'asked', tickMs: state.nowMs, asked: { command, options } } as const;
    if (canReplace) replaceStaging(job, due);
    else places.wait(job, due);
    return { outcome: 'started', text: `${command} of ${job.name} begins as soon as a slot is free.` };
  }

  /** Another daemon has taken over a tick that this one held. */
  function loseClaim(job: DaemonJob, tickMs: number): void {
    // Ignore a tick that was settled while its renewal was in progress.
    if (!job.heldTicks.delete(tickMs)) return;
    const line = { event: 'claim-lost', job: job.name };
    state.outside.log.warn(line, `${job.name}: another daemon has taken over its run`);
    if (job.retry?.due.tickMs === tickMs) job.retry = undefined;
    else if (job.next?.tickMs === tickMs) job.next = undefined;
    else if (job.run?.due.tickMs === tickMs) places.stop(job, 'asked');
  }

  function dropRetry(job: DaemonJob): void {
    const { retry } = job;
    job.retry = undefined;
    if (retry) settle(job, retry.due);
  }

  /** No daemon needs to run this tick any more. Does nothing if the tick is not held. */
  function settle({ name: job, heldTicks }: DaemonJob, { tickMs: dueAtMs }: DueRun): void {
    if (!heldTicks.delete(dueAtMs)) return;
    const complete = async () => await state.outside.coordinator?.complete({ job, dueAtMs });
    // If it fails, the lease will expire, and another daemon runs the finished tick again, which costs a request.
    void state.attempt('warn', { event: 'complete-failed', job }, complete);
  }

  /** A restart need not catch up the job's tick. */
  function forgetTick({ name }: DaemonJob): void {
    state.note(name, () => state.outside.notesOf(name).unfinished.remove());
  }

  /** The newest tick that was not seen before; it counts as seen now. */
  function see(job: DaemonJob): number | undefined {
    const { nowMs } = state;
    if (job.seenMs > nowMs + WRONG_CLOCK_MS) job.seenMs = nowMs - NOTICED_MS;
    const afterMs = Math.max(job.seenMs, nowMs - LOOKBACK_MS);
    job.seenMs = Math.max(job.seenMs, nowMs);
    const hasSession = (tickMs: number) => isSession(formatWallDate(tickMs), state.calendar);
    const tickMs = job.ticks?.newest(afterMs, nowMs, hasSession) ?? job.ticks?.newest(afterMs, nowMs);
    arm(job);
    return tickMs;
  }

  /** Looks again when the next tick is due. */
  function arm(job: DaemonJob): void {
    const { nowMs } = state;
    const nextMs = job.ticks?.next(nowMs) ?? Number.POSITIVE_INFINITY;
    if (nextMs - nowMs > MAX_ALARM_MS || nextMs === job.armedMs) return;
    job.armedMs = nextMs;
    state.later(nextMs - nowMs, () => {
      if (job.armedMs !== nextMs) return;
      job.armedMs = undefined;
      void look(job);
    });
  }

  async function look(job: DaemonJob): Promise<void> {
    const tickMs = see(job);
    if (tickMs === undefined) return;
    await claim(job, tickMs, state.nowMs - tickMs <= ON_TIME_MS ? 'scheduled' : 'catch-up');
  }

  /** Runs the tick, unless the schedule is shared, and another daemon has it. */
  async function claim(job: DaemonJob, tickMs: number, reason: 'scheduled' | 'catch-up'): Promise<void> {
    if (!job.filed.job.schedule?.distributed) {
      admit(job, { tickMs, reason });
      return;
    }
    const { coordinator, log } = state.outside;
    try {
      const isMine = (await coordinator?.claim({ job: job.name, dueAtMs: tickMs })) ?? true;
      if (isMine) admit(job, { tickMs, reason });
      else dropRetry(job);
    } catch (error) {
      // It is still owed: the next beat sees it again.
      job.seenMs = Math.min(job.seenMs, tickMs - 1);
      const failure = describeError(error);
      log.error({ event: 'claim-failed', job: job.name, reason: failure }, `${job.name}: ${failure}`);
    }
  }

  /** On a day without a session, only pending dates justify a process. The job's status has just been read. */
  function decide(job: DaemonJob): void {
    if (job.run?.phase !== 'deciding') return;
    const { due } = job.run;
    job.run = undefined;
    // If the status is unknown, a run that finds nothing is cheaper than a lost date.
    if (!job.isRemoved && pendingOf(job)?.length !== 0) {
      places.wait(job, { ...due, reason: 'gap' });
      return;
    }
    settle(job, due);
    if (job.isRemoved) return;
    const text = `${job.name}: no session on ${formatWallDate(due.tickMs)}`;
    state.outside.log.info({ event: 'no-session', job: job.name }, text);
  }

  function noteEnd(job: DaemonJob, ended: EndedRun): void {
    const { due, outcome } = ended;
    const { next } = job;
    job.next = undefined;
    const isTick = due.reason !== 'stage' && !due.asked;
    if (state.isStopping) {
      // After a stop, another daemon takes over an interrupted run, or the next start catches it up; a completed one is
      // over.
      if (isTick && outcome === 'done') endTick(job, due);
      return;
    }
    if (job.isRemoved) {
      if (isTick) endTick(job, due);
      if (next) settle(job, next);
      if (!isBusy(job)) state.jobs.delete(job.name);
      return;
    }
    if (isTick) endOfTick(job, ended, next !== undefined);
    else if (due.asked?.command === 'run' && outcome === 'done') {
      alerts.drop(job, 'died');
      // It did what the retry was for.
      if (job.retry) endTick(job, job.retry.due);
      job.retry = undefined;
    }
    if (due.reason !== 'stage') statuses.refresh(job);
    if (next) admit(job, next);
  }

  /** @param hasNext a tick that came during the run serves as the retry */
  function endOfTick(job: DaemonJob, { due, outcome, record, unsent }: EndedRun, hasNext: boolean): void {
    const { nowMs } = state;
    const seconds = job.filed.job.schedule?.retrySeconds ?? null;
    const canRetry = seconds !== null && !hasNext && (RETRIED.includes(outcome) || record?.has_open);
    const atMs = nowMs + (seconds ?? 0) * 1000;
    if (canRetry && atMs < (job.ticks?.next(nowMs) ?? 0)) {
      const at = new Date(atMs).toISOString();
      job.retry = { atMs, due: { ...due, reason: 'retry' } };
      const line = { event: 'retry-planned', job: job.name, at };
      state.outside.log.info(line, `${job.name}: next retry at ${at}`);
    } else endTick(job, due);
    if (unsent !== undefined) alerts.owe(job, 'died', unsent);
    // The run came to its end, so an earlier crash is over.
    else if (outcome === 'done' || record?.error === null) alerts.drop(job, 'died');
  }

  /** The tick is finished: neither another daemon nor a restart needs to run it. */
  function endTick(job: DaemonJob, due: DueRun): void {
    forgetTick(job);
    settle(job, due);
  }

  function replaceStaging(job: DaemonJob, due: DueRun): void {
    keepNext(job, due);
    // There the staging is stopped.
    state.later(0, () => places.fill());
  }

  /** Keeps only the newest tick: one run exports everything that is not sealed. */
  function keepNext(job: DaemonJob, due: DueRun): void {
    const { next } = job;
    const isNewest = next === undefined || next.tickMs <= due.tickMs;
    if (isNewest) job.next = due;
    const older = isNewest ? next : due;
    if (older) settle(job, older);
  }
}

function refuse(text: string): AskAnswer {
  return { outcome: 'refused', text };
}

/** Maximum age of a status that nobody views, and of one that someone does. */
const STATUS_IDLE_MS = 900_000;
export const STATUS_SHOWN_MS = 60_000;

/** @param onRead called when a reading ended, also if it failed, and none follows */
function createStatuses(state: DaemonState, onRead: (job: DaemonJob) => void) {
  return { refresh, refreshOldest };

  function refresh(job: DaemonJob): void {
    if (job.isReading) job.isAskedAgain = true;
    else void read(job);
  }

  /** Reads the oldest status that is older than this, unless a reading is in progress. */
  function refreshOldest(olderThanMs: number): void {
    const jobs = [...state.jobs.values()];
    if (jobs.some(({ isReading }) => isReading)) return;
    // A time in the future means that the clock was set back.
    const ageOf = ({ statusTriedAtMs }: DaemonJob) => Math.abs(state.nowMs - statusTriedAtMs);
    const [oldest] = jobs.sort((a, b) => (ageOf(a) === ageOf(b) ? 0 : ageOf(b) - ageOf(a)));
    if (oldest && ageOf(oldest) >= olderThanMs) refresh(oldest);
  }

  async function read(job: DaemonJob): Promise<void> {
    const { commands, log } = state.outside;
    job.isReading = true;
    do {
      job.isAskedAgain = false;
      try {
        const [document] = await commands.read<readonly unknown[]>(['status', job.filed.path]);
        const kept = statusSchema.safeParse(document);
        if (!kept.success) throw new Fault('CHILD_ANSWER_INVALID', 'flowdrop status printed no status document');
        job.status = { document: kept.data, readAtMs: state.nowMs };
        job.statusFault = undefined;
      } catch (error) {
        const reason = describeError(error);
        // Logs once, not at every reading of an unavailable store.
        if (job.statusFault === undefined) {
          log.warn({ event: 'status-failed', job: job.name, reason }, `${job.name}: ${reason}`);
        }
        job.statusFault = reason;
      }
      job.statusTriedAtMs = state.nowMs;
    } while (job.isAskedAgain);
    job.isReading = false;
    onRead(job);
  }
}
