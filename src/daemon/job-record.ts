/** What the daemon knows of one job, and how it is shown. The loop alone changes it. */
import type { FiledJob } from './job-files.ts';
import type { DueRun, Runs } from './runs.ts';
import type { Statuses } from './statuses.ts';
import type { Timetable } from './timetable.ts';
import type { FinishedRun, JobView, RunView } from './view.ts';

export interface JobRecord {
  filed: FiledJob;
  fault: JobView['fault'];
  /** The file is gone; its run may still go on. */
  isRemoved: boolean;
  /** The run that was let in last. */
  current: DueRun | undefined;
  /** The newest tick that came while a run went on: it is let in when that run ends. */
  next: DueRun | undefined;
  retry: { readonly atMs: number; readonly due: DueRun } | undefined;
  /** A tick that could not be claimed while Redis was away. */
  owedMs: number | undefined;
  finished: readonly FinishedRun[];
  progress: RunView['progress'];
  alertedAtMs: number;
}

/** Runs of a job that are shown: a night's worth of every quarter of an hour. */
const MAX_FINISHED = 50;

export function createRecord(filed: FiledJob): JobRecord {
  return {
    ...{ filed, fault: undefined, isRemoved: false, current: undefined, next: undefined },
    ...{ retry: undefined, owedMs: undefined, finished: [], progress: null, alertedAtMs: Number.NEGATIVE_INFINITY },
  };
}

export function addFinished(record: JobRecord, run: FinishedRun): void {
  record.finished = [run, ...record.finished].slice(0, MAX_FINISHED);
}

/** How long a run of the job may take, as its file has it now; infinite where it may take as long as it wants. */
export function runTimeoutMs(record: JobRecord | undefined): number {
  const seconds = record?.filed.job.schedule?.timeoutSeconds ?? null;
  return seconds === null ? Number.POSITIVE_INFINITY : seconds * 1000;
}

export interface ViewParts {
  readonly timetable: Timetable;
  readonly runs: Runs;
  readonly statuses: Statuses;
}

export function viewJob(record: JobRecord, { timetable, runs, statuses }: ViewParts): JobView {
  const { name, file, schedule } = record.filed.job;
  const running = runs.running(name);
  const { status, fault } = statuses.of(name);
  return {
    name,
    file,
    schedule: schedule && { cron: schedule.cron, timezone: schedule.timezone, distributed: schedule.distributed },
    nextRunAtMs: timetable.next(name),
    retryAtMs: record.retry?.atMs,
    waitingSinceMs: runs.waitingSince(name),
    running: running && {
      runId: running.runId,
      reason: running.reason,
      startedAtMs: running.startedAtMs,
      // What another run left behind is not this one's.
      progress: record.progress?.run_id === running.runId ? record.progress : null,
    },
    finished: record.finished,
    fault: record.fault,
    status,
    statusFault: fault,
  };
}

/** A file that never was good: there is nothing to run. */
export function viewUnusable(file: string, name: string, message: string, sinceMs: number): JobView {
  return {
    ...{ name, file, schedule: undefined, nextRunAtMs: undefined, retryAtMs: undefined, waitingSinceMs: undefined },
    ...{ running: undefined, finished: [], fault: { message, sinceMs }, status: undefined, statusFault: undefined },
  };
}
