/**
 * The local state directory: only this module builds its paths. It holds only data that can be lost without losing a
 * sealed row: stages, files on their way to the store, limits of the API, and run records.
 */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { z } from 'zod';
import type { JobSource } from '../job/job.ts';
import { type DayCounts, dayCountsSchema } from '../plan/counts.ts';
import { type Failures, failuresSchema } from './failures.ts';
import { type KnownDates, knownDatesSchema } from './known-dates.ts';
import { type Staging, stagingSchema } from './staging.ts';
import { StateFile } from './state-file.ts';
import { type Unavailable, unavailableSchema } from './unavailable.ts';

export class JobState {
  readonly #root: string;
  /** Data path of the embedded engine; its lock prevents two simultaneous runs of one job. */
  readonly engine: string;
  /** What the last run knew of the dataset. */
  readonly known: StateFile<KnownDates>;
  /** Dates whose last attempt failed. */
  readonly failures: StateFile<Failures>;
  /** Dates for which the source had no data. */
  readonly unavailable: StateFile<Unavailable>;
  /** How far the running session is staged. */
  readonly staging: StateFile<Staging>;
  /** Path: alerts sent while the store that records them could not be written. */
  readonly alerts: string;
  /** Folder of the records of runs, and of their logs, one file each: `RunHistory` names the files. */
  readonly runs: string;
  readonly logs: string;
  /** The same of staging, so that it does not push out those of runs. */
  readonly stageRuns: string;
  readonly stageLogs: string;
  /**
   * The tick that the daemon has not finished: kept during its run and while a retry is planned. However the daemon ends
   * in between, its next start finds that the tick is still owed; a record of the export does not prove that the reports
   * were mailed.
   */
  readonly unfinished: StateFile<{ due_at: string }>;
  /** The end of a daemon's run that no operator alert has reported yet, in words for operators. */
  readonly unsent: StateFile<{ died: string }>;
  /** Path: this worker's identity, for others that share its store. */
  readonly worker: string;
  /** Folder of drops. */
  readonly drops: string;

  constructor(stateDir: string, jobName: string) {
    this.#root = join(stateDir, jobName);
    const at = (name: string) => join(this.#root, name);
    this.engine = at('engine');
    this.known = new StateFile(at('known-dates.json'), knownDatesSchema);
    this.failures = new StateFile(at('failures.json'), failuresSchema);
    this.unavailable = new StateFile(at('unavailable.json'), unavailableSchema);
    this.staging = new StateFile(at('staging.json'), stagingSchema);
    this.alerts = at('alerts.json');
    this.runs = at('runs');
    this.logs = at('logs');
    this.stageRuns = at('stage-runs');
    this.stageLogs = at('stage-logs');
    this.unfinished = new StateFile(at('unfinished.json'), z.object({ due_at: z.iso.datetime() }));
    this.unsent = new StateFile(at('unsent.json'), z.object({ died: z.string() }));
    this.worker = at('worker');
    this.drops = at('drops');
  }

  /** Row counts of the source, taken before a date's first page; aggregating jobs compare them with the recount. */
  counts(date: string): StateFile<DayCounts> {
    return countsFile(join(this.#root, 'counts', `${date}.json`));
  }

  /** A drop's local file: before it is published, and for the report after. */
  drop(date: string): string {
    return join(this.drops, `${date}.parquet`);
  }
}

export function countsFile(path: string): StateFile<DayCounts> {
  return new StateFile(path, dayCountsSchema);
}

/**
 * Path of an API's limits. Jobs share the file when they ask the same table for the same rows under the same key.
 * @param keyFingerprint identifies the key without containing it
 */
export function limitsPath(stateDir: string, url: string, keyFingerprint: string, source: JobSource): string {
  const asked = 'sql' in source ? [source.table, source.kind === 'rows' ? source.where : '', source.sql] : [source.api];
  const identity = createHash('sha256').update(JSON.stringify([url, keyFingerprint, ...asked]));
  return join(stateDir, 'limits', `${identity.digest('hex').slice(0, 16)}.json`);
}

/** What people did on the daemon's page. */
export function actionLogOf(stateDir: string): string {
  return join(stateDir, '_daemon', 'actions.jsonl');
}

/** Where the daemon keeps the last valid text of each job file; no job can have the name `_daemon`. */
export function keptJobsOf(stateDir: string): string {
  return join(stateDir, '_daemon', 'jobs');
}
