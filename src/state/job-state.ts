/**
 * The local state directory: only this module builds its paths. It holds only data that can be lost without losing a
 * sealed row: stages, files on their way to the store, limits of the API, run records, and what runs knew of their dates.
 */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { z } from 'zod';
import type { CalendarOverride } from '../calendar/session.ts';
import type { JobSource } from '../job/job.ts';
import { CONDITIONS } from '../plan/conditions.ts';
import { type DayCounts, dayCountsSchema } from '../plan/counts.ts';
import { settledAt } from '../plan/dates.ts';
import type { DateResult } from './run-result.ts';
import { StateFile } from './state-file.ts';

export type JobState = Readonly<ReturnType<typeof openJobState>>;

/** What this machine keeps of one job: documents, and paths for others. Touches no file. */
export function openJobState(stateDir: string, jobName: string) {
  const at = (name: string) => join(stateDir, jobName, name);
  return {
    /** Data path of the embedded engine; its lock prevents two simultaneous runs of one job. */
    engine: at('engine'),
    /** What the last run knew of the dataset. */
    known: new StateFile(at('known-dates.json'), knownDatesSchema),
    /** Dates whose last attempt failed. */
    failures: new StateFile(at('failures.json'), failuresSchema),
    /** Dates for which the source had no data. */
    unavailable: new StateFile<Unavailable>(at('unavailable.json'), unavailableSchema),
    /** How far the running session is staged. */
    staging: new StateFile(at('staging.json'), stagingSchema),
    /** Path: alerts sent while the store that records them could not be written. */
    alerts: at('alerts.json'),
    /** Folder of the records of runs, and of their logs, one file each: `RunHistory` names the files. */
    runs: at('runs'),
    logs: at('logs'),
    /** The same of staging, so that it does not push out those of runs. */
    stageRuns: at('stage-runs'),
    stageLogs: at('stage-logs'),
    /**
     * The tick that the daemon has not finished: kept during its run and while a retry is planned. However the daemon ends
     * in between, its next start finds that the tick is still owed; a record of the export does not prove that the reports
     * were mailed.
     */
    unfinished: new StateFile(at('unfinished.json'), z.object({ due_at: z.iso.datetime() })),
    /** The end of a daemon's run that no operator alert has reported yet, in words for operators. */
    unsent: new StateFile(at('unsent.json'), z.object({ died: z.string() })),
    /** Path: this worker's identity, for others that share its store. */
    worker: at('worker'),
    /** Folder of drops. */
    drops: at('drops'),
    /** A drop's local file: before it is published, and for the report after. */
    drop: (date: string) => at(join('drops', `${date}.parquet`)),
    /** Row counts of the source, taken before a date's first page; aggregating jobs compare them with the recount. */
    counts: (date: string) => countsFile(at(join('counts', `${date}.json`))),
  };
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

/** Dates whose last attempt failed. */
const failuresSchema = z.record(z.string(), z.object({ code: z.string(), at: z.string() }));

type Failures = z.infer<typeof failuresSchema>;

/** Adds the failures of a run, and removes dates that it exported. @param at when the run ended */
export function addFailures(before: Failures, results: readonly DateResult[], at: string): Failures {
  const after = { ...before };
  for (const { date, error } of results) {
    if (error) after[date] = { code: error.code, at };
    else delete after[date];
  }
  return after;
}

/** What the last run that finished its export knew of its dataset: for `status` without the store, and the next run. */
const knownDatesSchema = z.object({
  /** When the export ended. */
  at: z.string(),
  store: z.string(),
  /** Condition of every known session date. */
  conditions: z.record(z.string(), z.enum(CONDITIONS)),
});

export type KnownDates = z.infer<typeof knownDatesSchema>;

/** How far a session is staged while it runs, as the last staging run wrote it: for `status`, and for the next one. */
const stagingSchema = z.object({
  date: z.string(),
  /** When it was written. */
  at: z.string(),
  /** Rows before this second of the day (exchange time) are staged. */
  second: z.int().min(0),
  rows: z.int().min(0),
  pages: z.int().min(0),
  /** Requests that found the ends of full pages. */
  asked: z.int().min(0),
  /** Rows that the source had before a second, when they were counted last. */
  seen: z.object({ second: z.int().min(0), rows: z.int().min(0) }),
});

export type Staging = z.infer<typeof stagingSchema>;

const askedSchema = z.object({
  /** When it was last asked for, by the API's clock. */
  asked_at: z.string(),
  /** The URL that had no data. */
  url: z.string(),
  /** The symbols that it had no data for. */
  symbols: z.array(z.string()),
});

/**
 * By date: those that a source had no data for, so that runs do not ask for the same missing snapshots every night.
 * `condition.json` records that a date is missing, but not when it was asked for or for which symbols, and it does not
 * list dates before the first drop. Losing this record costs one more night's requests.
 */
const unavailableSchema = z.record(z.string(), askedSchema);

export type Unavailable = Readonly<z.infer<typeof unavailableSchema>>;

/**
 * How long after its session's rows are visible a snapshot may still arrive. The exchange's longest weekend is four days, and
 * a provider fixes on a working day what its alarms reported on the weekend. Asking costs one request a symbol and
 * night.
 */
export const LATE_DAYS = 5;

const DAY_MS = 86_400_000;

/** What a run asks the source for. */
export interface AskedSymbols {
  readonly url: string;
  readonly symbols: readonly string[];
}

/**
 * Whether the last request for these symbols came too late to expect more data. A symbol new to the job is asked for
 * again.
 */
export function isUnavailable(
  asked: Unavailable[string] | undefined,
  { url, symbols }: AskedSymbols,
  date: string,
  calendar?: CalendarOverride,
): boolean {
  if (asked === undefined || asked.url !== url) return false;
  const isLate = Date.parse(asked.asked_at) >= settledAt(date, { settleSeconds: 0, calendar }) + LATE_DAYS * DAY_MS;
  return isLate && symbols.every((symbol) => asked.symbols.includes(symbol));
}

/**
 * Adds the dates that a run found no data for. Removes those it found, and those before the lookback.
 * @param firstWhole first date of the lookback
 */
export function addUnavailable(
  before: Unavailable,
  results: readonly DateResult[],
  { url, symbols }: AskedSymbols,
  { askedAt, firstWhole }: { readonly askedAt: string; readonly firstWhole: string },
): Unavailable {
  const after = new Map(Object.entries(before).filter(([date]) => date >= firstWhole));
  for (const { date, status } of results) {
    if (status !== 'missing') after.delete(date);
    else if (date >= firstWhole) after.set(date, { asked_at: askedAt, url, symbols: [...symbols] });
  }
  return Object.fromEntries(after);
}
