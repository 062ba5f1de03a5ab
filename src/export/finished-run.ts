/** What a run is asked to do, and its outcome: types only. */
import type { Delivery, RunResult } from '../state/run-result.ts';
import type { RunOptions } from './export.ts';

export interface RunRequest {
  /** `run`: a tick of the schedule, everything unsealed; `backfill`: a date selection. */
  readonly command: 'run' | 'backfill';
  /**
   * Which dates; default: everything unsealed inside the lookback. `staged`: seal, as degraded, the staged data of
   * expired dates.
   */
  readonly dates?: RunOptions | { readonly mode: 'staged'; readonly range: RunOptions['range'] };
  readonly withReports: boolean;
  /** Accept the store that is now at `drop.to` as the job's store from now on. Default: false. */
  readonly isNewStore?: boolean | undefined;
}

/** Outcome of a run. Without an `error` it has a `result`. */
export interface FinishedRun {
  /** Result of the export; `undefined` if the export did not finish. */
  readonly result: RunResult | undefined;
  readonly deliveries: readonly Delivery[];
  /** The error that ended the run early. */
  readonly error: unknown;
  /** What is wrong with a run that finished; `undefined` if nothing is. */
  readonly shortfall: 'failed' | 'incomplete' | undefined;
}
