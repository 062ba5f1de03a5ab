/**
 * One run of a job as a child process, from its start to what came of it. A run that takes longer than the job's file
 * allows by then is stopped, and killed if it does not listen. What came of it is in its own record; one that recorded no
 * end is judged by its exit.
 */
import { describeError, EXIT_CODES } from '../core/errors.ts';
import { explainAbort } from '../core/liveness.ts';
import { createRunId } from '../core/run-id.ts';
import { formatDuration } from '../core/units.ts';
import { isFailed, type RunOutcome, type RunRecord, sumSealed, whyFailed } from '../state/run-record.ts';
import type { FiledJob } from './job-files.ts';
import { type ChildEnd, type ChildProcess, readFailure, stopInTime } from './run-process.ts';
import { toInstant } from './shapes.ts';
import type { DueRun, World } from './state.ts';

/** Outcomes that a stop causes; any other outcome was reached before the stop took effect, and stands. */
const CUT_SHORT: ReadonlySet<RunOutcome> = new Set(['interrupted', 'died', 'failed']);

/** The end of a run as the daemon saw it. */
export interface EndedRun {
  readonly outcome: RunOutcome;
  /** `undefined` if there is none, as with a full disk. */
  readonly record: RunRecord | undefined;
  /** Why operators get an alert from the daemon: the run died, not stopped by it, or took too long, and could send none. */
  readonly unsent: string | undefined;
}

export class JobRun {
  readonly due: DueRun;
  readonly runId: string;
  readonly startedAtMs: number;
  /** As the run last wrote it; null before its process did. */
  record: RunRecord | null = null;
  readonly #world: World;
  /** With its file as it is now. */
  readonly #job: { readonly filed: FiledJob };
  readonly #over = new AbortController();
  /** Absent until it exists, and can be asked to stop. */
  #process: ChildProcess | undefined;
  #stop: 'timeout' | 'asked' | undefined;
  #workedMs = 0;

  constructor(world: World, job: { readonly filed: FiledJob }, due: DueRun) {
    this.#world = world;
    this.#job = job;
    this.due = due;
    this.startedAtMs = world.nowMs;
    this.runId = createRunId(this.startedAtMs);
  }

  /** Whether it is of the schedule: what staging leaves is owed by the next tick anyway. */
  get isTick(): boolean {
    return this.due.reason !== 'stage' && !this.due.asked;
  }

  /** Asks it to stop, once: a second signal would end it before it has recorded what it did. */
  stop(why: 'timeout' | 'asked' = 'asked'): void {
    if (this.#stop) return;
    this.#stop = why;
    this.#end();
  }

  /** Stops it when it takes too long, by steps of the loop: neither a clock change nor a sleeping laptop ends a run. */
  work(ms: number): void {
    this.#workedMs += ms;
    if (this.#stop || this.#workedMs < this.#timeoutMs) return;
    const line = { event: 'run-timeout', job: this.#name, run: this.runId, timeoutMs: this.#timeoutMs };
    this.#world.outside.log.warn(line, `${this.#name}: stopped, because it took too long`);
    this.stop('timeout');
  }

  async readRecord(): Promise<void> {
    this.record = (await this.#world.outside.historyOf(this.#name).read(this.runId)) ?? null;
  }

  /** Never rejects. @param reload reads the job files again */
  async carryOut(reload: () => Promise<void>): Promise<EndedRun> {
    const { startRun, log } = this.#world.outside;
    const { runId: run, due } = this;
    const job = this.#name;
    let end: Partial<ChildEnd> = {};
    let said: RunRecord['error'];
    try {
      await reload();
      this.#process = await startRun(this.#job.filed, run, due);
      const { logFile, done } = this.#process;
      // With a shared schedule, the tick shows which daemon ran which.
      const line = { event: 'started', job, run, reason: due.reason, tick: toInstant(due.tickMs), logFile };
      log[due.reason === 'stage' ? 'debug' : 'info'](line, `${job}: started (${due.reason})`);
      if (this.#stop) this.#end();
      end = await done;
      said = readFailure(end);
    } catch (error) {
      said = { code: 'START_FAILED', message: `the run could not be started: ${describeError(error)}` };
    }
    return await this.#judge(end, said);
  }

  get #name(): string {
    return this.#job.filed.job.name;
  }

  /** Time-out in its current file; infinite if there is none. */
  get #timeoutMs(): number {
    return (this.#job.filed.job.schedule?.timeoutSeconds ?? Number.POSITIVE_INFINITY) * 1000;
  }

  #end(): void {
    if (this.#process) void stopInTime(this.#process, this.#world.outside.clock, this.#over.signal);
  }

  /** Completes its record. @param said why it failed, by its last words */
  async #judge(end: Partial<ChildEnd>, said: RunRecord['error']): Promise<EndedRun> {
    this.#over.abort();
    const { code, signal } = end;
    const history = this.#world.outside.historyOf(this.#name);
    const written = await history.read(this.runId);
    // A killed run has recorded no end: this process does.
    const recorded = written?.outcome === 'died' ? null : (written?.outcome ?? null);
    const came = recorded ?? judgeExit(code);
    const isTimedOut = this.#stop === 'timeout' && CUT_SHORT.has(came);
    // Stopped before its handler existed: counts as interrupted, so it is not retried.
    const outcome = isTimedOut ? 'timed-out' : this.#stop && came === 'died' ? 'interrupted' : came;
    const failed = written && recorded ? whyFailed(written) : said;
    const error = isTimedOut ? describeTimeout(this.#timeoutMs) : failed;
    const killed = signal ? { code: 'ENDED_BY_SIGNAL', message: `The process was ended by ${signal}.` } : null;
    const record = await history.settle(this.runId, { outcome, error: error ?? killed }, this.#world.nowMs);
    this.#log(end, outcome, record, error);
    const isCrash = (came === 'died' || came === 'failed') && !recorded && failed === null && !this.#stop;
    if (!isTimedOut && !isCrash) return { outcome, record, unsent: undefined };
    const how = signal === undefined ? `ended with exit code ${code} without a message` : `was ended by ${signal}`;
    const logFile = this.#process?.logFile;
    const words = [
      isTimedOut ? (error?.message ?? '') : `The run ${how}.`,
      explainAbort({ code, signal }),
      `Its schedule retries it.${logFile ? ` Its log: ${logFile}` : ''}`,
    ];
    return { outcome, record, unsent: words.filter(Boolean).join(' ') };
  }

  #log(
    { code, signal }: Partial<ChildEnd>,
    outcome: RunOutcome,
    record: RunRecord | undefined,
    error: RunRecord['error'],
  ): void {
    const { log } = this.#world.outside;
    const { runId: run, due } = this;
    const job = this.#name;
    if (due.reason === 'stage') {
      const reason = error?.message ?? outcome;
      if (outcome === 'done' || this.#stop) log.debug({ event: 'staged', job, run }, `${job}: staging ended`);
      else log.warn({ event: 'stage-failed', job, run, reason }, `${job}: staging failed: ${reason}`);
      return;
    }
    const sealed = record && sumSealed(record);
    const line = {
      event: 'finished',
      job,
      run,
      outcome,
      code,
      signal,
      error: error ?? undefined,
      sealed: sealed?.dates,
      rows: sealed?.rows,
      requests: record?.requests,
      reports: record?.reports.length,
      logFile: this.#process?.logFile,
    };
    const text = `${job}: ${outcome}${error ? `: ${error.code}: ${error.message}` : ''}`;
    log[outcome === 'done' ? 'info' : isFailed(outcome) ? 'error' : 'warn'](line, text);
  }
}

/** The outcome of a run that could not record its end. */
function judgeExit(code: number | undefined): RunOutcome {
  const kinds = Object.keys(EXIT_CODES) as (keyof typeof EXIT_CODES)[];
  return code === 0 ? 'done' : (kinds.find((kind) => EXIT_CODES[kind] === code) ?? 'died');
}

/** The error of a run that took longer than its job allows. */
function describeTimeout(timeoutMs: number) {
  return {
    code: 'RUN_TIMED_OUT',
    message: `The run took longer than ${formatDuration(timeoutMs)}, its schedule.timeout, and was stopped.`,
    hint: 'Its log shows what it waited for. If it just has a lot to do, raise `schedule.timeout`.',
  };
}
