/**
 * The daemon's public view, the input of the status page, `/healthz` and `/metrics`, and what the page may ask. Types
 * only. The loop fills it, the web part reads it, and neither knows the other.
 */
import type { RunCommand, RunRecord } from '../state/run-record.ts';
import type { StatusDocument } from './documents.ts';

/**
 * Why a run was started. `take-over`: the daemon that started it died. `gap`: no session today, but dates are pending.
 * `stage`: only stages the running session. `asked`: a person asked for it on the page.
 */
export type RunReason = Exclude<RunRecord['reason'], 'hand'>;

export interface DaemonView {
  readonly version: string;
  /** Distinguishes this daemon from others that share a schedule. */
  readonly id: string;
  readonly startedAtMs: number;
  /** When the loop last completed a beat: if that is long ago, the loop is stuck. */
  readonly beatAtMs: number;
  readonly isStopping: boolean;
  /** Sorted by name. */
  readonly jobs: readonly JobView[];
}

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
  readonly running?: RunView | undefined;
  /** Runs that this machine remembers, newest first, without staging; bounded. */
  readonly runs: readonly RunRecord[];
  /** Why the current job file is not used; the job continues unchanged. */
  readonly fault?: { readonly message: string; readonly sinceMs: number } | undefined;
  /** The last output of `flowdrop --json status`, and when it was read; `undefined` before the first. */
  readonly status?: { readonly document: StatusDocument; readonly readAtMs: number } | undefined;
  /** Why the last reading of the status failed, if it did. */
  readonly statusFault?: string | undefined;
}

export interface RunView {
  readonly runId: string;
  readonly reason: RunReason;
  readonly startedAtMs: number;
  /** As the run last wrote it; null before its process did. */
  readonly record: RunRecord | null;
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
