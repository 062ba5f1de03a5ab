/**
 * When jobs are due. node-cron fires their ticks. Ticks that it does not fire (the machine slept, the clock was set,
 * the process was blocked, the zone skipped a time) are found by looking back at every beat. Invariant: each tick of a
 * job is reported once, however it is found and however the clock moves; of several missed ticks only the newest is
 * reported.
 */
import { createTask, type Logger, type ScheduledTask } from 'node-cron';
import { LOOKBACK_DAYS } from '../api-contract/published-limits.ts';
import type { Clock } from '../core/clock.ts';
import type { Log } from '../core/log.ts';
import type { JobSchedule } from '../job/job.ts';
import { type Coordinator, LEASE_MS } from './coordinator.ts';
import { createTicks, type Ticks } from './ticks.ts';

interface TimetableDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly coordinator: Coordinator | undefined;
  /** Whether a tick has priority: of the missed ticks, the newest preferred one is due, even if another is newer. */
  readonly isPreferred: (tickMs: number) => boolean;
  /** A tick for this daemon to run; if the schedule is shared, it is already claimed. */
  readonly onTick: (job: string, tickMs: number) => void;
  /** Another daemon runs the tick. */
  readonly onLeft: (job: string, tickMs: number) => void;
}

export interface Timetable {
  /**
   * @param lastMs newest instant up to which the job is known to have run
   * @returns the tick that was missed since then
   */
  add(job: string, schedule: JobSchedule, lastMs: number | undefined): number | undefined;
  /** Changes the schedule from the next tick on. */
  change(job: string, schedule: JobSchedule): void;
  remove(job: string): void;
  /** Ticks that were not fired since the last call. */
  findMissed(): readonly { readonly job: string; readonly tickMs: number }[];
  /** After a clock change: node-cron's timers now point to the wrong instants. */
  rearm(): void;
  next(job: string): number | undefined;
  /** Final: jobs added afterwards never become due. */
  stop(): void;
}

interface Entry {
  schedule: JobSchedule;
  ticks: Ticks;
  task: ScheduledTask;
  /** Ticks up to here have been reported. */
  seenMs: number;
}

const LOOKBACK_MS = LOOKBACK_DAYS * 86_400_000;
/** node-cron fires a tick within a second or counts it as missed; after this long it will not fire. */
const FIRE_GRACE_MS = 5_000;
/** If the clock is set back by more than this, it was wrong before, and `seenMs` is reset. NTP steps are smaller. */
const WRONG_CLOCK_MS = 600_000;
/** A beat notices a clock change within this time; ticks since then count as new. */
const NOTICED_MS = 60_000;

export function createTimetable(deps: TimetableDeps): Timetable {
  const { clock, log, coordinator } = deps;
  const entries = new Map<string, Entry>();
  let isStopped = false;

  const startTask = (job: string, schedule: JobSchedule): ScheduledTask => {
    const task = createTask(schedule.cron, ({ date }) => fire(job, date.getTime()), {
      name: job,
      timezone: schedule.timezone,
      logger: asCronLogger(log, job),
      // Late ticks are found by looking back.
      suppressMissedWarning: true,
      ...(schedule.distributed && coordinator
        ? { distributed: true, distributedLease: LEASE_MS, runCoordinator: coordinator.forJob(job) }
        : {}),
    });
    task.on('execution:skipped', ({ date, reason }) => {
      // Not when Redis was down: then no daemon has the tick, and looking back finds it.
      if (reason === 'not-elected' && see(job, date.getTime())) deps.onLeft(job, date.getTime());
    });
    void task.start();
    return task;
  };
  const forgetWrongClock = (entry: Entry): void => {
    const nowMs = clock.now();
    if (entry.seenMs > nowMs + WRONG_CLOCK_MS) entry.seenMs = nowMs - NOTICED_MS;
  };
  /** Marks a tick as seen; returns whether it is new. */
  const see = (job: string, tickMs: number): boolean => {
    const entry = entries.get(job);
    if (!entry) return false;
    forgetWrongClock(entry);
    if (tickMs <= entry.seenMs) return false;
    entry.seenMs = tickMs;
    return true;
  };
  const fire = (job: string, tickMs: number) => {
    if (see(job, tickMs)) deps.onTick(job, tickMs);
  };
  const findNewest = ({ ticks }: Entry, afterMs: number, throughMs: number): number | undefined =>
    ticks.newest(afterMs, throughMs, deps.isPreferred) ?? ticks.newest(afterMs, throughMs);

  return {
    add(job, schedule, lastMs) {
      if (isStopped) return undefined;
      const nowMs = clock.now();
      const oldest = nowMs - LOOKBACK_MS;
      // A record from the future comes from a wrong clock.
      const afterMs = lastMs === undefined || lastMs > nowMs + WRONG_CLOCK_MS ? oldest : Math.max(oldest, lastMs);
      const entry = { schedule, ticks: createTicks(schedule), task: startTask(job, schedule), seenMs: nowMs };
      entries.set(job, entry);
      return findNewest(entry, afterMs, nowMs);
    },
    change(job, schedule) {
      const entry = entries.get(job);
      if (!entry) return;
      void entry.task.destroy();
      entry.schedule = schedule;
      entry.ticks = createTicks(schedule);
      entry.seenMs = Math.max(entry.seenMs, clock.now());
      entry.task = startTask(job, schedule);
    },
    remove(job) {
      void entries.get(job)?.task.destroy();
      entries.delete(job);
    },
    findMissed() {
      const throughMs = clock.now() - FIRE_GRACE_MS;
      return [...entries].flatMap(([job, entry]) => {
        forgetWrongClock(entry);
        if (entry.seenMs >= throughMs) return [];
        const tickMs = findNewest(entry, Math.max(entry.seenMs, throughMs - LOOKBACK_MS), throughMs);
        entry.seenMs = throughMs;
        return tickMs === undefined ? [] : [{ job, tickMs }];
      });
    },
    rearm() {
      for (const [job, entry] of entries) {
        void entry.task.destroy();
        entry.task = startTask(job, entry.schedule);
      }
    },
    next: (job) => entries.get(job)?.ticks.next(clock.now()),
    stop() {
      isStopped = true;
      for (const { task } of entries.values()) void task.destroy();
      entries.clear();
    },
  };
}

/** By default node-cron writes to the console. */
function asCronLogger(log: Log, job: string): Logger {
  const line = (message: string | Error) => ({ event: 'cron', job, reason: String(message) });
  const say = (message: string | Error) => `${job}: ${message}`;
  return {
    info: (message) => log.debug(line(message), say(message)),
    debug: (message) => log.debug(line(message), say(message)),
    warn: (message) => log.debug(line(message), say(message)),
    error: (message, error) => log.warn({ ...line(message), ...(error ? { cause: error.message } : {}) }, say(message)),
  };
}
