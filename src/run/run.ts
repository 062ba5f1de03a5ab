/**
 * What a command holds while it works on a job: it opens all of it, and closes it in reverse order. The lock of the
 * engine's folder lets one run of a job at a time work on this machine. What a run does: `export/run-job.ts`.
 */

import { rename, rm } from 'node:fs/promises';
import { EXCHANGE_TIME_ZONE } from '../api-contract/published-limits.ts';
import type { CalendarOverride } from '../calendar/session.ts';
import type { RestCatalog } from '../catalog/rest-catalog.ts';
import { makeFolder } from '../core/atomic-file.ts';
import type { Clock } from '../core/clock.ts';
import { formatInstant } from '../core/date-text.ts';
import { assertNotAborted, Fault, isFault } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import type { Engine } from '../engine/engine.ts';
import type { Job } from '../job/job.ts';
import { Ledger } from '../ledger/ledger.ts';
import type { Mailer } from '../mail/message.ts';
import type { Openers } from '../openers.ts';
import { SourceFault, type SourceStats } from '../source/source.ts';
import { assertStateFolder, type JobState, openJobState, withScratchFolder } from '../state/job-state.ts';
import { createTotals, type OnRunEvent, type RunTotals } from '../state/run-events.ts';
import { RunHistory } from '../state/run-history.ts';
import { closeSource, type OpenedSource, type OpenedSql, openJobSource } from './open-source.ts';

/** What every run has; it reads and writes only the state folder and the store. */
export interface Run extends Pick<Openers, 'runId' | 'mailFrom' | 'clock' | 'redact' | 'templatesDir' | 'version'> {
  readonly engine: Engine;
  /** Of the job's dataset; its store is the run's. */
  readonly ledger: Ledger;
  readonly state: JobState;
  readonly history: RunHistory;
  readonly mailer: Mailer;
  /** Sessions that differ from the exchange's rules; without it the rules alone. */
  readonly calendar?: CalendarOverride | undefined;
  readonly log: Log;
  readonly onEvent: OnRunEvent;
  /** Total time to wait between the tries of deferred mail; absent: the default in `deliver/`. */
  readonly mailPatienceMs?: number | undefined;
  /** Address of the status page for readers, without a slash at its end; `undefined` if they cannot reach it. */
  readonly publicUrl: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** A run that asks the job's source. */
export interface ExportRun extends Run, Pick<OpenedSource, 'source' | 'clocks' | 'limits'> {
  /** The source, which is also among the members of the run, with what sends its requests. */
  readonly opened: OpenedSource;
  /** The catalog that also has the job's table. */
  readonly catalog?: RestCatalog | undefined;
  /** Who asked that the source's rows replace the sealed ones, however doubtful the change. */
  readonly acceptedBy?: string | undefined;
}

/** A run that asks by SQL, with all that asks. */
export type SqlRun = ExportRun & OpenedSql;

/** The active run is among the newest of its job. */
const RECENT_RUNS = 5;

/** A report sends no requests to a source. */
const NO_REQUESTS = { requests: 0, retries: 0, rateLimited: 0, bytes: 0 } as const;

/** Shows how far a run has come; nothing depends on it. */
export interface Progress {
  /** Shows the totals after the event. */
  readonly onEvent: OnRunEvent;
  stop(): void;
}

export interface ProgressInput {
  readonly log: Log;
  readonly clock: Clock;
  /** Includes each event before it is shown. */
  readonly totals: RunTotals;
  readonly stats: Readonly<Pick<SourceStats, 'requests' | 'retries' | 'rateLimited' | 'bytes'>>;
}

/** What a run needs from outside. */
export interface RunEnv extends Openers {
  /** Aborted when the run is stopped. */
  readonly signal: AbortSignal;
  /** Options of the command, as they were typed. */
  readonly flags: readonly string[];
  readonly mailPatienceMs?: Run['mailPatienceMs'];
  showProgress(input: ProgressInput): Progress;
}

interface OpenOptions {
  /** Accept the store that is now at `drop.to` as the job's store from now on. Default: false. */
  readonly isNewStore?: boolean | undefined;
}

/**
 * For a run: with the source.
 * @throws Fault `STATE_UNUSABLE`, `STORE_CHANGED`; `RUN_ACTIVE` (kind `active`) if another run of the job is active
 */
export async function withExportRun<T>(
  env: RunEnv,
  job: Job,
  action: (run: ExportRun) => Promise<T>,
  options: OpenOptions = {},
): Promise<T> {
  const log = (await env.openLog()).child({ job: job.name });
  // Opened first: a missing setting must not leave a store or an engine open.
  const calendar = await env.readCalendar();
  const { signal } = env;
  // A run writes only to the state folder and the store; so must the engine that reads its SQL.
  const opened = await withScratchFolder(env.stateDir, env.clock.now(), async (path) => {
    const openEngine = () => env.openEngine({ path, signal });
    return await openJobSource({ ...env, openEngine }, job, { log, calendar, signal });
  });
  try {
    const { source, clocks, limits } = opened;
    const catalog = job.drop.catalog === null ? undefined : await env.openCatalog(job.drop.catalog);
    return await withRun(env, job, (run) => action({ ...run, catalog, source, clocks, limits, opened }), {
      ...options,
      stats: source.stats,
    });
  } catch (error) {
    throw opened.source.tellsTime() ? tellDenial(error) : error;
  } finally {
    await closeSource(opened);
  }
}

/** A key or an address that was right when the run began: something was started, so it is no wrong setting. */
function tellDenial(error: unknown): unknown {
  if (!(error instanceof SourceFault) || error.action !== 'denied') return error;
  const { code, message, action, hint = '', cause } = error;
  const next =
    'Earlier requests of this run were answered; when it is right again, start the same command: it goes on.';
  return new SourceFault(code, message, { action, kind: 'failed', hint: `${hint} ${next}`.trimStart(), cause });
}

/**
 * For a report: without the source.
 * @throws Fault `STATE_UNUSABLE`, `RUN_ACTIVE`, `STORE_CHANGED`
 */
export async function withRun<T>(
  env: RunEnv,
  job: Job,
  action: (run: Run) => Promise<T>,
  { stats = NO_REQUESTS, isNewStore = false }: OpenOptions & Partial<Pick<ProgressInput, 'stats'>> = {},
): Promise<T> {
  const closers: (() => Promise<void> | void)[] = [];
  try {
    const log = (await env.openLog()).child({ job: job.name });
    const calendar = await env.readCalendar();
    await assertStateFolder(env.stateDir);
    const state = openJobState(env.stateDir, job.name);
    const use = isNewStore ? 'new' : 'run';
    const store = await env.openStore(job.drop.to, { objects: job.drop.s3, use });
    closers.push(() => store.close());
    const mailer = await env.openMailer();
    closers.push(() => mailer.close());
    await makeFolder(state.drops);
    const engine = await openStateEngine(env, job.name, state.engine, log);
    closers.push(() => engine.close());
    const { clock } = env;
    const totals = createTotals(clock);
    const progress = env.showProgress({ log, clock, totals, stats });
    closers.push(() => progress.stop());
    const onEvent: OnRunEvent = (event) => {
      totals.note(event);
      progress.onEvent(event);
    };
    const ledger = new Ledger(store, job.drop.dataset);
    return await action({
      ...env,
      calendar,
      engine,
      ledger,
      mailer,
      log,
      onEvent,
      state,
      history: new RunHistory(env.stateDir, job.name),
      publicUrl: env.readSetting('FLOWDROP_PUBLIC_URL'),
    });
  } finally {
    for (const close of closers.reverse()) await close();
  }
}

/**
 * A full disk may have left files in the engine's folder that the engine will never open again. Their content can be
 * fetched again from the API, so the folder is moved aside and the work starts anew. If a new folder does not open
 * either, the disk is at fault, and the old folder is put back. @throws Fault `RUN_ACTIVE`, `ENGINE_UNAVAILABLE`
 */
async function openStateEngine(env: RunEnv, job: string, path: string, log: Log): Promise<Engine> {
  try {
    return await env.openEngine({ path, signal: env.signal });
  } catch (error) {
    if (isFault(error) && error.code === 'ENGINE_BUSY') throw await describeActiveRun(env, job, error);
    if (!isFault(error) || error.code !== 'ENGINE_UNAVAILABLE') throw error;
    const aside = `${path}-broken`;
    try {
      await rm(aside, { recursive: true, force: true });
      await rename(path, aside);
    } catch {
      // The disk cannot be written; the engine's own fault explains that.
      throw error;
    }
    try {
      const engine = await env.openEngine({ path, signal: env.signal });
      log.error(
        { event: 'stage-lost', reason: error.message, aside },
        `staged rows are fetched again: ${error.message}`,
      );
      return engine;
    } catch {
      await rm(path, { recursive: true, force: true });
      await rename(aside, path);
      throw error;
    }
  }
}

/** Which run of the job has the engine, as far as this machine remembers it; else the fault as it came. */
async function describeActiveRun({ stateDir, runId, clock }: RunEnv, job: string, busy: Fault): Promise<Fault> {
  const recent = await new RunHistory(stateDir, job).list(RECENT_RUNS, true).catch(() => []);
  const active = recent.find(({ run_id, finished_at, outcome }) => run_id !== runId && !finished_at && !outcome);
  if (active === undefined) return busy;
  const { command, started_at, process } = active;
  const since = formatInstant(started_at, EXCHANGE_TIME_ZONE, clock.now());
  return new Fault(
    'RUN_ACTIVE',
    `\`flowdrop ${command} ${job}\` has been running since ${since} (process ${process.pid})`,
    {
      kind: 'active',
      cause: busy,
      hint: `Wait for it, or stop it; \`flowdrop status ${job}\` shows how far it is.`,
    },
  );
}

/** @throws Fault `INTERRUPTED` */
export async function pause({ clock, signal }: Run, ms: number): Promise<void> {
  await clock.sleep(ms, signal).catch((cause: unknown) => {
    assertNotAborted(signal);
    throw cause;
  });
}
