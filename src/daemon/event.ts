/** The daemon's events and effects: the input and output of a step. Types only. */
import type { Job, JobSchedule } from '../job/job.ts';
import type { RunRecord } from '../state/run-record.ts';
import type { Tick } from './coordinator.ts';
import type { StatusDocument } from './documents.ts';
import type { JobFilesReading } from './job-files.ts';
import type { EndedRun, RunView } from './job-view.ts';
import type { RunProcessEnd } from './run-process.ts';
import type { AskedCommand, DueRun, MissedTick, OwedCause } from './state.ts';

export type DaemonEvent =
  /** @property lastRuns last known run of each new job, in milliseconds, by name */
  | {
      readonly kind: 'files-read';
      readonly reading: JobFilesReading;
      readonly lastRuns: ReadonlyMap<string, number | undefined>;
    }
  /** Ticks that new jobs have missed. */
  | { readonly kind: 'missed-at-start'; readonly ticks: readonly MissedTick[] }
  /** An arrival no longer waits to be ordered. */
  | { readonly kind: 'arrival-late'; readonly id: number }
  /** This daemon runs the tick. */
  | { readonly kind: 'due'; readonly due: DueRun }
  /** Another daemon runs the job's tick. */
  | { readonly kind: 'left-to-another'; readonly job: string }
  | { readonly kind: 'claimed'; readonly tick: Tick; readonly isMine: boolean }
  | { readonly kind: 'claim-failed'; readonly tick: Tick; readonly reason: string }
  /** Another daemon has taken over a tick that this one held. */
  | { readonly kind: 'claim-lost'; readonly tick: Tick }
  /** Places may be free, and jobs may be waiting for them. */
  | { readonly kind: 'fill-places' }
  | { readonly kind: 'run-started'; readonly job: string; readonly runId: string; readonly logFile: string | undefined }
  /** Awake time of the machine during the run, since the last such event. */
  | { readonly kind: 'run-worked'; readonly job: string; readonly runId: string; readonly ms: number }
  /** @property record what the run itself recorded of its end */
  | {
      readonly kind: 'run-ended';
      readonly job: string;
      readonly runId: string;
      readonly end: RunProcessEnd;
      readonly record: RunRecord | undefined;
    }
  | { readonly kind: 'record-read'; readonly job: string; readonly record: RunView['record'] }
  | { readonly kind: 'status-read'; readonly job: string; readonly document: StatusDocument }
  | { readonly kind: 'status-failed'; readonly job: string; readonly reason: string }
  /** Someone views a page: refreshes the dataset statuses that children report. */
  | { readonly kind: 'looked-at' }
  | {
      readonly kind: 'alert-ended';
      readonly job: string;
      readonly cause: AlertCause;
      readonly owedAtMs: number;
      readonly hasGotThrough: boolean;
    }
  /** An earlier daemon could not report how a run ended. */
  | { readonly kind: 'unsent-found'; readonly job: string; readonly text: string }
  /** Every `BEAT_MS`. @property missed ticks that were not fired since the last beat */
  | { readonly kind: 'beat'; readonly missed: readonly MissedTick[] }
  | { readonly kind: 'beat-over' }
  /** A person asks for something; the effect `answer` has the same id. */
  | { readonly kind: 'asked'; readonly id: string; readonly ask: Ask }
  | { readonly kind: 'stop' };

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

export type AlertCause = OwedCause | 'gaps';

export type Effect =
  /** @property lastMs newest instant up to which the job is known to have run */
  | {
      readonly kind: 'schedule';
      readonly job: string;
      readonly schedule: JobSchedule;
      readonly lastMs: number | undefined;
    }
  | { readonly kind: 'reschedule'; readonly job: string; readonly schedule: JobSchedule }
  | { readonly kind: 'unschedule'; readonly job: string }
  /** The clock was set. */
  | { readonly kind: 'rearm' }
  | { readonly kind: 'claim'; readonly tick: Tick }
  /** Settles a tick that this daemon holds. */
  | { readonly kind: 'complete'; readonly tick: Tick }
  | { readonly kind: 'start-run'; readonly due: DueRun; readonly runId: string }
  | { readonly kind: 'stop-run'; readonly job: string }
  | { readonly kind: 'answer'; readonly id: string; readonly answer: AskAnswer }
  /** For the history of runs: what only the daemon knows of an end. */
  | { readonly kind: 'record-end'; readonly job: string; readonly run: EndedRun }
  | { readonly kind: 'read-status'; readonly job: string }
  | {
      readonly kind: 'send-alert';
      readonly job: string;
      readonly cause: AlertCause;
      readonly path: string;
      readonly args: readonly string[];
      readonly owedAtMs: number;
    }
  /** The job's tick is finished: a restart need not catch it up. */
  | { readonly kind: 'forget-unfinished'; readonly job: string }
  /** Keeps the end of a run for the next start, until an alert has reported it. */
  | { readonly kind: 'note-unsent'; readonly job: string; readonly text: string }
  | { readonly kind: 'forget-unsent'; readonly job: string }
  | { readonly kind: 'later'; readonly afterMs: number; readonly event: DaemonEvent }
  | {
      readonly kind: 'log';
      readonly level: 'debug' | 'info' | 'warn' | 'error';
      readonly line: Readonly<Record<string, unknown>> & { readonly event: string };
      readonly text: string;
    };

/** Questions of a step to the outside world; none of them changes anything. */
export interface Rules {
  readonly maxRuns: number;
  readonly newRunId: () => string;
  readonly hasSession: (tickMs: number) => boolean;
  /** Whether the job has operators to alert. */
  readonly hasAlerts: (job: Job) => boolean;
  /** Whether a session of the job can be staged now. */
  readonly canStage: (job: Job, nowMs: number) => boolean;
  /** The next tick of a job's schedule. */
  readonly nextTick: (job: string) => number | undefined;
}
