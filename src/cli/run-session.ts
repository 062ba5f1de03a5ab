/** Opens everything that a run of a job needs, and closes it again in the reverse order. */
import { mkdir } from 'node:fs/promises';
import type { Log } from '../core/log.ts';
import type { Job } from '../job/job.ts';
import type { RunContext } from '../run/context.ts';
import { loadLearnt } from '../run/learnt.ts';
import { stateOf } from '../run/state.ts';
import type { CliContext } from './context.ts';
import { createProgress } from './progress.ts';

export interface RunSession {
  readonly context: RunContext;
  readonly log: Log;
}

/** @throws Fault `ENGINE_BUSY` (kind `active`) when another run of the job is going on */
export async function withRunSession<T>(
  cli: CliContext,
  job: Job,
  action: (session: RunSession) => Promise<T>,
): Promise<T> {
  const { compose, terminal, signal } = cli;
  const closers: (() => Promise<void> | void)[] = [];
  try {
    const log = (await compose.openLog()).child({ job: job.name });
    const state = stateOf(compose.stateDir, job.name);
    const url = compose.sourceUrl(job.source.api);
    const learnt = await loadLearnt(state.learnt, url, compose.clock.now());
    const source = await compose.openSource(job.source.api, log, learnt.clock_offset_ms);
    const store = await compose.openStore(job.drop.to);
    closers.push(() => store.close());
    const mailer = await compose.openMailer();
    closers.push(() => mailer.close());
    await mkdir(state.drops, { recursive: true });
    const engine = await compose.openEngine(state.engine);
    closers.push(() => engine.close());
    const progress = await createProgress(terminal, log);
    closers.push(() => progress.stop());
    const context: RunContext = {
      source,
      engine,
      store,
      mailer,
      mailFrom: compose.mailFrom,
      clock: compose.clock,
      log,
      onEvent: progress.onEvent,
      learnt,
      state,
      templatesDir: compose.templatesDir,
      version: compose.version,
      signal,
    };
    return await action({ context, log });
  } finally {
    for (const close of closers.reverse()) await close();
  }
}
