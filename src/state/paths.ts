/**
 * The local state directory: the one place that builds its paths. It holds only what can be lost without losing a
 * sealed row: stages, files on their way to the store, what was learnt of the API, and run records.
 */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import type { JobSource } from '../job/job.ts';

export interface StatePaths {
  /** Data path of the embedded engine; its lock is what keeps two runs of one job apart. */
  readonly engine: string;
  readonly lastRun: string;
  /** The last run of chosen dates. */
  readonly lastBackfill: string;
  /** What the run that goes on has done so far; none while no run goes on. */
  readonly progress: string;
  /** Dates at which the last run that tried them failed. */
  readonly failures: string;
  /** Dates that the source was asked for in vain. */
  readonly absences: string;
  /** What operators were told, while the store that keeps it could not be written. */
  readonly alerts: string;
  /** Logs of the daemon's runs, one file each. */
  readonly logs: string;
  /** The tick of the daemon's that is not over yet. */
  readonly unfinished: string;
  /** How a run of the daemon's ended that nobody could be told of yet. */
  readonly untold: string;
  /** When a run last ended without anything being wrong. */
  readonly lastSuccess: string;
  /** How the last run ended, whatever it came to; of chosen dates: `lastBackfillEnd`. */
  readonly lastEnd: string;
  readonly lastBackfillEnd: string;
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
    lastRun: join(root, 'last-run.json'),
    lastBackfill: join(root, 'last-backfill.json'),
    progress: join(root, 'progress.json'),
    failures: join(root, 'failures.json'),
    absences: join(root, 'absences.json'),
    alerts: join(root, 'alerts.json'),
    logs: join(root, 'logs'),
    unfinished: join(root, 'unfinished.json'),
    untold: join(root, 'untold.json'),
    lastSuccess: join(root, 'last-success.json'),
    lastEnd: join(root, 'last-end.json'),
    lastBackfillEnd: join(root, 'last-backfill-end.json'),
    worker: join(root, 'worker'),
    counts: (date) => join(root, 'counts', `${date}.json`),
    drops: join(root, 'drops'),
    drop: (date) => join(root, 'drops', `${date}.parquet`),
  };
}

/**
 * Where is kept what was learnt of an API: shared by the jobs that ask the same table under the same key for the same rows.
 * @param keyFingerprint tells the key from others, and does not tell the key
 */
export function learntPath(stateDir: string, url: string, keyFingerprint: string, source: JobSource): string {
  const asked = 'sql' in source ? [source.table, source.kind === 'rows' ? source.where : '', source.sql] : [source.api];
  const identity = createHash('sha256').update(JSON.stringify([url, keyFingerprint, ...asked]));
  return join(stateDir, 'learnt', `${identity.digest('hex').slice(0, 16)}.json`);
}

/** Where the daemon keeps the last good text of each job file; no job has that name. */
export function keptJobsOf(stateDir: string): string {
  return join(stateDir, '_daemon', 'jobs');
}
