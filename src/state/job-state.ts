/**
 * The local state directory: the one place that builds its paths. It holds only what can be lost without losing a
 * sealed row: stages, files on their way to the store, limits of the API, and run records.
 */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import type { JobSource } from '../job/job.ts';
import { type DayCounts, dayCountsSchema } from '../plan/counts.ts';
import { type Failures, failuresSchema } from './failures.ts';
import { type LastSuccess, lastSuccessSchema, type RunEnd, runEndSchema } from './run-end.ts';
import { type RunResult, runResultSchema } from './run-result.ts';
import { StateFile } from './state-file.ts';
import { type Unavailable, unavailableSchema } from './unavailable.ts';

export class JobState {
  readonly #root: string;
  /** Data path of the embedded engine; its lock is what keeps two runs of one job apart. */
  readonly engine: string;
  readonly lastRun: StateFile<RunResult>;
  /** The last run of chosen dates. */
  readonly lastBackfill: StateFile<RunResult>;
  /** How the last run ended, whatever it came to; of chosen dates: `lastBackfillEnd`. */
  readonly lastEnd: StateFile<RunEnd>;
  readonly lastBackfillEnd: StateFile<RunEnd>;
  /** When a run last ended without anything being wrong. The next end that is not good does not hide it. */
  readonly lastSuccess: StateFile<LastSuccess>;
  /** Dates at which the last run that tried them failed. */
  readonly failures: StateFile<Failures>;
  /** Dates that the source was asked for in vain. */
  readonly unavailable: StateFile<Unavailable>;
  /** Path: what the run that goes on has done so far; none while no run goes on. */
  readonly progress: string;
  /** Path: what operators were told, while the store that keeps it could not be written. */
  readonly alerts: string;
  /** Folder of the logs of the daemon's runs, one file each. */
  readonly logs: string;
  /** Path: the tick of the daemon's that is not over yet. */
  readonly unfinished: string;
  /** Path: how a run of the daemon's ended that nobody could be told of yet. */
  readonly untold: string;
  /** Path: who this worker is to others that share its store. */
  readonly worker: string;
  /** Folder of drops. */
  readonly drops: string;

  constructor(stateDir: string, jobName: string) {
    this.#root = join(stateDir, jobName);
    const at = (name: string) => join(this.#root, name);
    this.engine = at('engine');
    this.lastRun = new StateFile(at('last-run.json'), runResultSchema);
    this.lastBackfill = new StateFile(at('last-backfill.json'), runResultSchema);
    this.lastEnd = new StateFile(at('last-end.json'), runEndSchema);
    this.lastBackfillEnd = new StateFile(at('last-backfill-end.json'), runEndSchema);
    this.lastSuccess = new StateFile(at('last-success.json'), lastSuccessSchema);
    this.failures = new StateFile(at('failures.json'), failuresSchema);
    this.unavailable = new StateFile(at('unavailable.json'), unavailableSchema);
    this.progress = at('progress.json');
    this.alerts = at('alerts.json');
    this.logs = at('logs');
    this.unfinished = at('unfinished.json');
    this.untold = at('untold.json');
    this.worker = at('worker');
    this.drops = at('drops');
  }

  /** Counts of the source from before a date's first page; aggregating jobs compare them with the recount. */
  counts(date: string): StateFile<DayCounts> {
    return countsFile(join(this.#root, 'counts', `${date}.json`));
  }

  /** A drop's file before it is published, and for the report after. */
  drop(date: string): string {
    return join(this.drops, `${date}.parquet`);
  }
}

export function countsFile(path: string): StateFile<DayCounts> {
  return new StateFile(path, dayCountsSchema);
}

/**
 * Where the limits of an API are kept: shared by the jobs that ask the same table under the same key for the same rows.
 * @param keyFingerprint tells one key from another without containing it
 */
export function limitsPath(stateDir: string, url: string, keyFingerprint: string, source: JobSource): string {
  const asked = 'sql' in source ? [source.table, source.kind === 'rows' ? source.where : '', source.sql] : [source.api];
  const identity = createHash('sha256').update(JSON.stringify([url, keyFingerprint, ...asked]));
  return join(stateDir, 'limits', `${identity.digest('hex').slice(0, 16)}.json`);
}

/** Where the daemon keeps the last good text of each job file; no job has that name. */
export function keptJobsOf(stateDir: string): string {
  return join(stateDir, '_daemon', 'jobs');
}
