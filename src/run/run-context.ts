/** Opens what a job's command needs, and closes it in reverse order. */

import { rename, rm } from 'node:fs/promises';
import { EXCHANGE_TIME_ZONE } from '../api-contract/published-limits.ts';
import type { Clock } from '../core/clock.ts';
import { formatInstant } from '../core/date-text.ts';
import { Fault, isFault } from '../core/errors.ts';
import { makeFolder } from '../core/folder.ts';
import type { Log } from '../core/log.ts';
import type { DeliverContext } from '../deliver/delivery.ts';
import type { Engine } from '../engine/engine.ts';
import type { ExportContext } from '../export/export-context.ts';
import { closeSource } from '../export/job-source.ts';
import type { Job } from '../job/job.ts';
import { Ledger } from '../ledger/ledger.ts';
import type { Openers } from '../openers.ts';
import { SourceFault, type SourceStats } from '../source/source.ts';
import { JobState } from '../state/job-state.ts';
import type { OnRunEvent } from '../state/run-events.ts';
import { RunHistory } from '../state/run-history.ts';
import { assertStateFolder, makeScratchFolder } from '../state/state-folder.ts';
import { RunTotals } from '../state/totals.ts';
import { findCustomSql } from './job-sql.ts';
import { type OpenJobSource, openJobSource } from './open-source.ts';

/** What a run needs to export, and to deliver what it sealed. */
export interface RunContext extends ExportContext, DeliverContext {}

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
export interface RunDeps extends Openers {
  /** Aborted when the run is stopped. */
  readonly signal: AbortSignal;
  showProgress(input: ProgressInput): Progress;
}

interface ContextOptions {
  /** Accept the store that is now at `drop.to` as the job's store from now on. Default: false. */
  readonly isNewStore?: boolean | undefined;
}

/**
 * For a run: with the source.
 * @throws Fault `STATE_UNUSABLE`, `STORE_CHANGED`; `RUN_ACTIVE` (kind `active`) if another run of the job is active
 */
export async function withRunContext<T>(
  deps: RunDeps,
  job: Job,
  action: (context: RunContext) => Promise<T>,
  options: ContextOptions = {},
): Promise<T> {
  const log = (await deps.openLog()).child({ job: job.name });
  const calendar = await deps.readCalendar();
  await assertStateFolder(deps.stateDir);
  // Opened first: a missing setting must not leave a store or an engine open.
  const { opened, ...known } = await openRunSource(deps, job, log);
  try {
    const { source } = opened;
    const { runId } = deps;
    const clockRule = deps.readClockRule();
    const catalog = job.drop.catalog === null ? undefined : await deps.openCatalog(job.drop.catalog);
    return await withDeliverContext(
      deps,
      job,
      (context) => action({ ...context, log, calendar, clockRule, catalog, source, opened, runId, ...known }),
      { ...options, stats: source.stats },
    );
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

/** A run writes only to the state folder and the store; so must the engine that reads its SQL. */
async function openRunSource(deps: RunDeps, job: Job, log: Log): Promise<OpenJobSource> {
  if (findCustomSql(job.source) === undefined) return await openJobSource(deps, job, log);
  const path = await makeScratchFolder(deps.stateDir, deps.clock.now());
  try {
    const engine = await deps.openEngine({ path, signal: deps.signal });
    try {
      return await openJobSource(deps, job, log, engine);
    } finally {
      await engine.close();
    }
  } finally {
    await rm(path, { recursive: true, force: true });
  }
}

/**
 * For a report: without the source.
 * @throws Fault `STATE_UNUSABLE`, `RUN_ACTIVE`, `STORE_CHANGED`
 */
export async function withDeliverContext<T>(
  deps: RunDeps,
  job: Job,
  action: (context: DeliverContext) => Promise<T>,
  {
    stats,
    isNewStore = false,
  }: ContextOptions & {
    /** Requests of a run. */
    readonly stats?: Readonly<SourceStats>;
  } = {},
): Promise<T> {
  const { signal } = deps;
  const closers: (() => Promise<void> | void)[] = [];
  try {
    const log = (await deps.openLog()).child({ job: job.name });
    await assertStateFolder(deps.stateDir);
    const state = new JobState(deps.stateDir, job.name);
    const use = isNewStore ? 'new' : 'run';
    const store = await deps.openStore(job.drop.to, { objects: job.drop.s3, use });
    closers.push(() => store.close());
    const mailer = await deps.openMailer();
    closers.push(() => mailer.close());
    await makeFolder(state.drops);
    const engine = await openStateEngine(deps, job.name, state.engine, log);
    closers.push(() => engine.close());
    const { clock } = deps;
    const totals = new RunTotals(clock);
    const progress = deps.showProgress({ log, clock, totals, stats: stats ?? NO_REQUESTS });
    closers.push(() => progress.stop());
    return await action({
      engine,
      store,
      ledger: new Ledger(store, job.drop.dataset),
      mailer,
      mailFrom: deps.mailFrom,
      clock: deps.clock,
      log,
      redact: (text) => deps.redact(text),
      onEvent: (event) => {
        totals.note(event);
        progress.onEvent(event);
      },
      state,
      templatesDir: deps.templatesDir,
      publicUrl: deps.readPublicUrl(),
      version: deps.version,
      signal,
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
async function openStateEngine(deps: RunDeps, job: string, path: string, log: Log): Promise<Engine> {
  try {
    return await deps.openEngine({ path, signal: deps.signal });
  } catch (error) {
    if (isFault(error) && error.code === 'ENGINE_BUSY') throw await describeActiveRun(deps, job, error);
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
      const engine = await deps.openEngine({ path, signal: deps.signal });
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
async function describeActiveRun({ stateDir, runId, clock }: RunDeps, job: string, busy: Fault): Promise<Fault> {
  const recent = await new RunHistory(stateDir, job).list({ limit: RECENT_RUNS, withStages: true }).catch(() => []);
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
