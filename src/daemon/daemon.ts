/**
 * The daemon: knows time, not stages. Each due job becomes a child process, one at a time; a job never waits twice; what
 * was missed while the daemon was down is caught up at start, once per job, bounded by the lookback, beyond which nothing
 * is left to fetch.
 */
import { createTask } from 'node-cron';
import type { Clock } from '../core/clock.ts';
import { describeError, EXIT_CODES } from '../core/errors.ts';
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

/** Runs until the signal aborts, then stops the child in order and returns. */
export async function runDaemon(jobs: readonly ScheduledJob[], deps: DaemonDeps): Promise<void> {
  const { clock, log, signal } = deps;
  const queue: { readonly job: ScheduledJob; readonly reason: string }[] = [];
  let running: { readonly job: string; readonly child: ChildRun } | undefined;

  // One run at a time: processes share the budget of their key, so two runs would only halve each other's pace.
  const startNext = () => {
    if (running || signal.aborted) return;
    const next = queue.shift();
    if (!next) return;
    const { name } = next.job;
    const child = deps.startRun(name);
    running = { job: name, child };
    log.info({ event: 'started', job: name, reason: next.reason }, `${name}: started (${next.reason})`);
    child.done
      .then((code) => logEnd(log, name, code))
      .catch((error: unknown) => log.error({ event: 'start-failed', job: name, reason: describeError(error) }))
      .finally(() => {
        running = undefined;
        startNext();
      });
  };
  const enqueue = (job: ScheduledJob, reason: 'scheduled' | 'catch-up') => {
    if (running?.job === job.name || queue.some((waiting) => waiting.job.name === job.name)) {
      log.warn({ event: 'overlap', job: job.name }, `${job.name} is due, but its last run has not ended`);
      return;
    }
    queue.push({ job, reason });
    startNext();
  };
  const tasks = jobs.map((job) =>
    createTask(job.schedule.cron, () => enqueue(job, 'scheduled'), { timezone: job.schedule.timezone, name: job.name }),
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
    if (missed) enqueue(job, 'catch-up');
  }
  await aborted(signal);
  const last = running as { readonly job: string; readonly child: ChildRun } | undefined; // Set by callbacks since.
  log.info({ event: 'stopping', running: last?.job }, 'stopping');
  for (const task of tasks) await task.destroy();
  if (last) await stopChild(last.child, clock);
}

/** A run that failed or is incomplete must be seen among the lines of those that went well. */
function logEnd(log: Log, job: string, code: number): void {
  const line = { event: 'finished', job, code };
  const text = `${job}: finished with exit code ${code}`;
  if (code === 0) log.info(line, text);
  else if (code === EXIT_CODES.incomplete || code === EXIT_CODES.interrupted) log.warn(line, text);
  else log.error(line, text);
}

async function stopChild(child: ChildRun, clock: Clock): Promise<void> {
  child.stop();
  const grace = new AbortController();
  const patience = clock.sleep(STOP_GRACE_MS, grace.signal).then(
    () => child.kill(),
    // The child ended before the patience did.
    () => undefined,
  );
  await child.done.catch(() => undefined);
  grace.abort();
  await patience;
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => {
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
