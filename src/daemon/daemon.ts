/**
 * The daemon: knows time, not stages. Each due job becomes a child process; a job never overlaps itself; what was missed
 * while the daemon was down is caught up at start, once per job, bounded by the lookback, beyond which nothing is left
 * to fetch.
 */
import { createTask } from 'node-cron';
import type { Clock } from '../core/clock.ts';
import { describeError } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import type { JobSchedule } from '../job/job.ts';
import { findMissedTick } from './missed.ts';

export interface ScheduledJob {
  readonly name: string;
  readonly schedule: JobSchedule;
  /** Start of the job's last run, milliseconds since the epoch; `undefined` when it never ran here. */
  readonly lastStartedAtMs: number | undefined;
}

export interface ChildRun {
  /** Exit code of the run; rejects when the process could not be started. */
  readonly done: Promise<number>;
  /** Asks the run to stop in order. */
  stop(): void;
  /** Ends the run at once: what is staged is kept. */
  kill(): void;
}

export interface DaemonDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly startRun: (job: string) => ChildRun;
  readonly signal: AbortSignal;
}

/** Pages in flight get this long to land when the daemon is stopped. */
const STOP_GRACE_MS = 10_000;

/** Runs until the signal aborts, then stops every child in order and returns. */
export async function runDaemon(jobs: readonly ScheduledJob[], deps: DaemonDeps): Promise<void> {
  const { clock, log, signal } = deps;
  const running = new Map<string, ChildRun>();
  const start = (job: ScheduledJob, reason: 'scheduled' | 'catch-up') => {
    if (signal.aborted) return;
    if (running.has(job.name)) {
      log.warn({ event: 'overlap', job: job.name }, `${job.name} is due, but its last run is still going on`);
      return;
    }
    const child = deps.startRun(job.name);
    running.set(job.name, child);
    log.info({ event: 'started', job: job.name, reason }, `${job.name}: started (${reason})`);
    child.done
      .then(
        (code) => log.info({ event: 'finished', job: job.name, code }, `${job.name}: finished with exit code ${code}`),
        (error: unknown) => log.error({ event: 'start-failed', job: job.name, reason: describeError(error) }),
      )
      .finally(() => running.delete(job.name));
  };
  const tasks = jobs.map((job) =>
    createTask(job.schedule.cron, () => start(job, 'scheduled'), { timezone: job.schedule.timezone, name: job.name }),
  );
  for (const [index, job] of jobs.entries()) {
    const task = tasks[index];
    await task?.start();
    const missed = task && findMissedTick((date) => task.match(date), job.lastStartedAtMs, clock.now());
    log.info({
      event: 'scheduled',
      job: job.name,
      next: task?.getNextRun()?.toISOString(),
      missed: missed?.toISOString(),
    });
    if (missed) start(job, 'catch-up');
  }
  await aborted(signal);
  log.info({ event: 'stopping', running: [...running.keys()] }, 'stopping');
  for (const task of tasks) await task.destroy();
  await stopAll([...running.values()], clock);
}

async function stopAll(children: readonly ChildRun[], clock: Clock): Promise<void> {
  for (const child of children) child.stop();
  const all = Promise.allSettled(children.map((child) => child.done));
  const grace = new AbortController();
  const patience = clock.sleep(STOP_GRACE_MS, grace.signal).then(
    () => {
      for (const child of children) child.kill();
    },
    // The children ended before the patience did.
    () => undefined,
  );
  await all;
  grace.abort();
  await patience;
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => {
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
