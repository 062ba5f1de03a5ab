/**
 * The runs that wait and those that go on. Invariant: one of a job, and so many at once; a place that falls free goes to
 * the job that `run-order.ts` says. One that is asked to stop, by whomever, is killed when it takes too long.
 */
import type { Clock } from '../core/clock.ts';
import { describeError } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import { describeTimeout, logEnd } from './end-text.ts';
import { chooseNext, type Waiting } from './run-order.ts';
import type { RunProcess, RunProcessEnd } from './run-process.ts';
import { untilTimeout } from './run-timeout.ts';
import { killLate } from './stop.ts';
import type { FinishedRun, RunReason, RunView } from './view.ts';

export interface DueRun {
  readonly job: string;
  readonly reason: RunReason;
  /** The tick that it is for. */
  readonly tickMs: number;
}

export interface RunsDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly maxRuns: number;
  readonly newRunId: () => string;
  readonly expiryOf: (job: string) => number;
  /** How long a run of the job may take, milliseconds; infinite where it may take as long as it wants. */
  readonly timeoutOf: (job: string) => number;
  readonly startRun: (due: DueRun, runId: string) => Promise<RunProcess>;
  /** `isUntold`: it was killed by no doing of the daemon, or timed out, so it could tell nobody. */
  readonly onEnd: (due: DueRun, run: FinishedRun, isUntold: boolean) => void;
}

export interface Runs {
  /** `false` when the job waits or runs already. */
  add(due: DueRun): boolean;
  has(job: string): boolean;
  /** Takes it from those that wait, and stops it when it goes on. */
  cancel(job: string): void;
  /** Takes it from those that wait. */
  drop(job: string): DueRun | undefined;
  waitingSince(job: string): number | undefined;
  running(job: string): Omit<RunView, 'progress'> | undefined;
  names(): readonly string[];
  /** Asks every run to stop, and starts none from now on. */
  stop(): void;
  kill(): void;
  untilIdle(): Promise<void>;
}

interface Going extends Omit<RunView, 'progress'> {
  process: RunProcess | undefined;
  isStopped: boolean;
  /** The time-out that was over when it was stopped, where that was why. */
  timedOutMs: number | undefined;
  /** Aborts at its end. */
  readonly over: AbortController;
  ended: Promise<void>;
}

/** Jobs with the same time in their schedules come to the queue within less. */
const GATHER_MS = 100;

export function createRuns(deps: RunsDeps): Runs {
  const { clock, log } = deps;
  const waiting = new Map<string, DueRun & Waiting>();
  const going = new Map<string, Going>();
  let isStopping = false;

  const startNext = () => {
    while (!isStopping && going.size < deps.maxRuns) {
      const next = chooseNext([...waiting.values()], deps.expiryOf, clock.now());
      if (!next) return;
      waiting.delete(next.job);
      const startedAtMs = clock.now();
      const run: Going = {
        ...{ runId: deps.newRunId(), reason: next.reason, startedAtMs },
        ...{ process: undefined, isStopped: false, timedOutMs: undefined },
        ...{ over: new AbortController(), ended: Promise.resolve() },
      };
      going.set(next.job, run);
      run.ended = carryOut(next, run).finally(startNext);
    }
  };
  const carryOut = async (due: DueRun, run: Going): Promise<void> => {
    const { job, reason } = due;
    const { runId } = run;
    let end: RunProcessEnd;
    let logFile: string | undefined;
    try {
      const process = await deps.startRun(due, runId);
      run.process = process;
      logFile = process.logFile;
      // Where daemons share a schedule, this tells which of them had which tick.
      const tick = new Date(due.tickMs).toISOString();
      log.info({ event: 'started', job, run: runId, reason, tick, logFile }, `${job}: started (${reason})`);
      // Stopped while it was being started.
      if (run.isStopped) stopRun(run);
      else void stopWhenTimedOut(job, run);
      end = await process.done;
    } catch (error) {
      const message = describeError(error);
      end = { ...NO_END, error: { code: 'START_FAILED', message } };
    }
    run.over.abort();
    const { hasSpoken, ...came } = end;
    const isTimedOut = run.timedOutMs !== undefined && CUT_SHORT.has(came.outcome);
    // One that was asked to stop before it could listen: nobody tries that again.
    const outcome = isTimedOut ? 'timed-out' : run.isStopped && came.outcome === 'died' ? 'interrupted' : came.outcome;
    const error = isTimedOut ? describeTimeout(run.timedOutMs ?? 0) : came.error;
    const times = { startedAtMs: run.startedAtMs, finishedAtMs: clock.now() };
    const finished = { runId, reason, ...times, ...came, outcome, error, logFile };
    logEnd(log, job, finished);
    const isCrash = came.outcome === 'failed' && !hasSpoken;
    const hasVanished = !run.isStopped && (isCrash || (came.outcome === 'died' && came.error === undefined));
    going.delete(job);
    deps.onEnd(due, finished, isTimedOut || hasVanished);
  };
  const stopRun = (run: Going): void => {
    const { process, over } = run;
    run.isStopped = true;
    if (!process) return;
    process.stop();
    void killLate([process], { clock, ended: over.signal });
  };
  const stopWhenTimedOut = async (job: string, run: Going): Promise<void> => {
    const timedOutMs = await untilTimeout({ clock, timeoutMs: () => deps.timeoutOf(job), ended: run.over.signal });
    // Whoever stopped it before has another reason.
    if (timedOutMs === undefined || run.isStopped) return;
    log.warn(
      { event: 'run-timeout', job, run: run.runId, timeoutMs: timedOutMs },
      `${job}: takes too long, is stopped`,
    );
    run.timedOutMs = timedOutMs;
    stopRun(run);
  };
  return {
    add(due) {
      if (isStopping || waiting.has(due.job) || going.has(due.job)) return false;
      waiting.set(due.job, { ...due, sinceMs: clock.now() });
      // After whatever else is due at this instant has been added: timers of one instant fire one after another.
      void clock.sleep(GATHER_MS).then(startNext);
      return true;
    },
    has: (job) => waiting.has(job) || going.has(job),
    cancel(job) {
      waiting.delete(job);
      const run = going.get(job);
      if (run) stopRun(run);
    },
    drop(job) {
      const dropped = waiting.get(job);
      waiting.delete(job);
      return dropped;
    },
    waitingSince: (job) => waiting.get(job)?.sinceMs,
    running: (job) => going.get(job),
    names: () => [...going.keys()],
    stop() {
      isStopping = true;
      waiting.clear();
      for (const run of going.values()) stopRun(run);
    },
    kill() {
      for (const { process } of going.values()) process?.kill();
    },
    async untilIdle() {
      while (going.size > 0) await Promise.all([...going.values()].map(({ ended }) => ended));
    },
  };
}

/** Ends that a stop brings about; a run that came to another end before it heard of the stop has that one. */
const CUT_SHORT: ReadonlySet<FinishedRun['outcome']> = new Set(['interrupted', 'died', 'failed']);

const NO_END: RunProcessEnd = {
  outcome: 'died',
  code: undefined,
  signal: undefined,
  result: undefined,
  error: undefined,
  hasSpoken: false,
};
