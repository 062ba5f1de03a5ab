/**
 * What all parts of the daemon use: the outside world, and what a person may ask for.
 *
 * Decides which daemon runs a tick when several share a schedule. The contract; `redis-coordinator.ts` implements it.
 * Invariants: only one daemon gets a tick; if that daemon dies before it completes the tick, exactly one other gets it.
 */
import type { CalendarOverride } from '../calendar/session.ts';
import type { Clock } from '../core/clock.ts';
import { describeError, isFault } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import type { Job } from '../job/job.ts';
import type { RunHistory, RunIndex } from '../state/run-history.ts';
import type { RunCommand, RunRecord } from '../state/run-record.ts';
import type { FiledJob, JobFilesReading } from './job-files.ts';
import type { ChildProcess, Commands } from './run-process.ts';
import type { ActionAnswer } from './shapes.ts';

/** A command of a job that a person asked for. */
export interface AskedCommand {
  readonly command: Exclude<RunCommand, 'stage'>;
  /** What follows the job on the command line. */
  readonly options: readonly string[];
}

/** A command, or `stop`: what runs or waits. */
export type Ask = { readonly job: string } & (AskedCommand | { readonly command: 'stop' });

export type AskAnswer = Pick<ActionAnswer, 'outcome' | 'text'>;

/** A tick for this daemon to run, or what a person asked for. */
export interface DueRun {
  /**
   * `take-over`: the daemon that started it died. `gap`: no session today, but dates are pending. `stage`: only stages the
   * running session. `asked`: a person asked for it on the page.
   */
  readonly reason: Exclude<RunRecord['reason'], 'hand'>;
  /** Due time of its tick, in milliseconds since the epoch. */
  readonly tickMs: number;
  /** What a person asked for; absent for a tick. */
  readonly asked?: AskedCommand | undefined;
}

/** What a daemon needs of the world around it. */
export interface Outside {
  readonly clock: Clock;
  readonly log: Log;
  readonly version: string;
  readonly id: string;
  readonly maxRuns: number;
  readonly readFiles: () => Promise<JobFilesReading>;
  readonly commands: Pick<Commands, 'read' | 'stop' | 'kill' | 'untilIdle'>;
  /** For shared schedules; always set if a job has one. */
  readonly coordinator?: Coordinator | undefined;
  /** The runs that this machine remembers, and the newest of them in memory. */
  readonly historyOf: (job: string) => Pick<RunHistory, 'read' | 'settle' | 'lastRunAt'>;
  readonly runs: Pick<RunIndex, keyof RunIndex>;
  readonly startRun: (filed: FiledJob, runId: string, due: DueRun) => Promise<ChildProcess>;
  readonly calendar: CalendarOverride;
  readonly hasAlerts: (job: Job) => boolean;
}

export class World {
  readonly outside: Outside;
  readonly stopping = new AbortController();

  constructor(outside: Outside) {
    this.outside = outside;
  }

  get nowMs(): number {
    return this.outside.clock.now();
  }

  get isStopping(): boolean {
    return this.stopping.signal.aborted;
  }

  /** Does something for a job; a failure is logged, unless a stop interrupted it, and makes it `undefined`. */
  async attempt<T>(
    level: 'warn' | 'error',
    line: { readonly event: string; readonly job: string; readonly what?: string },
    action: () => Promise<T>,
  ): Promise<T | undefined> {
    try {
      return await action();
    } catch (error) {
      const reason = describeError(error);
      const isInterrupted = this.isStopping && isFault(error) && error.code === 'INTERRUPTED';
      if (!isInterrupted) this.outside.log[level]({ ...line, reason }, `${line.job}: ${reason}`);
      return undefined;
    }
  }
}

export interface Tick {
  readonly job: string;
  /** Due time in milliseconds since the epoch, whole seconds. */
  readonly dueAtMs: number;
}

export interface Coordinator {
  /** `true` for one daemon only. Idempotent for the daemon that holds it. */
  claim(tick: Tick): Promise<boolean>;
  /** Keeps the claim during the run; call it every `RENEW_MS`. `false` when another daemon has taken the tick over. */
  renew(tick: Tick): Promise<boolean>;
  /** The run has ended, with any outcome: no daemon takes the tick over. */
  complete(tick: Tick): Promise<void>;
  /** Takes over claimed ticks of these jobs whose daemon is gone; this daemon now holds them. */
  takeOver(jobs: readonly string[]): Promise<readonly Tick[]>;
  close(): Promise<void>;
}

/**
 * `RENEW_MS`: interval of renewals. `LEASE_MS`: how long a claim holds without renewal, and so how long a dead daemon
 * stays unnoticed.
 */
export const RENEW_MS = 5_000;
export const LEASE_MS = 20_000;
