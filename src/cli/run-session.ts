/** Opens what a command of a job needs, and closes it again in the reverse order. */
import { mkdir } from 'node:fs/promises';
import type { Job } from '../job/job.ts';
import type { RunContext } from '../run/context.ts';
import type { DeliverContext } from '../run/deliver.ts';
import { stateOf } from '../run/state.ts';
import type { CliContext } from './context.ts';
import { createProgress } from './progress.ts';
import { openJobSource } from './source.ts';

/** For a run: with the source. @throws Fault `ENGINE_BUSY` (kind `active`) when another run of the job is going on */
export async function withRunSession<T>(
  cli: CliContext,
  job: Job,
  action: (context: RunContext) => Promise<T>,
): Promise<T> {
  const log = (await cli.compose.openLog()).child({ job: job.name });
  // First, because a missing setting must not leave a store or an engine open.
  const { source, learnt } = await openJobSource(cli, job, log);
  return await withDeliverSession(cli, job, (context) => action({ ...context, log, source, learnt }));
}

/** For a report: without the source. @throws Fault `ENGINE_BUSY` */
export async function withDeliverSession<T>(
  cli: CliContext,
  job: Job,
  action: (context: DeliverContext) => Promise<T>,
): Promise<T> {
  const { compose, terminal, signal } = cli;
  const closers: (() => Promise<void> | void)[] = [];
  try {
    const log = (await compose.openLog()).child({ job: job.name });
    const state = stateOf(compose.stateDir, job.name);
    const store = await compose.openStore(job.drop.to);
    closers.push(() => store.close());
    const mailer = await compose.openMailer();
    closers.push(() => mailer.close());
    await mkdir(state.drops, { recursive: true });
    const engine = await compose.openEngine(state.engine);
    closers.push(() => engine.close());
    const progress = await createProgress(terminal, log);
    closers.push(() => progress.stop());
    return await action({
      engine,
      store,
      mailer,
      mailFrom: compose.mailFrom,
      clock: compose.clock,
      log,
      onEvent: progress.onEvent,
      state,
      templatesDir: compose.templatesDir,
      version: compose.version,
      signal,
    });
  } finally {
    for (const close of closers.reverse()) await close();
  }
}
