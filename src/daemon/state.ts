/**
 * What a daemon knows of each job and what all its parts use: the outside world, timers, and the notes that survive it.
 * Invariant: a job's notes reach the disk in the order in which they were made. Only the parts of the loop change a job.
 */
import { setMaxListeners } from 'node:events';
import { type CalendarOverride, NO_OVERRIDE } from '../calendar/session.ts';
import type { Clock } from '../core/clock.ts';
import { describeError } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import type { Job } from '../job/job.ts';
import type { RunHistory } from '../state/run-history.ts';
import type { StateFile } from '../state/state-file.ts';
import type { Commands } from './commands.ts';
import type { Coordinator } from './coordinator.ts';
import type { FiledJob, JobFilesReading } from './job-files.ts';
import type { AskedCommand, JobView, RunReason, RunView } from './job-view.ts';
import type { RunIndex } from './run-index.ts';
import type { RunProcess } from './run-process.ts';
import type { Ticks } from './ticks.ts';

/** A tick for this daemon to run, or what a person asked for. */
export interface DueRun {
  readonly reason: RunReason;
  /** Due time of its tick, in milliseconds since the epoch. */
  readonly tickMs: number;
  /** What a person asked for; absent for a tick. */
  readonly asked?: AskedCommand | undefined;
}

export interface RunningRun {
  readonly phase: 'running';
  readonly due: DueRun;
  readonly runId: string;
  readonly startedAtMs: number;
  /** Absent until its process exists, and can be asked to stop. */
  process?: RunProcess;
  /** Aborted when its process has ended. */
  readonly over: AbortController;
  /** Why it was asked to stop, if it was. */
  stop: 'timeout' | 'asked' | undefined;
  record: RunView['record'];
}

export type OwedCause = 'died' | 'broken';

/** An operator alert, kept until it is sent or its cause is over. */
export interface OwedAlert {
  text: string;
  state: 'waiting' | 'sending' | 'sent';
  triedAtMs: number;
  waitMs: number;
}

export class DaemonJob {
  readonly name: string;
  filed: FiledJob;
  fault: JobView['fault'];
  /** The file is gone; its run may still be active. */
  isRemoved = false;
  /** While its file has a schedule. */
  ticks: Ticks | undefined;
  /** Ticks up to here have been seen. */
  seenMs = 0;
  /** The tick that a timer waits for. */
  armedMs: number | undefined;
  /** `deciding`: on a day without a session its status decides. `waiting`: for a free place. */
  run:
    | { readonly phase: 'deciding'; readonly due: DueRun }
    | { readonly phase: 'waiting'; readonly due: DueRun; readonly sinceMs: number }
    | RunningRun
    | undefined;
  /** The newest tick that came during a run: it is due when that run ends. */
  next: DueRun | undefined;
  retry: { readonly atMs: number; readonly due: DueRun } | undefined;
  /** Ticks of a shared schedule that this daemon holds until they are settled. */
  readonly heldTicks = new Set<number>();
  readonly alerts: Partial<Record<OwedCause, OwedAlert | undefined>> = {};
  /** When it last began to stage the running session. */
  stagedAtMs = Number.NEGATIVE_INFINITY;
  /** When gaps were last checked. */
  gapsAtMs = Number.NEGATIVE_INFINITY;
  status: JobView['status'];
  statusFault: string | undefined;
  statusTriedAtMs = Number.NEGATIVE_INFINITY;
  /** `again`: the current reading may have begun too early, so another one must follow. */
  reading: 'none' | 'reading' | 'again' = 'none';

  constructor(filed: FiledJob) {
    this.name = filed.job.name;
    this.filed = filed;
  }
}

/** Whether it waits for a place or runs. */
export function isBusy({ run }: DaemonJob): boolean {
  return run?.phase === 'waiting' || run?.phase === 'running';
}

/** Whether its process only stages the running session. */
export function isStaging({ run }: DaemonJob): boolean {
  return run?.phase === 'running' && run.due.reason === 'stage';
}

/** Dates that are not sealed yet; `undefined` when the status is unknown. */
export function pendingOf({ status }: DaemonJob) {
  return status?.document.dates.filter(({ condition }) => condition === 'pending');
}

type NoteFile<T> = Pick<StateFile<T>, 'read' | 'write' | 'remove'>;

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
  readonly startRun: (filed: FiledJob, runId: string, due: DueRun) => Promise<RunProcess>;
  /** A job's tick that is not finished, and the end of a run that no alert has reported. */
  readonly notesOf: (job: string) => {
    readonly unfinished: NoteFile<{ due_at: string }>;
    readonly unsent: NoteFile<{ died: string }>;
  };
  readonly readCalendar: () => Promise<CalendarOverride>;
  readonly hasAlerts: (job: Job) => boolean;
  /** Calls `onChange` when the job files may have changed. */
  readonly watchFiles: (onChange: () => void, signal: AbortSignal) => void;
}

export class DaemonState {
  readonly outside: Outside;
  readonly jobs = new Map<string, DaemonJob>();
  readonly stopping = new AbortController();
  calendar: CalendarOverride = NO_OVERRIDE;
  #notes: Promise<void> = Promise.resolve();

  constructor(outside: Outside) {
    this.outside = outside;
    // Each timer adds a listener.
    setMaxListeners(0, this.stopping.signal);
  }

  get nowMs(): number {
    return this.outside.clock.now();
  }

  get isStopping(): boolean {
    return this.stopping.signal.aborted;
  }

  /** Acts after a while, unless the daemon stops. */
  later(ms: number, action: () => void): void {
    this.outside.clock.sleep(ms, this.stopping.signal).then(action, () => undefined); // The stop.
  }

  /** Writes something about a job, after all that was noted before. */
  note(job: string, write: () => Promise<void>): void {
    this.#notes = this.#notes.then(write).catch((error: unknown) => {
      const reason = describeError(error);
      const text = `${job}: a note was not written, so a restart may not know about it: ${reason}`;
      this.outside.log.warn({ event: 'note-unwritten', job, reason }, text);
    });
  }

  async untilNoted(): Promise<void> {
    await this.#notes;
  }
}
