/**
 * Waiting and active runs. Invariant: at most one run per job and `maxRuns` in total; a date that expires sooner is
 * fetched first, but after an hour of waiting, no job that came later goes first, so jobs whose dates never expire do
 * not starve. A run that takes longer than its job file allows is stopped, and killed if it does not listen. Staging of
 * the running session gives way: none starts while any run is active or waiting, and it is stopped when one is due; its
 * pages stay staged, and the next tick fetches what it left.
 */
import { MINIMUM_DATA_DELAY_MINUTES } from '../api-contract/published-limits.ts';
import { type CalendarOverride, isSession, OPEN_SECOND } from '../calendar/session.ts';
import { formatSecond, formatWallClock } from '../calendar/wall-clock.ts';
import { describeError } from '../core/errors.ts';
import { explainAbort } from '../core/liveness.ts';
import { createRunId } from '../core/run-id.ts';
import { formatDuration } from '../core/units.ts';
import type { Job } from '../job/job.ts';
import { settledAt } from '../plan/dates.ts';
import { isFailed, type RunOutcome, type RunRecord, sumSealed, whyFailed } from '../state/run-record.ts';
import { type ChildEnd, readFailure, stopInTime } from './run-process.ts';
import { type DaemonJob, type DaemonState, type DueRun, isStaging, pendingOf, type RunningRun } from './state.ts';

/**
 * Run time is measured in sleeps of at most this long. So neither a clock change nor a sleeping laptop ends a run, and
 * a time-out of weeks does not overflow a timer.
 */
const WORK_SLICE_MS = 60_000;
/** Ticks of jobs with the same scheduled time arrive within this, so that the one that expires first can go first. */
const GATHER_MS = 100;
/** How long a run waits for the first status of its job: a store may hang. */
const ORDER_PATIENCE_MS = 60_000;
/** Longer than the nightly export of a job, and far shorter than a day, the least time that a date has left. */
export const MAX_WAIT_MS = 3_600_000;
/**
 * Ticks missed before a start arrive within this time: they count as simultaneous, and expiry orders them however long
 * they wait.
 */
const ARRIVAL_MS = 60_000;

/** Outcomes that a stop causes; any other outcome was reached before the stop took effect, and stands. */
const CUT_SHORT: ReadonlySet<RunOutcome> = new Set(['interrupted', 'died', 'failed']);

/** Exit codes, for a run that could not record its end. */
const OUTCOMES: Readonly<Record<number, RunOutcome>> = {
  0: 'done',
  1: 'failed',
  2: 'usage',
  3: 'incomplete',
  4: 'active',
  130: 'interrupted',
};

/** The end of a run as the daemon saw it. */
export interface EndedRun {
  readonly due: DueRun;
  readonly outcome: RunOutcome;
  /** What the run itself recorded; `undefined` if it recorded no end. */
  readonly record: RunRecord | undefined;
  /** Why operators get an alert from the daemon: the run died, not stopped by it, or took too long, and could send none. */
  readonly unsent: string | undefined;
}

/** @param reload reads the job files again: one may have become broken */
export function createRunPlaces(
  state: DaemonState,
  reload: () => Promise<void>,
  onEnd: (job: DaemonJob, ended: EndedRun) => void,
) {
  const going = new Set<Promise<void>>();
  return { wait, fillSoon, fill, stage, stop, untilIdle };

  /** Lets the job wait for a free place. */
  function wait(job: DaemonJob, due: DueRun): void {
    job.run = { phase: 'waiting', due, sinceMs: state.nowMs };
    fillSoon();
    state.later(ORDER_PATIENCE_MS, () => fill());
  }

  /** Fills the places when all that is due together waits. */
  function fillSoon(): void {
    state.later(GATHER_MS, () => fill());
  }

  /** Starts waiting runs while there are free places. */
  function fill(): void {
    const jobs = [...state.jobs.values()];
    for (;;) {
      if (state.isStopping) return;
      const waiting = jobs.flatMap((job) =>
        job.run?.phase === 'waiting' ? [{ job, due: job.run.due, sinceMs: job.run.sinceMs }] : [],
      );
      // Their exports need the places and the requests.
      if (waiting.length > 0 || jobs.some((job) => job.next && isStaging(job))) {
        for (const job of jobs) if (isStaging(job)) stop(job, 'asked');
      }
      // What was missed together waits until it is known which of it expires first.
      const isUnordered = waiting.some(
        ({ job, due, sinceMs }) =>
          due.reason === 'catch-up' && !(job.status || job.statusFault) && state.nowMs - sinceMs < ORDER_PATIENCE_MS,
      );
      const ordered = waiting
        .filter(({ due }) => !isUnordered || due.reason !== 'catch-up')
        .map((each) => ({ ...each, tickMs: each.due.tickMs, expiresAtMs: expiryOf(each.job) }));
      const running = jobs.filter(({ run }) => run?.phase === 'running').length;
      const next = chooseNext(ordered, state.nowMs);
      if (!next || running >= state.outside.maxRuns) return;
      start(next.job, next.due);
    }
  }

  /** Starts the staging that has waited longest, if one is due and nothing else is to be done. */
  function stage(): void {
    const { nowMs, isStopping, calendar } = state;
    const jobs = [...state.jobs.values()];
    if (isStopping || jobs.some(({ run, next }) => run || next)) return;
    const [job] = jobs
      .filter(({ filed, isRemoved, stagedAtMs }) => {
        const everyMs = (filed.job.schedule?.stageSeconds ?? 0) * 1000;
        if (everyMs === 0 || isRemoved || !canStage(filed.job, nowMs, calendar)) return false;
        return Math.floor(nowMs / everyMs) !== Math.floor(stagedAtMs / everyMs);
      })
      .sort((a, b) => a.stagedAtMs - b.stagedAtMs);
    if (!job) return;
    job.stagedAtMs = nowMs;
    start(job, { reason: 'stage', tickMs: nowMs });
  }

  /** Asks the job's run to stop. A run that only waits is dropped. */
  function stop(job: DaemonJob, why: NonNullable<RunningRun['stop']>): void {
    if (job.run?.phase !== 'running') job.run = undefined;
    else if (!job.run.stop) {
      job.run.stop = why;
      stopProcess(job.run);
    }
  }

  async function untilIdle(): Promise<void> {
    while (going.size > 0) await Promise.all(going);
    await state.untilNoted();
  }

  function start(job: DaemonJob, due: DueRun): void {
    const { nowMs } = state;
    const run: RunningRun = {
      phase: 'running',
      due,
      runId: createRunId(nowMs),
      startedAtMs: nowMs,
      over: new AbortController(),
      stop: undefined,
      record: null,
    };
    job.run = run;
    const carried = carryOut(job, run).finally(() => going.delete(carried));
    going.add(carried);
  }

  async function carryOut(job: DaemonJob, run: RunningRun): Promise<void> {
    const { historyOf, startRun, notesOf, log } = state.outside;
    const { runId, due } = run;
    const { reason, tickMs, asked } = due;
    let end: Partial<ChildEnd> = {};
    let fault: RunRecord['error'] = null;
    try {
      const tick = new Date(tickMs).toISOString();
      // What staging leaves is owed by the next tick anyway; what a person asked for is no tick.
      const isTick = reason !== 'stage' && !asked;
      if (isTick) state.note(job.name, () => notesOf(job.name).unfinished.write({ due_at: tick }));
      await state.untilNoted();
      await reload();
      run.process = await startRun(job.filed, runId, due);
      const { logFile, done } = run.process;
      const level = reason === 'stage' ? 'debug' : 'info';
      // With a shared schedule, the tick shows which daemon ran which.
      const line = { event: 'started', job: job.name, run: runId, reason, tick, logFile };
      log[level](line, `${job.name}: started (${reason})`);
      if (run.stop) stopProcess(run);
      else void limit(job, run);
      end = await done;
    } catch (error) {
      fault = { code: 'START_FAILED', message: `the run could not be started: ${describeError(error)}` };
    }
    run.over.abort();
    const record = await historyOf(job.name).read(runId);
    // A killed run has recorded no end: this process does.
    const isEnded = record && record.outcome !== null && record.outcome !== 'died';
    finish(job, run, end, isEnded ? record : undefined, fault ?? readFailure(end));
  }

  /** Stops a run that takes longer than its current job file allows. */
  async function limit(job: DaemonJob, run: RunningRun): Promise<void> {
    const { clock, log } = state.outside;
    for (let workedMs = 0; !run.stop && !run.over.signal.aborted; ) {
      const timeoutMs = timeoutOf(job);
      if (workedMs >= timeoutMs) {
        const line = { event: 'run-timeout', job: job.name, run: run.runId, timeoutMs };
        log.warn(line, `${job.name}: stopped, because it took too long`);
        stop(job, 'timeout');
        return;
      }
      const ms = Math.min(WORK_SLICE_MS, timeoutMs - workedMs);
      await clock.sleep(ms, run.over.signal).catch(() => undefined); // It has ended.
      workedMs += ms;
    }
  }

  function stopProcess({ process, over }: RunningRun): void {
    if (process) void stopInTime([process], state.outside.clock, over.signal);
  }

  function finish(
    job: DaemonJob,
    run: RunningRun,
    { code, signal }: Partial<ChildEnd>,
    record: RunRecord | undefined,
    said: RunRecord['error'],
  ): void {
    const { runs, historyOf } = state.outside;
    const { due, runId } = run;
    const came = record?.outcome ?? OUTCOMES[code ?? Number.NaN] ?? 'died';
    const isTimedOut = run.stop === 'timeout' && CUT_SHORT.has(came);
    // Stopped before its handler existed: counts as interrupted, so it is not retried.
    const outcome = isTimedOut ? 'timed-out' : run.stop && came === 'died' ? 'interrupted' : came;
    const failed = record ? whyFailed(record) : said;
    const error = isTimedOut ? describeTimeout(timeoutOf(job)) : failed;
    const killed = signal ? { code: 'ENDED_BY_SIGNAL', message: `The process was ended by ${signal}.` } : null;
    state.note(job.name, async () => {
      await historyOf(job.name).settle(runId, { outcome, error: error ?? killed }, state.nowMs);
      await runs.refresh(state.jobs.keys());
    });
    job.run = undefined;
    const isCrash = (came === 'died' || came === 'failed') && !record && failed === null && !run.stop;
    const how = signal === undefined ? `ended with exit code ${code} without a message` : `was ended by ${signal}`;
    const logFile = run.process?.logFile;
    const words = [
      isTimedOut ? (error?.message ?? '') : `The run ${how}.`,
      explainAbort({ code, signal }),
      `Its schedule retries it.${logFile ? ` Its log: ${logFile}` : ''}`,
    ];
    const unsent = isTimedOut || isCrash ? words.filter(Boolean).join(' ') : undefined;
    if (due.reason === 'stage') logStaging(job.name, run, came === 'done' ? undefined : (failed?.message ?? came));
    else {
      const sealed = record && sumSealed(record);
      const line = {
        event: 'finished',
        job: job.name,
        run: runId,
        outcome,
        code,
        signal,
        error: error ?? undefined,
        sealed: sealed?.dates,
        rows: sealed?.rows,
        requests: record?.requests,
        reports: record?.reports.length,
        logFile,
      };
      const text = `${job.name}: ${outcome}${error ? `: ${error.code}: ${error.message}` : ''}`;
      state.outside.log[outcome === 'done' ? 'info' : isFailed(outcome) ? 'error' : 'warn'](line, text);
    }
    onEnd(job, { due, outcome, record, unsent });
    fill();
  }

  function logStaging(job: string, { runId: run, stop }: RunningRun, reason: string | undefined): void {
    const { log } = state.outside;
    if (reason === undefined || stop) log.debug({ event: 'staged', job, run }, `${job}: staging ended`);
    else log.warn({ event: 'stage-failed', job, run, reason }, `${job}: staging failed: ${reason}`);
  }
}

/** Whether a session of today is visible in part, and cannot be sealed yet. */
function canStage({ settleSeconds }: Job, nowMs: number, calendar: CalendarOverride): boolean {
  const visible = formatWallClock(nowMs - MINIMUM_DATA_DELAY_MINUTES * 60_000);
  const date = visible.slice(0, 10);
  if (!isSession(date, calendar) || visible < `${date} ${formatSecond(OPEN_SECOND)}`) return false;
  return nowMs < settledAt(date, { settleSeconds, calendar });
}

/** Time-out of the job's runs in its current file; infinite if there is none. */
function timeoutOf({ filed }: DaemonJob): number {
  return (filed.job.schedule?.timeoutSeconds ?? Number.POSITIVE_INFINITY) * 1000;
}

/** The error of a run that took longer than its job allows. */
function describeTimeout(timeoutMs: number) {
  return {
    code: 'RUN_TIMED_OUT',
    message: `The run took longer than ${formatDuration(timeoutMs)}, its schedule.timeout, and was stopped.`,
    hint: 'Its log shows what it waited for. If it just has a lot to do, raise `schedule.timeout`.',
  };
}

/** When the first pending date begins to leave the lookback, in milliseconds; infinite when none does. */
function expiryOf(job: DaemonJob): number {
  const expiries = (pendingOf(job) ?? []).map(({ begins_to_expire: at }) => Date.parse(at ?? ''));
  return Math.min(Number.POSITIVE_INFINITY, ...expiries.filter((ms) => !Number.isNaN(ms)));
}

export interface Waiting {
  /** Due time of its tick. */
  readonly tickMs: number;
  /** When it began to wait. */
  readonly sinceMs: number;
  /** When its first pending date begins to expire; infinite if none does. */
  readonly expiresAtMs: number;
}

/** @returns `undefined` when no job is waiting */
export function chooseNext<T extends Waiting>(waiting: readonly T[], nowMs: number): T | undefined {
  // A time in the future means that the clock was set back.
  const overdue = waiting.filter(({ sinceMs }) => Math.abs(nowMs - sinceMs) >= MAX_WAIT_MS);
  const byExpiry = (a: T, b: T) => compare(a.expiresAtMs, b.expiresAtMs) || a.tickMs - b.tickMs;
  const arrivalOf = ({ sinceMs }: T) => Math.floor(sinceMs / ARRIVAL_MS);
  if (overdue.length === 0) return [...waiting].sort(byExpiry)[0];
  return overdue.sort((a, b) => arrivalOf(a) - arrivalOf(b) || byExpiry(a, b))[0];
}

/** Infinities compare as equal. */
function compare(a: number, b: number): number {
  return a === b ? 0 : a - b;
}
