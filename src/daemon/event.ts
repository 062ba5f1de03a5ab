/** What happens to the daemon, and what it does: the input and the output of a step. Types only. */
import type { Job, JobSchedule } from '../job/job.ts';
import type { Tick } from './coordinator.ts';
import type { StatusDocument } from './documents.ts';
import type { JobFilesReading } from './job-files.ts';
import type { RunView } from './job-view.ts';
import type { RunProcessEnd } from './run-process.ts';
import type { DueRun, MissedTick, OwedCause } from './state.ts';

export type DaemonEvent =
  /** @property lastRuns when new jobs ran last, as far as is known, milliseconds by name */
  | {
      readonly kind: 'files-read';
      readonly reading: JobFilesReading;
      readonly lastRuns: ReadonlyMap<string, number | undefined>;
    }
  /** Jobs that are new have missed these. */
  | { readonly kind: 'missed-at-start'; readonly ticks: readonly MissedTick[] }
  /** The order of an arrival is not waited for any longer. */
  | { readonly kind: 'arrival-late'; readonly id: number }
  /** A tick that is this daemon's. */
  | { readonly kind: 'due'; readonly due: DueRun }
  /** Another daemon runs the job's tick. */
  | { readonly kind: 'left-to-another'; readonly job: string }
  | { readonly kind: 'claimed'; readonly tick: Tick; readonly isMine: boolean }
  | { readonly kind: 'claim-failed'; readonly tick: Tick; readonly reason: string }
  /** A tick that was held has been taken over by another daemon. */
  | { readonly kind: 'claim-lost'; readonly tick: Tick }
  /** Places may be free, and jobs may wait for them. */
  | { readonly kind: 'fill-places' }
  | { readonly kind: 'run-started'; readonly job: string; readonly runId: string; readonly logFile: string | undefined }
  /** The machine was at work for so long while the run went on. */
  | { readonly kind: 'run-worked'; readonly job: string; readonly runId: string; readonly ms: number }
  | { readonly kind: 'run-ended'; readonly job: string; readonly runId: string; readonly end: RunProcessEnd }
  | { readonly kind: 'progress-read'; readonly job: string; readonly progress: RunView['progress'] }
  | { readonly kind: 'status-read'; readonly job: string; readonly document: StatusDocument }
  | { readonly kind: 'status-failed'; readonly job: string; readonly reason: string }
  /** Somebody looks: what children said of the datasets is brought up to date. */
  | { readonly kind: 'looked-at' }
  | {
      readonly kind: 'alert-ended';
      readonly job: string;
      readonly cause: AlertCause;
      readonly owedAtMs: number;
      readonly hasGotThrough: boolean;
    }
  /** A daemon before this one could not tell how a run ended. */
  | { readonly kind: 'untold-found'; readonly job: string; readonly text: string }
  /** Every few seconds. @property missed ticks that nobody fired since the last look */
  | { readonly kind: 'beat'; readonly missed: readonly MissedTick[] }
  | { readonly kind: 'beat-over' }
  | { readonly kind: 'stop' };

export type AlertCause = OwedCause | 'gaps';

export type Effect =
  /** @property lastMs the newest instant up to which the job is known to have run */
  | {
      readonly kind: 'schedule';
      readonly job: string;
      readonly schedule: JobSchedule;
      readonly lastMs: number | undefined;
    }
  | { readonly kind: 'reschedule'; readonly job: string; readonly schedule: JobSchedule }
  | { readonly kind: 'unschedule'; readonly job: string }
  /** After the clock was set. */
  | { readonly kind: 'rearm' }
  | { readonly kind: 'claim'; readonly tick: Tick }
  /** Nothing more comes of a tick that is held. */
  | { readonly kind: 'complete'; readonly tick: Tick }
  | { readonly kind: 'start-run'; readonly due: DueRun; readonly runId: string }
  | { readonly kind: 'stop-run'; readonly job: string }
  | { readonly kind: 'read-status'; readonly job: string }
  | {
      readonly kind: 'send-alert';
      readonly job: string;
      readonly cause: AlertCause;
      readonly path: string;
      readonly args: readonly string[];
      readonly owedAtMs: number;
    }
  /** A restart need not look for the job's tick. */
  | { readonly kind: 'forget-unfinished'; readonly job: string }
  /** A restart must know how a run ended of which nobody has heard yet. */
  | { readonly kind: 'note-untold'; readonly job: string; readonly text: string }
  | { readonly kind: 'forget-untold'; readonly job: string }
  | { readonly kind: 'later'; readonly afterMs: number; readonly event: DaemonEvent }
  | {
      readonly kind: 'log';
      readonly level: 'debug' | 'info' | 'warn' | 'error';
      readonly line: Readonly<Record<string, unknown>> & { readonly event: string };
      readonly text: string;
    };

/** What a step asks of the world, without changing anything. */
export interface Rules {
  readonly maxRuns: number;
  readonly newRunId: () => string;
  readonly hasSession: (tickMs: number) => boolean;
  /** Whether the job has operators to be alerted. */
  readonly hasAlerts: (job: Job) => boolean;
  /** The next tick of a job's schedule. */
  readonly nextTick: (job: string) => number | undefined;
}
