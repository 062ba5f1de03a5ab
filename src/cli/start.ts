/** `flowdrop start`: the daemon over all job files with a schedule, until SIGTERM. */
import { Fault } from '../core/errors.ts';
import type { Job } from '../job/job.ts';
import type { ActionResult, Register } from './command.ts';
import type { CliContext, GlobalOptions } from './context.ts';

export const registerStart: Register = (program, context, act) => {
  program
    .command('start')
    .description('run every scheduled job when it is due, each in a process of its own, until SIGTERM')
    .action(async () => {
      await act((globals) => start(context, globals));
    });
};

async function start(cli: CliContext, globals: GlobalOptions): ActionResult {
  const { assertDistinct, listJobFiles, readJob } = await import('../job/files.ts');
  const { runDaemon } = await import('../daemon/daemon.ts');
  const { startChild } = await import('../daemon/child.ts');
  const { readRunResult } = await import('../run/result.ts');
  const { stateOf } = await import('../run/state.ts');
  const { compose, self } = cli;
  const log = await compose.openLog({ isService: true });
  const all: Job[] = [];
  for (const file of await listJobFiles(globals.jobs)) all.push(await readJob(file, globals.jobs));
  assertDistinct(all);
  const files = new Map(all.map(({ name, file }) => [name, file]));
  const jobs = [];
  for (const { name, schedule } of all) {
    if (!schedule) continue;
    const last = await readRunResult(stateOf(compose.stateDir, name).lastRun);
    jobs.push({ name, schedule, lastStartedAtMs: last && Date.parse(last.started_at) });
  }
  if (jobs.length === 0) {
    throw new Fault('JOBS_MISSING', `no job file in ${globals.jobs} has a schedule`, {
      kind: 'usage',
      hint: 'Add `schedule:` to a job file.',
    });
  }
  await runDaemon(jobs, {
    clock: compose.clock,
    log,
    signal: cli.signal,
    startRun: (job) => {
      const args = [...self.args, '--jobs', globals.jobs, '--json', 'run', files.get(job) ?? job];
      const onLine = (line: string) => log.info({ event: 'output', job, line });
      return startChild(
        { executable: self.executable, args, env: self.env, cwd: cli.cwd },
        { onOut: onLine, onErr: onLine },
      );
    },
  });
  return undefined;
}
