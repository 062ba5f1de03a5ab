/** What a run knows at its end that operators may need to know: the input of `causes.ts`. Pure. */
import { isFault } from '../core/errors.ts';
import type { Condition } from '../plan/conditions.ts';
import type { Delivery } from '../state/delivery.ts';
import type { RunResult } from '../state/run-result.ts';

type WatchedCommand = 'run' | 'backfill' | 'alert';

/** How a job's command ended. It may end anywhere, so any part may be absent. */
export interface RunOutcome {
  readonly command: WatchedCommand;
  /** Result of the export, if it finished. */
  readonly result?: RunResult | undefined;
  /** Set if reports were requested and finished. */
  readonly deliveries?: readonly Delivery[] | undefined;
  /** Whether reports were requested. */
  readonly withReports: boolean;
  /** The error that ended it early. */
  readonly failure?: RunFailure | undefined;
  /** Only `flowdrop alert`: how an earlier run ended that could not report it itself. */
  readonly died?: string | undefined;
  /** Only `flowdrop alert`: why the current job file cannot be used. */
  readonly jobFault?: string | undefined;
  /** Only `flowdrop alert`: whether the current job file was read. */
  readonly isJobFileRead?: boolean;
}

export interface RunFailure {
  readonly code: string;
  readonly message: string;
  readonly hint?: string | undefined;
  /** Whether the input was wrong: flags, job file, settings, SQL or the key. */
  readonly isUsage: boolean;
}

/** The outcome, and the state of the dates after it. */
export interface RunFacts extends RunOutcome {
  readonly job: string;
  /** Now, on the clock by which the source judges its lookback, as far as that is known. */
  readonly nowMs: number;
  /** Whether dates that are not fetched in time are lost. */
  readonly isExpiring: boolean;
  readonly conditions: Readonly<Record<string, Condition>>;
  /** Gaps that a person accepted: no reason for an alert. */
  readonly accepted: ReadonlySet<string>;
  /** Whether the job mails reports of the dates. */
  readonly hasReports: boolean;
}

/** A run that was stopped, or that found another one active, is no reason for an alert. */
export function isAlertWorthy(error: unknown): boolean {
  return !isFault(error) || (error.kind !== 'interrupted' && error.kind !== 'active');
}
