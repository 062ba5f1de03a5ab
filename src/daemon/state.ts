/**
 * What the daemon knows about each job: its file, ticks and run, its unsent alerts, and the dataset status from its
 * children. Data and simple queries only. Only `step.ts` derives a new state from an old one.
 */
import type { RunCommand } from '../state/run-record.ts';
import type { StatusDocument } from './documents.ts';
import type { FiledJob } from './job-files.ts';
import type { JobView, RunReason, RunView } from './job-view.ts';

export interface DueRun {
  readonly job: string;
  readonly reason: RunReason;
  /** Due time of its tick, in milliseconds since the epoch. */
  readonly tickMs: number;
  /** What a person asked for; absent for a tick. */
  readonly asked?: AskedCommand | undefined;
}

/** A command of a job that a person asked for. */
export interface AskedCommand {
  readonly command: Exclude<RunCommand, 'stage'>;
  /** What follows the job on the command line. */
  readonly options: readonly string[];
}

export interface MissedTick {
  readonly job: string;
  readonly tickMs: number;
}

/** What a job does now; `undefined` for an idle job. */
type JobRun =
  /** Its tick is on a day without a session; its status decides whether dates are pending. */
  | { readonly phase: 'deciding'; readonly due: DueRun }
  /** Waits for a free run place. */
  | { readonly phase: 'waiting'; readonly due: DueRun; readonly sinceMs: number }
  | RunningRun;

export interface RunningRun {
  readonly phase: 'running';
  readonly due: DueRun;
  readonly runId: string;
  readonly startedAtMs: number;
  /** Its process exists, so it can be asked to stop. */
  readonly isStarted: boolean;
  /** Awake time of the machine since the start; system sleep and clock changes do not count. */
  readonly workedMs: number;
  /** Why it was asked to stop, if it was. */
  readonly stop: 'timeout' | 'asked' | undefined;
  readonly logFile: string | undefined;
  readonly record: RunView['record'];
}

export type OwedCause = 'died' | 'broken';

/** An operator alert, kept until it is sent or its cause is over. */
export interface OwedAlert {
  readonly text: string;
  /** Since when; identifies it among alerts with the same cause. */
  readonly owedAtMs: number;
  readonly state: 'waiting' | 'sending' | 'sent';
  readonly triedAtMs: number;
  readonly waitMs: number;
}

/** The last status document of a job, and the next reading. */
interface StatusTask {
  readonly shown: JobView['status'];
  readonly fault: string | undefined;
  readonly triedAtMs: number;
  /** `again`: the current reading may have begun too early, so another one must follow. */
  readonly reading: 'none' | 'reading' | 'again';
}

export interface DaemonJob {
  readonly filed: FiledJob;
  readonly fault: JobView['fault'];
  /** The file is gone; its run may still be active. */
  readonly isRemoved: boolean;
  readonly run: JobRun | undefined;
  /** The newest tick that came during a run: it is due when that run ends. */
  readonly next: DueRun | undefined;
  readonly retry: { readonly atMs: number; readonly due: DueRun } | undefined;
  /** A tick that could not be claimed while Redis was down. */
  readonly owedTickMs: number | undefined;
  /** Ticks of a shared schedule that this daemon holds until they are settled. */
  readonly heldTicks: readonly number[];
  readonly alerts: Readonly<Record<OwedCause, OwedAlert | undefined>>;
  /** When it last began to stage the running session. */
  readonly stagedAtMs: number;
  /** When gaps were last checked. */
  readonly gapsAtMs: number;
  readonly status: StatusTask;
}

/** Ticks that were missed together; their order needs the statuses of their jobs. */
export interface Arrival {
  readonly id: number;
  readonly ticks: readonly MissedTick[];
  readonly unread: readonly string[];
}

export interface DaemonState {
  readonly jobs: ReadonlyMap<string, DaemonJob>;
  /** Files without a known valid text. */
  readonly unusable: readonly JobView[];
  readonly arrivals: readonly Arrival[];
  readonly beatAtMs: number;
  readonly isStopping: boolean;
}

export function createState(nowMs: number): DaemonState {
  return { jobs: new Map(), unusable: [], arrivals: [], beatAtMs: nowMs, isStopping: false };
}

export function createJobState(filed: FiledJob): DaemonJob {
  return {
    filed,
    fault: undefined,
    isRemoved: false,
    run: undefined,
    next: undefined,
    retry: undefined,
    owedTickMs: undefined,
    heldTicks: [],
    alerts: { died: undefined, broken: undefined },
    stagedAtMs: Number.NEGATIVE_INFINITY,
    gapsAtMs: Number.NEGATIVE_INFINITY,
    status: { shown: undefined, fault: undefined, triedAtMs: Number.NEGATIVE_INFINITY, reading: 'none' },
  };
}

/** Whether it waits for a place or runs. */
export function isBusy({ run }: DaemonJob): boolean {
  return run?.phase === 'waiting' || run?.phase === 'running';
}

/** Whether its process only stages the running session. */
export function isStaging({ run }: DaemonJob): boolean {
  return run?.phase === 'running' && run.due.reason === 'stage';
}

export function isShared({ filed }: DaemonJob): boolean {
  return filed.job.schedule?.distributed ?? false;
}

/** Time-out of the job's runs in its current file; infinite if there is none. */
export function runTimeoutMs({ filed }: DaemonJob): number {
  const seconds = filed.job.schedule?.timeoutSeconds ?? null;
  return seconds === null ? Number.POSITIVE_INFINITY : seconds * 1000;
}

/** When the first pending date begins to leave the lookback, in milliseconds; infinite when none does. */
export function expiryOf(state: DaemonJob | undefined): number {
  const expiries = (pendingOf(state) ?? []).map(({ begins_to_expire: at }) =>
    at === null ? Number.NaN : Date.parse(at),
  );
  return Math.min(Number.POSITIVE_INFINITY, ...expiries.filter((ms) => !Number.isNaN(ms)));
}

/** Whether dates are pending; `undefined` when the status is unknown. */
export function hasPending(state: DaemonJob): boolean | undefined {
  const pending = pendingOf(state);
  return pending && pending.length > 0;
}

function pendingOf(state: DaemonJob | undefined): StatusDocument['dates'] | undefined {
  return state?.status.shown?.document.dates.filter(({ condition }) => condition === 'pending');
}

/**
 * @param nextRunAtMs next tick of its schedule
 * @param runs those that this machine remembers, newest first
 */
export function viewJob(
  { filed, run, ...state }: DaemonJob,
  nextRunAtMs: number | undefined,
  runs: JobView['runs'],
): JobView {
  const { name, file, schedule, settleSeconds } = filed.job;
  const running = run?.phase === 'running' ? run : undefined;
  return {
    name,
    file,
    schedule: schedule && { cron: schedule.cron, timezone: schedule.timezone, distributed: schedule.distributed },
    settleSeconds,
    nextRunAtMs,
    retryAtMs: state.retry?.atMs,
    waitingSinceMs: run?.phase === 'waiting' ? run.sinceMs : undefined,
    running: running && {
      runId: running.runId,
      reason: running.due.reason,
      startedAtMs: running.startedAtMs,
      record: running.record,
    },
    runs,
    fault: state.fault,
    status: state.status.shown,
    statusFault: state.status.fault,
  };
}

/** The view of a file that was never valid: it has nothing to run. */
export function viewUnusable(file: string, name: string, message: string, sinceMs: number): JobView {
  return {
    name,
    file,
    schedule: undefined,
    settleSeconds: 0,
    nextRunAtMs: undefined,
    retryAtMs: undefined,
    waitingSinceMs: undefined,
    running: undefined,
    runs: [],
    fault: { message, sinceMs },
    status: undefined,
    statusFault: undefined,
  };
}
