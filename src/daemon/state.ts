/**
 * What the daemon knows: of each job its file, its ticks, its run, what operators must still hear of it, and what children
 * said of its dataset. Data and plain questions about it. `step.ts` alone makes a new state of an old one.
 */
import type { StatusDocument } from './documents.ts';
import type { FiledJob } from './job-files.ts';
import type { JobView, RunReason, RunRecord, RunView } from './job-view.ts';

export interface DueRun {
  readonly job: string;
  readonly reason: RunReason;
  /** The tick that it is for, milliseconds since the epoch. */
  readonly tickMs: number;
}

export interface MissedTick {
  readonly job: string;
  readonly tickMs: number;
}

/** What a job does now; of a job at rest there is none. */
type JobRun =
  /** Its tick is of a day without a session: its status tells whether dates are pending. */
  | { readonly phase: 'deciding'; readonly due: DueRun }
  /** For a place among the runs that may go on at once. */
  | { readonly phase: 'waiting'; readonly due: DueRun; readonly sinceMs: number }
  | RunningRun;

export interface RunningRun {
  readonly phase: 'running';
  readonly due: DueRun;
  readonly runId: string;
  readonly startedAtMs: number;
  /** Its process is there, so that it can be asked to stop. */
  readonly isStarted: boolean;
  /** How long the machine was at work since then: its sleep, and a clock that is set, do not count. */
  readonly workedMs: number;
  /** It was asked to stop, and why. */
  readonly stop: 'timeout' | 'asked' | undefined;
  readonly logFile: string | undefined;
  readonly progress: RunView['progress'];
}

export type OwedCause = 'died' | 'broken';

/** What operators must hear, until they have heard it or it is over. */
export interface OwedAlert {
  readonly text: string;
  /** Since when; tells it from an earlier one of its cause. */
  readonly owedAtMs: number;
  readonly state: 'waiting' | 'sending' | 'sent';
  readonly triedAtMs: number;
  readonly waitMs: number;
}

/** The last status document of a job, and the reading of the next one. */
interface StatusTask {
  readonly shown: JobView['status'];
  readonly fault: string | undefined;
  readonly triedAtMs: number;
  /** `again`: one that goes on may have begun before what the next is to tell. */
  readonly reading: 'none' | 'reading' | 'again';
}

export interface DaemonJob {
  readonly filed: FiledJob;
  readonly fault: JobView['fault'];
  /** The file is gone; its run may still go on. */
  readonly isRemoved: boolean;
  readonly run: JobRun | undefined;
  /** The newest tick that came while a run went on: it is due when that run ends. */
  readonly next: DueRun | undefined;
  readonly retry: { readonly atMs: number; readonly due: DueRun } | undefined;
  /** A tick that could not be claimed while Redis was away. */
  readonly owedTickMs: number | undefined;
  /** Ticks of a shared schedule that are this daemon's until they are settled. */
  readonly heldTicks: readonly number[];
  /** Newest first. */
  readonly finished: readonly RunRecord[];
  readonly alerts: Readonly<Record<OwedCause, OwedAlert | undefined>>;
  /** When gaps were last looked for. */
  readonly gapsAtMs: number;
  readonly status: StatusTask;
}

/** Ticks that were missed together: their order is known when the statuses of their jobs are. */
export interface Arrival {
  readonly id: number;
  readonly ticks: readonly MissedTick[];
  readonly unread: readonly string[];
}

export interface DaemonState {
  readonly jobs: ReadonlyMap<string, DaemonJob>;
  /** Files of which no good text is known. */
  readonly unusable: readonly JobView[];
  readonly arrivals: readonly Arrival[];
  readonly beatAtMs: number;
  readonly isStopping: boolean;
}

/** Runs of a job that are shown: a night's worth of every quarter of an hour. */
export const MAX_FINISHED = 50;

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
    finished: [],
    alerts: { died: undefined, broken: undefined },
    gapsAtMs: Number.NEGATIVE_INFINITY,
    status: { shown: undefined, fault: undefined, triedAtMs: Number.NEGATIVE_INFINITY, reading: 'none' },
  };
}

/** Whether it waits for a place, or runs. */
export function isBusy({ run }: DaemonJob): boolean {
  return run?.phase === 'waiting' || run?.phase === 'running';
}

export function isShared({ filed }: DaemonJob): boolean {
  return filed.job.schedule?.distributed ?? false;
}

/** How long a run of the job may take, as its file has it now; infinite where it may take as long as it wants. */
export function runTimeoutMs({ filed }: DaemonJob): number {
  const seconds = filed.job.schedule?.timeoutSeconds ?? null;
  return seconds === null ? Number.POSITIVE_INFINITY : seconds * 1000;
}

/** When the first pending date begins to leave the lookback, milliseconds; infinite when none does. */
export function expiryOf(state: DaemonJob | undefined): number {
  const expiries = (pendingOf(state) ?? []).map(({ begins_to_expire: at }) =>
    at === null ? Number.NaN : Date.parse(at),
  );
  return Math.min(Number.POSITIVE_INFINITY, ...expiries.filter((ms) => !Number.isNaN(ms)));
}

/** Whether dates are pending; `undefined` when nothing is known. */
export function hasPending(state: DaemonJob): boolean | undefined {
  const pending = pendingOf(state);
  return pending && pending.length > 0;
}

function pendingOf(state: DaemonJob | undefined): StatusDocument['dates'] | undefined {
  return state?.status.shown?.document.dates.filter(({ condition }) => condition === 'pending');
}

/** @param nextRunAtMs the next tick of its schedule */
export function viewJob({ filed, run, ...state }: DaemonJob, nextRunAtMs: number | undefined): JobView {
  const { name, file, schedule } = filed.job;
  const running = run?.phase === 'running' ? run : undefined;
  return {
    name,
    file,
    schedule: schedule && { cron: schedule.cron, timezone: schedule.timezone, distributed: schedule.distributed },
    nextRunAtMs,
    retryAtMs: state.retry?.atMs,
    waitingSinceMs: run?.phase === 'waiting' ? run.sinceMs : undefined,
    running: running && {
      runId: running.runId,
      reason: running.due.reason,
      startedAtMs: running.startedAtMs,
      // What another run left behind is not this one's.
      progress: running.progress?.run_id === running.runId ? running.progress : null,
    },
    finished: state.finished,
    fault: state.fault,
    status: state.status.shown,
    statusFault: state.status.fault,
  };
}

/** A file that never was good: there is nothing to run. */
export function viewUnusable(file: string, name: string, message: string, sinceMs: number): JobView {
  return {
    name,
    file,
    schedule: undefined,
    nextRunAtMs: undefined,
    retryAtMs: undefined,
    waitingSinceMs: undefined,
    running: undefined,
    finished: [],
    fault: { message, sinceMs },
    status: undefined,
    statusFault: undefined,
  };
}
