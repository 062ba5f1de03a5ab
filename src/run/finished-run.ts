/** What a run is asked for, and what it came to: types only. */
import type { Delivery } from '../deliver/delivery.ts';
import type { RunOptions } from '../export/export.ts';
import type { RunResult } from '../state/run-result.ts';

export interface RunRequest {
  /** `run`: a tick of the schedule, everything unsealed; `backfill`: dates that somebody chose. */
  readonly command: 'run' | 'backfill';
  /** Which dates; default: everything unsealed inside the lookback. `staged`: seal, as degraded, what is staged of expired ones. */
  readonly dates?: RunOptions | { readonly mode: 'staged'; readonly range: RunOptions['range'] };
  readonly withReports: boolean;
  /** Take whatever is at `drop.to` now for the job's store from now on. Default: false. */
  readonly isNewStore?: boolean | undefined;
}

/** What a run came to. Without an `error` it has a `result`. */
export interface FinishedRun {
  /** What was exported; `undefined` when the export could not come to its end. */
  readonly result: RunResult | undefined;
  readonly deliveries: readonly Delivery[];
  /** What ended the run before its end. */
  readonly error: unknown;
  /** What a run that came to its end lacks; `undefined` when all is well. */
  readonly shortfall: 'failed' | 'incomplete' | undefined;
}
