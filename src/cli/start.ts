/**
 * `flowdrop start`: the daemon over all job files with a schedule, until SIGTERM. Connects the loop to this program's
 * own commands as child processes, to the state directory, and to the status page.
 */
import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { setFlagsFromString } from 'node:v8';
import type { HttpListener } from '../core/http-listener.ts';
import { createDaemon, type Daemon } from '../daemon/daemon.ts';
import { createFilesReader } from '../daemon/job-files.ts';
import { createCommands, startRunProcess } from '../daemon/run-process.ts';
import { toInstant } from '../daemon/shapes.ts';
import type { Coordinator } from '../daemon/state.ts';
import { startWeb } from '../daemon/web/site.ts';
import { listJobFiles } from '../job/job-folder.ts';
import { findCustomSql } from '../run/job-sql.ts';
import { startHeartbeat } from '../state/heartbeat.ts';
import { assertStateFolder, keptJobsOf } from '../state/job-state.ts';
import { createRunIndex, RunHistory } from '../state/run-history.ts';
import { assertShareable, type Cli, type CliContext } from './context.ts';

/**
 * Keeps the space for new objects as small as it begins. A daemon mostly waits, so what a page or a status leaves behind
 * would stay for hours: about 20 MB.
 */
const SMALL_NEW_SPACE = '--semi-space-growth-factor=1';

export async function start(cli: Cli) {
  const { openers, signal, self, globals } = cli;
  const { clock, stateDir, version } = openers;
  // Before anything is announced: the wrong folder is a mistake of the caller.
  await listJobFiles(globals.jobs);
  setFlagsFromString(SMALL_NEW_SPACE);
  const log = await openers.openLog({ isService: true });
  let running: Daemon | undefined;
  let web: HttpListener | undefined;
  let endHeartbeat: (() => Promise<void>) | undefined;
  // Set first: a SIGHUP before the jobs are read must not end the process.
  cli.onHangup(() => void running?.reload());
  const id = `${hostname()}-${randomBytes(4).toString('hex')}`;
  const settings = openers.readStatusSettings();
  const coordinator = await openCoordinator(openers, id, (job) => running?.storeOf(job) ?? '');
  try {
    await assertStateFolder(stateDir);
    // Before anything is announced: a second daemon would start every run twice.
    endHeartbeat = await startHeartbeat(stateDir, clock, () => {
      const { beatAtMs = clock.now(), jobs = [] } = running?.view() ?? {};
      const scheduled = jobs.flatMap(({ name, schedule }) => (schedule ? [name] : []));
      return { url: web?.url ?? null, at: toInstant(beatAtMs), jobs: scheduled };
    });
    const calendar = await openers.readCalendar();
    const historyDays = openers.readSetting('FLOWDROP_RUN_HISTORY_DAYS');
    const commandOf = (args: readonly string[]) => ({
      executable: self.executable,
      args: [...self.args, '--jobs', globals.jobs, ...args],
      env: self.env,
      cwd: cli.cwd,
    });
    const hasWebhook = (await openers.openWebhook('alert')) !== undefined;
    const hasEvents = (await openers.openWebhook('event')) !== undefined;
    const commands = createCommands(commandOf, clock);
    const daemon = createDaemon({
      clock,
      log,
      version,
      id,
      commands,
      coordinator,
      maxRuns: openers.readSetting('FLOWDROP_MAX_RUNS'),
      readFiles: createFilesReader({
        folder: globals.jobs,
        keptDir: keptJobsOf(stateDir),
        assertUsable: (job) => assertShareable(job, openers.readRedisUrl() !== undefined),
        async checkSql({ source }, path) {
          if (findCustomSql(source)) await commands.checkJob(path);
        },
        log,
      }),
      calendar,
      hasAlerts: ({ alerts, events, reports }) =>
        alerts.to.length > 0 ||
        (alerts.webhook && hasWebhook) ||
        (hasEvents && events.length > 0) ||
        reports.some(({ post }) => post !== null && (hasEvents || post !== 'events')),
      async startRun({ job: { name }, path }, runId, { reason, asked }) {
        const isStage = reason === 'stage';
        const verb = asked?.command ?? 'run';
        const options = isStage ? ['--stage'] : (asked?.options ?? []);
        const facts = { run_id: runId, job: name, command: isStage ? 'stage' : verb, reason } as const;
        const history = new RunHistory(stateDir, name);
        // Before its process exists: a run that cannot be started is remembered, too.
        const entry = await history.begin({ ...facts, args: [verb, name, ...options] }, clock.now(), historyDays);
        const logFile = history.files(entry).log;
        return await startRunProcess(commandOf(['--json', verb, path, ...options]), { runId, logFile, log });
      },
      historyOf: (job) => new RunHistory(stateDir, job),
      runs: createRunIndex(stateDir),
    });
    running = daemon;
    const shared = { log, clock, stateDir, calendar, commands, daemon };
    web = settings && (await startWeb({ ...settings, ...shared }));
    signal.addEventListener('abort', () => void web?.close(), { once: true });
    try {
      await daemon.run(signal);
    } finally {
      await web?.close();
    }
  } finally {
    await endHeartbeat?.();
    await coordinator?.close();
  }
  return undefined;
}

/** Shares schedules with other daemons; `undefined` without a Redis. @param storeOf `drop.to` of a job, as in its file */
export async function openCoordinator(
  { readRedisUrl, addressOf }: Pick<CliContext['openers'], 'readRedisUrl' | 'addressOf'>,
  daemonId: string,
  storeOf: (job: string) => string,
): Promise<Coordinator | undefined> {
  const url = readRedisUrl();
  if (url === undefined) return undefined;
  const { openRedisCoordinator } = await import('../daemon/redis-coordinator.ts');
  return openRedisCoordinator({ url, daemonId, storeOf: (job) => addressOf(storeOf(job)) });
}
