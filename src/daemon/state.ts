/**
 * What a daemon knows of each job, what it shows of it, and what all its parts use: the outside world, timers, and the
 * notes that survive it. Invariants: a job's notes reach the disk in the order in which they were made; only the parts
 * of the loop change a job. Of a status only what is shown is kept: the daemon holds those of all jobs for as long as it
 * lives.
 *
 * Decides which daemon runs a tick when several share a schedule. The contract; `redis-coordinator.ts` implements it.
 * Invariants: only one daemon gets a tick; if that daemon dies before it completes the tick, exactly one other gets it.
 */
import { setMaxListeners } from 'node:events';
import { z } from 'zod';
import { type CalendarOverride, NO_OVERRIDE } from '../calendar/session.ts';
import type { Clock } from '../core/clock.ts';
import { describeError } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import type { Job } from '../job/job.ts';
import { CONDITIONS, type Condition, isSealed } from '../plan/conditions.ts';
import { dateStatusSchema, jobStatusSchema } from '../state/documents.ts';
import type { StateFile } from '../state/job-state.ts';
import type { RunHistory, RunIndex } from '../state/run-history.ts';
import type { RunCommand, RunRecord } from '../state/run-record.ts';
import type { FiledJob, JobFilesReading } from './job-files.ts';
import type { ChildProcess, Commands } from './run-process.ts';
import type { Ticks } from './ticks.ts';

/** Weeks whose dates the daemon keeps one by one. Of a dataset of ten years, the older dates are only counted. */
export const KEPT_WEEKS = 53;

/** A date of a dataset. */
export const datedSchema = dateStatusSchema.pick({
  date: true,
  condition: true,
  rows: true,
  revision: true,
  begins_to_expire: true,
  damage: true,
  accepted: true,
});

/** One job in the output of `flowdrop --json status`, which is a list of jobs. */
export const statusSchema = jobStatusSchema
  .omit({ last_run: true, last_backfill: true, running: true })
  .extend({ dates: z.array(datedSchema) })
  .transform(({ dates, ...status }) => ({
    ...status,
    /** Those of the last `KEPT_WEEKS`, and older ones that are not sealed. */
    dates: dates.filter(({ condition }, index) => index >= dates.length - 7 * KEPT_WEEKS || !isSealed(condition)),
    /** How many dates have each condition, of all. */
    date_counts: countConditions(dates.map(({ condition }) => condition)),
  }));

export type StatusDocument = z.infer<typeof statusSchema>;

function countConditions(found: readonly Condition[]): Readonly<Record<Condition, number>> {
  const count = (one: Condition) => found.filter((each) => each === one).length;
  return Object.fromEntries(CONDITIONS.map((one) => [one, count(one)])) as Record<Condition, number>;
}

/**
 * Why a run was started. `take-over`: the daemon that started it died. `gap`: no session today, but dates are pending.
 * `stage`: only stages the running session. `asked`: a person asked for it on the page.
 */
export type RunReason = Exclude<RunRecord['reason'], 'hand'>;

export interface JobView {
  readonly name: string;
  readonly file: string;
  readonly schedule?: { readonly cron: string; readonly timezone: string; readonly distributed: boolean } | undefined;
  /** How long after its last trades are visible a session may be sealed. */
  readonly settleSeconds: number;
  /** The next tick of the schedule; after a failed run, `retryAtMs` may be earlier. */
  readonly nextRunAtMs?: number | undefined;
  readonly retryAtMs?: number | undefined;
  /** When it began to wait for a free run place; milliseconds since the epoch. */
  readonly waitingSinceMs?: number | undefined;
  /** `record`: as the run last wrote it; null before its process did. */
  readonly running?: (Pick<RunningRun, 'runId' | 'startedAtMs' | 'record'> & Pick<DueRun, 'reason'>) | undefined;
  /** Runs that this machine remembers, newest first, without staging; bounded. */
  readonly runs: readonly RunRecord[];
  /** Why the current job file is not used; the job continues unchanged. */
  readonly fault?: { readonly message: string; readonly sinceMs: number } | undefined;
  /** The last output of `flowdrop --json status`, and when it was read; `undefined` before the first. */
  readonly status?: { readonly document: StatusDocument; readonly readAtMs: number } | undefined;
  /** Why the last reading of the status failed, if it did. */
  readonly statusFault?: string | undefined;
}

/** A command of a job that a person asked for. */
export interface AskedCommand {
  readonly command: Exclude<RunCommand, 'stage'>;
  /** What follows the job on the command line. */
  readonly options: readonly string[];
}

export type Ask =
  | ({ readonly kind: 'command'; readonly job: string } & AskedCommand)
  /** The planned retry at once; without one a run. */
  | { readonly kind: 'retry'; readonly job: string }
  | { readonly kind: 'stop'; readonly job: string };

export interface AskAnswer {
  readonly outcome: 'started' | 'done' | 'refused';
  /** One sentence. */
  readonly text: string;
}

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
  process?: ChildProcess;
  /** Aborted when its process has ended. */
  readonly over: AbortController;
  /** Why it was asked to stop, if it was. */
  stop: 'timeout' | 'asked' | undefined;
  record: RunRecord | null;
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
  isReading = false;
  /** The current reading may have begun too early, so another one must follow. */
  isAskedAgain = false;

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
  readonly startRun: (filed: FiledJob, runId: string, due: DueRun) => Promise<ChildProcess>;
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
    const what = 'a note was not written, so a restart may not know about it: ';
    this.#notes = this.#notes.then(() => this.attempt('warn', { event: 'note-unwritten', job }, write, what));
  }

  /** Does something for a job; a failure is logged, and makes it `undefined`. */
  async attempt<T>(
    level: 'warn' | 'error',
    line: { readonly event: string; readonly job: string; readonly what?: string },
    action: () => Promise<T>,
    what = '',
  ): Promise<T | undefined> {
    try {
      return await action();
    } catch (error) {
      const reason = describeError(error);
      this.outside.log[level]({ ...line, reason }, `${line.job}: ${what}${reason}`);
      return undefined;
    }
  }

  async untilNoted(): Promise<void> {
    await this.#notes;
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
  /** The newest tick of a job that any daemon claimed; `undefined` if there is none. */
  lastTick(job: string): Promise<number | undefined>;
  close(): Promise<void>;
}

/**
 * `RENEW_MS`: interval of renewals. `LEASE_MS`: how long a claim holds without renewal, and so how long a dead daemon
 * stays unnoticed.
 */
export const RENEW_MS = 5_000;
export const LEASE_MS = 20_000;
