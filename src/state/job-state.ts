/**
 * The local state directory: only this module builds its paths. It holds only data that can be lost without losing a
 * sealed row: stages, files on their way to the store, limits of the API, run records, and what runs knew of their dates.
 */
import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { access, mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import type { CalendarOverride } from '../calendar/session.ts';
import { makeFolder, readJsonFile, writeWholeFile } from '../core/atomic-file.ts';
import { describeError, Fault } from '../core/errors.ts';
import type { JobSource } from '../job/job.ts';
import { CONDITIONS } from '../plan/conditions.ts';
import { type DayCounts, dayCountsSchema } from '../plan/counts.ts';
import { settledAt } from '../plan/dates.ts';
import type { DateResult } from './run-result.ts';

export type JobState = Readonly<ReturnType<typeof openJobState>>;

/** What this machine keeps of one job: documents, and paths for others. Touches no file. */
export function openJobState(stateDir: string, jobName: string) {
  const at = (name: string) => join(stateDir, jobName, name);
  return {
    /** Data path of the embedded engine; its lock prevents two simultaneous runs of one job. */
    engine: at('engine'),
    known: new StateFile(at('known-dates.json'), knownDatesSchema),
    unavailable: new StateFile<Unavailable>(at('unavailable.json'), unavailableSchema),
    staging: new StateFile(at('staging.json'), stagingSchema),
    /** Path: alerts sent while the store that records them could not be written. */
    alerts: at('alerts.json'),
    /**
     * Folders of the records of runs, and of their logs, one file each: `RunHistory` names the files. Staging, which is
     * frequent and dull, has its own, so that it does not push out those of runs.
     */
    runs: { records: at('runs'), logs: at('logs') },
    stagings: { records: at('stage-runs'), logs: at('stage-logs') },
    /** Path: this worker's identity, for others that share its store. */
    worker: at('worker'),
    drops: at('drops'),
    /** A drop's local file: before it is published, and for the report after. */
    drop: (date: string) => at(join('drops', `${date}.parquet`)),
    /** Row counts of the source, taken before a date's first page; aggregating jobs compare them with the recount. */
    counts: (date: string) => new StateFile<DayCounts>(at(join('counts', `${date}.json`)), dayCountsSchema),
  };
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

export function actionLogOf(stateDir: string): string {
  return join(stateDir, '_daemon', 'actions.jsonl');
}

/** The sign of life of the daemon. */
export function heartbeatOf(stateDir: string): string {
  return join(stateDir, '_daemon', 'heartbeat.json');
}

/** Where the daemon keeps the last valid text of each job file; no job can have the name `_daemon`. */
export function keptJobsOf(stateDir: string): string {
  return join(stateDir, '_daemon', 'jobs');
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
  /** By the API's clock. */
  asked_at: z.string(),
  url: z.string(),
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

export type AskedSymbols = Readonly<Pick<Unavailable[string], 'url'>> & { readonly symbols: readonly string[] };

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

/**
 * One small JSON document of the state folder. Invariant: readers see a complete document or none. A truncated or damaged
 * document, or one of another version, counts as absent, because its content can be rebuilt.
 */
export class StateFile<T> {
  readonly path: string;
  readonly #schema: z.ZodType<T>;

  constructor(path: string, schema: z.ZodType<T>) {
    this.path = path;
    this.#schema = schema;
  }

  /** `undefined` when the file is absent or invalid. @throws the system error when the file cannot be read */
  async read(): Promise<T | undefined> {
    return await readJsonFile(this.path, this.#schema);
  }

  /** @throws the system error when the disk cannot be written */
  async write(value: T): Promise<void> {
    await writeWholeFile(this.path, `${JSON.stringify(value, undefined, 2)}\n`);
  }

  async remove(): Promise<void> {
    await rm(this.path, { force: true });
  }
}

/**
 * Checks that the state folder is usable, before anything is opened: otherwise the first of many files would fail with an
 * unclear error. Creates it if it is absent. It does not check free disk space, which can run out at any time; that error
 * is reported where it happens. Idempotent. @throws Fault `STATE_UNUSABLE`
 */
export async function assertStateFolder(path: string): Promise<void> {
  try {
    await makeFolder(path);
    await access(path, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (cause) {
    throw new Fault('STATE_UNUSABLE', `cannot create or write the state folder ${path}: ${describeError(cause)}`, {
      cause,
      hint: 'Set FLOWDROP_STATE_DIR to a folder on a local disk that this user can write or create. A file or a broken link must not have that name.',
    });
  }
}

/** An older folder belongs to a killed command: a folder in use gains and loses files all the time. */
const STALE_AFTER_MS = 24 * 3_600_000;
const SCRATCH = 'verify-';

/**
 * A folder for the files of one command; the caller removes it. Also removes old folders of killed commands.
 * @throws Fault `STATE_UNUSABLE`
 */
export async function makeScratchFolder(stateDir: string, nowMs: number): Promise<string> {
  await assertStateFolder(stateDir);
  for (const name of (await readdir(stateDir)).filter((one) => one.startsWith(SCRATCH))) {
    const path = join(stateDir, name);
    const found = await stat(path).catch(() => undefined);
    // Ignorable: another command may remove it at the same moment, or else the next command does.
    if (found && nowMs - found.mtimeMs > STALE_AFTER_MS) await rm(path, { recursive: true, force: true });
  }
  return await mkdtemp(join(stateDir, SCRATCH));
}

/** Lends such a folder to `act`. @throws Fault `STATE_UNUSABLE` */
export async function withScratchFolder<T>(stateDir: string, nowMs: number, act: (folder: string) => Promise<T>) {
  const folder = await makeScratchFolder(stateDir, nowMs);
  try {
    return await act(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
