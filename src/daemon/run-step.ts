/**
 * Waiting and active runs. Pure. Invariant: at most one run per job and `maxRuns` in total; `run-order.ts` chooses the
 * job for a free place. A run that takes longer than its job file allows is stopped.
 */
import { type RunOutcome, whyFailed } from '../state/run-record.ts';
import { describeTimeout, logEnd } from './end-text.ts';
import type { DaemonEvent } from './event.ts';
import type { EndedRun } from './job-view.ts';
import type { NextState } from './next-state.ts';
import { chooseNext } from './run-order.ts';
import { chooseStaging, endStaging, listStaging } from './stage-step.ts';
import { type DueRun, expiryOf, isStaging, type RunningRun, runTimeoutMs } from './state.ts';
import { admit, endAsked, endRun } from './tick-step.ts';

/**
 * Run time is measured in sleeps of at most this long. So neither a clock change nor a sleeping laptop ends a run, and
 * a time-out of weeks does not overflow a timer.
 */
const WORK_SLICE_MS = 60_000;

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

/** Starts waiting runs while there are free places. */
export function fillPlaces(turn: NextState): void {
  for (;;) {
    const runs = [...turn.jobs].flatMap(([job, { run }]) => (run ? [{ job, ...run }] : []));
    const running = runs.filter(({ phase }) => phase === 'running').length;
    if (turn.isStopping) return;
    const waiting = runs.flatMap((run) =>
      run.phase === 'waiting' ? [{ job: run.job, due: run.due, tickMs: run.due.tickMs, sinceMs: run.sinceMs }] : [],
    );
    // Their exports need the places and the requests.
    const isOwed = [...turn.jobs].some(([, job]) => job.next !== undefined && isStaging(job));
    if (waiting.length > 0 || isOwed) for (const job of listStaging(turn)) stopRun(turn, job, 'asked');
    const next = chooseNext(waiting, (job) => expiryOf(turn.job(job)), turn.nowMs);
    if (!next || running >= turn.rules.maxRuns) return;
    startRun(turn, next.due);
  }
}

function startRun(turn: NextState, due: DueRun): void {
  const runId = turn.rules.newRunId();
  turn.change(due.job, {
    run: {
      phase: 'running',
      due,
      runId,
      startedAtMs: turn.nowMs,
      isStarted: false,
      workedMs: 0,
      stop: undefined,
      logFile: undefined,
      record: null,
    },
  });
  turn.do({ kind: 'start-run', due, runId });
}

/** Stages the running session of a job, if that is due and no run is. */
export function stageNext(turn: NextState): void {
  const job = chooseStaging(turn);
  if (job === undefined) return;
  turn.change(job, { stagedAtMs: turn.nowMs });
  startRun(turn, { job, reason: 'stage', tickMs: turn.nowMs });
}

export function noteStarted(
  turn: NextState,
  { job, runId, logFile }: Extract<DaemonEvent, { kind: 'run-started' }>,
): void {
  const run = findRun(turn, job, runId);
  if (!run) return;
  const { reason, tickMs } = run.due;
  const level = reason === 'stage' ? 'debug' : 'info';
  // With a shared schedule, this shows which daemon ran which tick.
  const tick = new Date(tickMs).toISOString();
  turn.log[level]({ event: 'started', job, run: runId, reason, tick, logFile }, `${job}: started (${reason})`);
  turn.change(job, { run: { ...run, isStarted: true, logFile } });
  // It was stopped during its start.
  if (run.stop) turn.do({ kind: 'stop-run', job });
  else countWork(turn, job, run);
}

export function noteWork(turn: NextState, { job, runId, ms }: Extract<DaemonEvent, { kind: 'run-worked' }>): void {
  const run = findRun(turn, job, runId);
  // It was already stopped for another reason.
  if (!run || run.stop) return;
  const worked = { ...run, workedMs: run.workedMs + ms };
  turn.change(job, { run: worked });
  const state = turn.job(job);
  const timeoutMs = state ? runTimeoutMs(state) : Number.POSITIVE_INFINITY;
  if (worked.workedMs < timeoutMs) {
    countWork(turn, job, worked);
    return;
  }
  turn.log.warn({ event: 'run-timeout', job, run: runId, timeoutMs }, `${job}: stopped, because it took too long`);
  stopRun(turn, job, 'timeout');
}

/** Asks the job's run to stop. A run that only waits is dropped. */
export function stopRun(turn: NextState, name: string, why: NonNullable<RunningRun['stop']>): void {
  const run = turn.job(name)?.run;
  if (run?.phase !== 'running') {
    turn.change(name, { run: undefined });
    return;
  }
  turn.change(name, { run: { ...run, stop: run.stop ?? why } });
  if (run.isStarted) turn.do({ kind: 'stop-run', job: name });
}

export function noteEnd(
  turn: NextState,
  { job, runId, end, record }: Extract<DaemonEvent, { kind: 'run-ended' }>,
): void {
  const run = findRun(turn, job, runId);
  const state = turn.job(job);
  if (!run || !state) return;
  const { code, signal } = end;
  const came = record?.outcome ?? (code === undefined ? undefined : OUTCOMES[code]) ?? 'died';
  const isTimedOut = run.stop === 'timeout' && CUT_SHORT.has(came);
  // Stopped before its handler existed: counts as interrupted, so it is not retried.
  const outcome = isTimedOut ? 'timed-out' : run.stop && came === 'died' ? 'interrupted' : came;
  const error = record ? whyFailed(record) : end.error;
  const ended: EndedRun = {
    runId,
    reason: run.due.reason,
    finishedAtMs: turn.nowMs,
    outcome,
    code,
    signal,
    record,
    error: isTimedOut ? describeTimeout(runTimeoutMs(state)) : error,
    logFile: run.logFile,
  };
  turn.do({ kind: 'record-end', job, run: ended });
  if (run.due.reason === 'stage') {
    const { next } = state;
    endStaging(turn, job, run, came === 'done' ? undefined : (error?.message ?? came));
    turn.change(job, { next: undefined });
    if (next) admit(turn, next);
    return;
  }
  logEnd(turn.log, job, ended);
  if (run.due.asked) {
    endAsked(turn, run.due, ended);
    return;
  }
  const isCrash = (came === 'died' || came === 'failed') && !record && error === null;
  endRun(turn, run.due, ended, isTimedOut || (!run.stop && isCrash));
}

/** Uses the time-out of the current job file. */
function countWork(turn: NextState, job: string, run: RunningRun): void {
  const state = turn.job(job);
  const leftMs = (state ? runTimeoutMs(state) : Number.POSITIVE_INFINITY) - run.workedMs;
  const ms = Math.max(0, Math.min(WORK_SLICE_MS, leftMs));
  turn.later(ms, { kind: 'run-worked', job, runId: run.runId, ms });
}

/** The active run, if it has this id. */
function findRun(turn: NextState, job: string, runId: string): RunningRun | undefined {
  const run = turn.job(job)?.run;
  return run?.phase === 'running' && run.runId === runId ? run : undefined;
}
