/** What a run knows at its end of what operators must be told: the input of `causes.ts`. Pure. */
import { isFault } from '../core/errors.ts';
import type { Delivery } from '../deliver/delivery.ts';
import type { Condition } from '../plan/conditions.ts';
import type { RunResult } from '../state/run-result.ts';

type WatchedCommand = 'run' | 'backfill' | 'alert';

/** How a command of a job ended; every part may be lacking, because it may have ended anywhere. */
export interface RunOutcome {
  readonly command: WatchedCommand;
  /** Of the export, when it finished. */
  readonly result?: RunResult | undefined;
  /** When the reports were wanted and came to their end. */
  readonly deliveries?: readonly Delivery[] | undefined;
  /** Whether reports were wanted. */
  readonly withReports: boolean;
  /** What ended it, when it did not end by itself. */
  readonly failure?: RunFailure | undefined;
  /** Of `flowdrop alert`: how an earlier run ended that could not tell it itself. */
  readonly died?: string | undefined;
  /** Of `flowdrop alert`: why the job file as it is now cannot be used. */
  readonly jobFault?: string | undefined;
  /** Of `flowdrop alert`: whether the job file as it is now was read. */
  readonly isJobFileRead?: boolean;
}

export interface RunFailure {
  readonly code: string;
  readonly message: string;
  readonly hint?: string | undefined;
  /** Whether it was wrong from the start: flags, job file, settings, SQL or the key. */
  readonly isUsage: boolean;
}

/** The outcome, and the state of the dates that it left behind. */
export interface RunFacts extends RunOutcome {
  readonly job: string;
  /** The clock that the source judges its lookback by, as far as it is known. */
  readonly nowMs: number;
  /** Whether dates that are not fetched in time are lost. */
  readonly isExpiring: boolean;
  readonly conditions: Readonly<Record<string, Condition>>;
  /** Whether the job mails reports of the dates. */
  readonly hasReports: boolean;
}

/** Neither somebody who stops a run, nor a run that finds another one active, is anything to tell of. */
export function isAlertWorthy(error: unknown): boolean {
  return !isFault(error) || (error.kind !== 'interrupted' && error.kind !== 'active');
}
