/**
 * The local state directory: the one place that builds its paths. It holds only what can be lost without losing a
 * sealed row: stages, files on their way to the store, what was learnt of the API, and run records.
 */
import { join } from 'node:path';

export interface StatePaths {
  /** Data path of the embedded engine; its lock is what keeps two runs of one job apart. */
  readonly engine: string;
  readonly learnt: string;
  readonly lastRun: string;
  /** Who this worker is to others that share its store. */
  readonly worker: string;
  /** Counts of the source from before a date's first page; aggregating jobs compare them with the recount. */
  counts(date: string): string;
  /** A drop's file before it is published, and for the report after. */
  drop(date: string): string;
  readonly drops: string;
}

export function stateOf(stateDir: string, jobName: string): StatePaths {
  const root = join(stateDir, jobName);
  return {
    engine: join(root, 'engine'),
    learnt: join(root, 'learnt.json'),
    lastRun: join(root, 'last-run.json'),
    worker: join(root, 'worker'),
    counts: (date) => join(root, 'counts', `${date}.json`),
    drops: join(root, 'drops'),
    drop: (date) => join(root, 'drops', `${date}.parquet`),
  };
}
