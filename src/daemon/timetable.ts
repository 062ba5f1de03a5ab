/**
 * When jobs are due. node-cron fires their ticks; what it does not fire (the machine slept, the clock was set, the process
 * was held up, a time that the zone leaves out) is found by looking back every few seconds. Invariant: a tick of a job is
 * told once, whoever finds it first, and however the clock moves; of several that were missed only the newest is.
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
  /** Whether a tick counts more than others: of those missed, the newest of these is due before a newer other one. */
  readonly isPreferred: (tickMs: number) => boolean;
  /** A tick that this daemon is to run; of shared schedules it has been claimed. */
  readonly onTick: (job: string, tickMs: number) => void;
  /** Another daemon runs it. */
  readonly onLeft: (job: string, tickMs: number) => void;
}

export interface Timetable {
  /**
   * @param lastMs the newest instant up to which the job is known to have run
   * @returns the tick that was missed since then
   */
  add(job: string, schedule: JobSchedule, lastMs: number | undefined): number | undefined;
  /** Its next ticks are by another schedule. */
  change(job: string, schedule: JobSchedule): void;
  remove(job: string): void;
  /** Ticks that nobody fired since the last look. */
  findMissed(): readonly { readonly job: string; readonly tickMs: number }[];
  /** After the clock was set: node-cron's timers are for instants that lie elsewhere now. */
  rearm(): void;
  next(job: string): number | undefined;
  /** For good: what is added afterwards is not due. */
  stop(): void;
}

interface Entry {
  schedule: JobSchedule;
  ticks: Ticks;
  task: ScheduledTask;
  /** Whatever ticked until then has been told. */
  seenMs: number;
}

const LOOKBACK_MS = LOOKBACK_DAYS * 86_400_000;
/** node-cron fires a tick within a second, or calls it missed; after this long it is nobody's. */
const FIRE_GRACE_MS = 5_000;
/** A clock that is set back further was wrong before, and what it said of ticks to come is forgotten. NTP steps by less. */
const WRONG_CLOCK_MS = 600_000;
/** By then a beat has found that the clock was set; what ticked in between is news. */
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
      // Late ones are found by looking back.
      suppressMissedWarning: true,
      ...(schedule.distributed && coordinator
        ? { distributed: true, distributedLease: LEASE_MS, runCoordinator: coordinator.forJob(job) }
        : {}),
    });
    task.on('execution:skipped', ({ date, reason }) => {
      // Not when Redis was away: then the tick is nobody's, and is found by looking back.
      if (reason === 'not-elected' && see(job, date.getTime())) deps.onLeft(job, date.getTime());
    });
    void task.start();
    return task;
  };
  const forgetWrongClock = (entry: Entry): void => {
    const nowMs = clock.now();
    if (entry.seenMs > nowMs + WRONG_CLOCK_MS) entry.seenMs = nowMs - NOTICED_MS;
  };
  /** Whether the tick is news; marks it. */
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
      // A record from the future is one of a wrong clock.
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

/** node-cron would write to the console. */
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
