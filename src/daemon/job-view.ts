/**
 * What the daemon shows of itself: the input of the status page, `/healthz` and `/metrics`. Types only. The loop fills it,
 * the web part reads it, and neither knows the other.
 */
import type { RunDocument, StatusDocument } from './documents.ts';

/** Why a run was started. `take-over`: the daemon that had begun it died. `gap`: no session today, but dates are pending. */
export type RunReason = 'scheduled' | 'catch-up' | 'retry' | 'take-over' | 'gap';

export interface DaemonView {
  readonly version: string;
  /** Tells this daemon from others that share a schedule. */
  readonly id: string;
  readonly startedAtMs: number;
  /** When the loop last came to its end: it stands still when that is long ago. */
  readonly beatAtMs: number;
  readonly isStopping: boolean;
  /** In the order of their names. */
  readonly jobs: readonly JobView[];
}

export interface JobView {
  readonly name: string;
  readonly file: string;
  readonly schedule: { readonly cron: string; readonly timezone: string; readonly distributed: boolean } | undefined;
  /** The next tick of the schedule; of a run that failed, `retryAtMs` may come before it. */
  readonly nextRunAtMs: number | undefined;
  readonly retryAtMs: number | undefined;
  /** Waiting for a place among the runs that may go on at once; milliseconds since the epoch. */
  readonly waitingSinceMs: number | undefined;
  readonly running: RunView | undefined;
  /** Newest first; bounded. */
  readonly finished: readonly RunRecord[];
  /** Why the job file as it is now is not used; the job goes on as it was before. */
  readonly fault: { readonly message: string; readonly sinceMs: number } | undefined;
  /** What `flowdrop --json status` said last, and when; `undefined` until it has said something. */
  readonly status: { readonly document: StatusDocument; readonly readAtMs: number } | undefined;
  /** Why the last reading of the status failed, when it did. */
  readonly statusFault: string | undefined;
}

export interface RunView {
  readonly runId: string;
  readonly reason: RunReason;
  readonly startedAtMs: number;
  /** What the run last wrote of its progress. */
  readonly progress: StatusDocument['running'];
}

/** A tick on a day without a session ends as `no-session`, without a process; `timed-out` took longer than its job allows. */
export interface RunRecord {
  readonly runId: string;
  readonly reason: RunReason;
  readonly startedAtMs: number;
  readonly finishedAtMs: number;
  readonly outcome:
    | 'done'
    | 'failed'
    | 'usage'
    | 'incomplete'
    | 'active'
    | 'interrupted'
    | 'died'
    | 'timed-out'
    | 'no-session';
  /** Exit code; `undefined` where a signal ended it, or no process was started. */
  readonly code: number | undefined;
  readonly signal: string | undefined;
  /** What it printed with `--json`; `undefined` when it came to no end of its own. */
  readonly result: RunDocument | undefined;
  /** Code and message of its failure, as it printed them. */
  readonly error: { readonly code: string; readonly message: string; readonly hint?: string | undefined } | undefined;
  /** Where its log is. */
  readonly logFile: string | undefined;
}
