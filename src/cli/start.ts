/**
 * `flowdrop start`: the daemon over all job files with a schedule, until SIGTERM. Wires the loop to this program's own
 * commands as child processes, to the state directory, and to what shows it.
 */
import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import type { Log } from '../core/log.ts';
import type { Coordinator } from '../daemon/coordinator.ts';
import type { Daemon } from '../daemon/daemon.ts';
import type { WebOptions } from '../daemon/web/server.ts';
import type { Job } from '../job/job.ts';
import type { ActionResult, Register } from './command.ts';
import type { CliContext, GlobalOptions, StatusAddress } from './context.ts';
import { assertShareable } from './shared-schedule.ts';

export const registerStart: Register = (program, context, act) => {
  program
    .command('start')
    .description('run every scheduled job when it is due, each in a process of its own, until SIGTERM')
    .action(async () => {
      await act((globals) => start(context, globals));
    });
};

async function start(cli: CliContext, globals: GlobalOptions): ActionResult {
  const { compose, signal } = cli;
  const log = await compose.openLog({ isService: true });
  let onHangup: () => void = () => undefined;
  // From the beginning: before the jobs are read a reload is nothing to do, and not the end.
  cli.onHangup(() => onHangup());
  const id = `${hostname()}-${randomBytes(4).toString('hex')}`;
  const address = compose.statusAddress;
  let opened: Awaited<ReturnType<typeof openDaemon>> | undefined;
  const coordinator = await compose.openCoordinator(id, (job) => opened?.daemon.storeOf(job) ?? '');
  try {
    opened = await openDaemon(cli, globals, {
      ...{ log, id, coordinator },
      onHangup(listener) {
        onHangup = listener;
      },
    });
    const { daemon, readReport } = opened;
    const shown = { view: daemon.view, onLook: daemon.look, readReport, log };
    const web = address && (await openWeb(cli, address, shown));
    const close = () => void web?.close();
    signal.addEventListener('abort', close, { once: true });
    try {
      await daemon.run(signal);
    } finally {
      await web?.close();
    }
  } finally {
    await coordinator?.close();
  }
  return undefined;
}

/** Loaded when it is wanted: an address of `off` costs nothing. @throws Fault `LISTEN_FAILED` */
async function openWeb(
  { compose }: CliContext,
  address: StatusAddress,
  shown: Pick<WebOptions, 'view' | 'onLook' | 'readReport' | 'log'>,
) {
  const { startWeb } = await import('../daemon/web/server.ts');
  return await startWeb({ ...address, ...shown, calendar: await compose.readCalendar(), clock: compose.clock });
}

interface Opened {
  readonly log: Log;
  readonly id: string;
  readonly coordinator: Coordinator | undefined;
  readonly onHangup: (listener: () => void) => void;
}

async function openDaemon(cli: CliContext, globals: GlobalOptions, opened: Opened) {
  const { log, id, coordinator } = opened;
  const { createDaemon } = await import('../daemon/daemon.ts');
  const { createJobFiles } = await import('../daemon/job-files.ts');
  const { createChildCommands } = await import('../daemon/child-commands.ts');
  const { startRunProcess } = await import('../daemon/run-process.ts');
  const { createUnfinished, createUntold } = await import('../daemon/unfinished.ts');
  const { watchFolder } = await import('../daemon/folder-watch.ts');
  const { readProgress } = await import('../state/progress.ts');
  const { readRunResult } = await import('../state/run-result.ts');
  const { findCustomSql } = await import('../run/job-sql.ts');
  const { keptJobsOf, stateOf } = await import('../state/paths.ts');
  const { assertStateFolder } = await import('../state/folder.ts');
  const { compose, self } = cli;
  const { clock, stateDir } = compose;
  await assertStateFolder(stateDir);
  const commandOf = (args: readonly string[]) => ({
    executable: self.executable,
    args: [...self.args, '--jobs', globals.jobs, ...args],
    env: self.env,
    cwd: cli.cwd,
  });
  const hasWebhook = (await compose.openWebhook()) !== undefined;
  const assertUsable = (job: Job) => assertShareable(job, compose.redisUrl !== undefined);
  const commands = createChildCommands(commandOf, clock);
  const checkSql = async ({ source }: Job, path: string) => {
    if (findCustomSql(source)) await commands.checkJob(path);
  };
  const unfinished = createUnfinished((job) => stateOf(stateDir, job).unfinished, log);
  const untold = createUntold((job) => stateOf(stateDir, job).untold, log);
  const daemon: Daemon = createDaemon({
    ...{ clock, log, version: compose.version, id, maxRuns: compose.maxRuns, commands, unfinished, untold },
    ...(coordinator ? { coordinator } : {}),
    files: createJobFiles({ folder: globals.jobs, keptDir: keptJobsOf(stateDir), assertUsable, checkSql, log }),
    async lastRunAt({ name }) {
      const last = await readRunResult(stateOf(stateDir, name).lastRun);
      return last && Date.parse(last.started_at);
    },
    readCalendar: () => compose.readCalendar(),
    hasAlerts: ({ alerts }) => alerts.to.length > 0 || (alerts.webhook && hasWebhook),
    startRun: ({ job, path }, runId) =>
      startRunProcess(commandOf(['--json', 'run', path]), { runId, logsDir: stateOf(stateDir, job.name).logs, log }),
    readProgress: async (job) => (await readProgress(stateOf(stateDir, job).progress, clock.now())) ?? null,
    watchFiles(onChange, signal) {
      opened.onHangup(onChange);
      watchFolder(globals.jobs, onChange, { clock, log, signal });
    },
  });
  return {
    daemon,
    async readReport(job: string, date: string, report: string, revision: number) {
      const path = daemon.pathOf(job);
      return path === undefined ? undefined : await commands.readReport(path, date, report, revision);
    },
  };
}
