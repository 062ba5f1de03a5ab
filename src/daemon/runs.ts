/**
 * The runs that wait and those that go on. Invariant: one of a job, and so many at once; a place that falls free goes to
 * the job whose pending dates expire soonest, then to the one that has been due longest.
 */
import type { Clock } from '../core/clock.ts';
import { describeError } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import { type RunEnd, type RunProcess, summarizeRun } from './run-process.ts';
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
  readonly startRun: (due: DueRun, runId: string) => Promise<RunProcess>;
  /** `hasVanished`: it ended by no doing of its own or of the daemon. */
  readonly onEnd: (due: DueRun, run: FinishedRun, hasVanished: boolean) => void;
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

interface Waiting extends DueRun {
  readonly sinceMs: number;
}

interface Going extends Omit<RunView, 'progress'> {
  process: RunProcess | undefined;
  isStopped: boolean;
  ended: Promise<void>;
}

/** Jobs with the same time in their schedules come to the queue within less. */
const GATHER_MS = 100;

export function createRuns(deps: RunsDeps): Runs {
  const { clock, log } = deps;
  const waiting = new Map<string, Waiting>();
  const going = new Map<string, Going>();
  let isStopping = false;

  const startNext = () => {
    while (!isStopping && going.size < deps.maxRuns) {
      const next = chooseNext([...waiting.values()], deps.expiryOf);
      if (!next) return;
      waiting.delete(next.job);
      const startedAtMs = clock.now();
      const run: Going = {
        ...{ runId: deps.newRunId(), reason: next.reason, startedAtMs },
        ...{ process: undefined, isStopped: false, ended: Promise.resolve() },
      };
      going.set(next.job, run);
      run.ended = carryOut(next, run).finally(startNext);
    }
  };
  const carryOut = async (due: DueRun, run: Going): Promise<void> => {
    const { job, reason } = due;
    const { runId } = run;
    let end: RunEnd;
    let logFile: string | undefined;
    try {
      const process = await deps.startRun(due, runId);
      run.process = process;
      logFile = process.logFile;
      log.info({ event: 'started', job, run: runId, reason, logFile }, `${job}: started (${reason})`);
      // Stopped while it was being started.
      if (run.isStopped) process.stop();
      end = await process.done;
    } catch (error) {
      const message = describeError(error);
      end = { ...NO_END, error: { code: 'START_FAILED', message } };
    }
    const { hasSpoken, ...came } = end;
    // One that was asked to stop before it could listen: nobody tries that again.
    const outcome = run.isStopped && came.outcome === 'died' ? 'interrupted' : came.outcome;
    const times = { startedAtMs: run.startedAtMs, finishedAtMs: clock.now() };
    const finished = { runId, reason, ...times, ...came, outcome, logFile };
    logEnd(log, job, finished);
    const isCrash = came.outcome === 'failed' && !hasSpoken;
    going.delete(job);
    deps.onEnd(due, finished, !run.isStopped && (isCrash || (came.outcome === 'died' && came.error === undefined)));
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

const NO_END: RunEnd = {
  outcome: 'died',
  code: undefined,
  signal: undefined,
  result: undefined,
  error: undefined,
  hasSpoken: false,
};

function stopRun(run: Going): void {
  run.isStopped = true;
  run.process?.stop();
}

/** The run that a free place goes to. Pure. */
function chooseNext(waiting: readonly Waiting[], expiryOf: (job: string) => number): Waiting | undefined {
  const order = (a: Waiting, b: Waiting) => {
    const [first, second] = [expiryOf(a.job), expiryOf(b.job)];
    return first === second ? a.tickMs - b.tickMs : first - second;
  };
  return [...waiting].sort(order)[0];
}

/** How a run ended that could not tell it itself, for its operators. */
export function describeEnd({ code, signal, logFile }: FinishedRun): string {
  const how = signal === undefined ? `ended with exit code ${code} and without a word` : `was ended by ${signal}`;
  return `The run ${how}. It is tried again as its schedule has it.${logFile ? ` Its log: ${logFile}` : ''}`;
}

/** A run that failed or is incomplete must be seen among the lines of those that went well. */
function logEnd(log: Log, job: string, run: FinishedRun): void {
  const { outcome, code, signal, error, logFile } = run;
  const line = {
    event: 'finished',
    job,
    run: run.runId,
    outcome,
    code,
    signal,
    error,
    ...summarizeRun(run.result),
    logFile,
  };
  const text = `${job}: ${outcome}${error ? `: ${error.code}: ${error.message}` : ''}`;
  switch (outcome) {
    case 'done':
    case 'no-session':
      log.info(line, text);
      return;
    case 'incomplete':
    case 'interrupted':
    case 'active':
      log.warn(line, text);
      return;
    case 'failed':
    case 'usage':
    case 'died':
      log.error(line, text);
      return;
    default:
      outcome satisfies never;
  }
}
