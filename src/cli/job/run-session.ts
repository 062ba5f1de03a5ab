/** Opens what a command of a job needs, and closes it again in the reverse order. */
import { rename, rm } from 'node:fs/promises';
import { isFault } from '../../core/errors.ts';
import { makeFolder } from '../../core/folder.ts';
import type { Log } from '../../core/log.ts';
import type { DeliverContext } from '../../deliver/delivery.ts';
import type { Engine } from '../../engine/engine.ts';
import { closeSource } from '../../export/job-source.ts';
import type { Job } from '../../job/job.ts';
import type { RunContext } from '../../run/run-context.ts';
import type { SourceStats } from '../../source/source.ts';
import { assertStateFolder } from '../../state/folder.ts';
import { stateOf } from '../../state/paths.ts';
import { writeProgress } from '../../state/progress.ts';
import { ProgressTally } from '../../state/totals.ts';
import type { CliContext } from '../context.ts';
import { openJobSource } from '../source.ts';
import { createProgress } from './show-progress.ts';

/** A report asks no source. */
const NO_REQUESTS = { retries: 0, rateLimited: 0 } as const;

export interface SessionOptions {
  /** Take whatever is at `drop.to` now for the job's store from now on. Default: false. */
  readonly isNewStore?: boolean | undefined;
}

/**
 * For a run: with the source.
 * @throws Fault `STATE_UNUSABLE`, `STORE_CHANGED`; `ENGINE_BUSY` (kind `active`) when another run of the job is going on
 */
export async function withRunSession<T>(
  cli: CliContext,
  job: Job,
  action: (context: RunContext) => Promise<T>,
  options: SessionOptions = {},
): Promise<T> {
  const log = (await cli.compose.openLog()).child({ job: job.name });
  const calendar = await cli.compose.readCalendar();
  await assertStateFolder(cli.compose.stateDir);
  // First, because a missing setting must not leave a store or an engine open.
  const { opened, ...known } = await openJobSource(cli, job, log);
  try {
    const { source } = opened;
    const { clockRule, runId } = cli.compose;
    return await withDeliverSession(
      cli,
      job,
      (context) => action({ ...context, log, calendar, clockRule, source, opened, runId, ...known }),
      { ...options, stats: source.stats },
    );
  } finally {
    await closeSource(opened);
  }
}

/**
 * For a report: without the source.
 * @throws Fault `STATE_UNUSABLE`, `ENGINE_BUSY`, `STORE_CHANGED`
 */
export async function withDeliverSession<T>(
  cli: CliContext,
  job: Job,
  action: (context: DeliverContext) => Promise<T>,
  {
    stats,
    isNewStore = false,
  }: SessionOptions & {
    /** Requests of a run, so that its progress is written where others can see it. */
    readonly stats?: Readonly<SourceStats>;
  } = {},
): Promise<T> {
  const { compose, terminal, signal } = cli;
  const closers: (() => Promise<void> | void)[] = [];
  try {
    const log = (await compose.openLog()).child({ job: job.name });
    await assertStateFolder(compose.stateDir);
    const state = stateOf(compose.stateDir, job.name);
    const use = isNewStore ? 'new' : 'run';
    const store = await compose.openStore(job.drop.to, { objects: job.drop.s3, use });
    closers.push(() => store.close());
    const mailer = await compose.openMailer();
    closers.push(() => mailer.close());
    await makeFolder(state.drops);
    const engine = await openStateEngine(cli, state.engine, log);
    closers.push(() => engine.close());
    const { clock, runId } = compose;
    const tally = new ProgressTally(clock);
    if (stats) {
      // After the engine, whose lock keeps two runs of one job, and so two writers of one file, apart.
      const file = writeProgress({ path: state.progress, runId, clock, log, tally, stats });
      closers.push(() => file.stop());
    }
    const progress = await createProgress({ terminal, log, clock, tally, stats: stats ?? NO_REQUESTS });
    closers.push(() => progress.stop());
    return await action({
      engine,
      store,
      mailer,
      mailFrom: compose.mailFrom,
      clock: compose.clock,
      log,
      redact: (text) => compose.redact(text),
      onEvent: (event) => {
        tally.note(event);
        progress.onEvent(event);
      },
      state,
      templatesDir: compose.templatesDir,
      version: compose.version,
      signal,
    });
  } finally {
    for (const close of closers.reverse()) await close();
  }
}

/**
 * A disk that was full may have left files in the engine's folder that the engine will never open again. What is in it can
 * be had again from the API, so it is put aside and the work begins anew. When a new folder does not open either, the
 * disk is at fault, and the old one stays. @throws Fault `ENGINE_BUSY`, `ENGINE_UNAVAILABLE`
 */
async function openStateEngine(cli: CliContext, path: string, log: Log): Promise<Engine> {
  try {
    return await cli.compose.openEngine({ path, signal: cli.signal });
  } catch (error) {
    if (!isFault(error) || error.code !== 'ENGINE_UNAVAILABLE') throw error;
    const aside = `${path}-broken`;
    try {
      await rm(aside, { recursive: true, force: true });
      await rename(path, aside);
    } catch {
      // A disk that cannot be written is what the engine's own fault tells of.
      throw error;
    }
    try {
      const engine = await cli.compose.openEngine({ path, signal: cli.signal });
      log.error(
        { event: 'stage-lost', reason: error.message, aside },
        `what was staged is fetched again: ${error.message}`,
      );
      return engine;
    } catch {
      await rm(path, { recursive: true, force: true });
      await rename(aside, path);
      throw error;
    }
  }
}
