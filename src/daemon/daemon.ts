/**
 * The daemon's loop: what is due becomes a run. It knows time, files and processes, not stages: whatever it knows of a
 * dataset, a child has told it. Invariant: a tick ends in a run, in a day without a session, or in a line that says why
 * not; nothing is started once it is to stop.
 */
import { type CalendarOverride, isSession } from '../calendar/session.ts';
import { formatWallDate } from '../calendar/wall-clock.ts';
import type { Clock } from '../core/clock.ts';
import type { Log } from '../core/log.ts';
import { createRunId } from '../core/run-id.ts';
import type { Job } from '../job/job.ts';
import { createAdmission } from './admission.ts';
import type { Chores } from './chores.ts';
import { createClaims } from './claims.ts';
import { type Coordinator, LEASE_MS, RENEW_MS } from './coordinator.ts';
import { describeEnd } from './end-text.ts';
import { createJobBoard, type MissedTick } from './job-board.ts';
import type { FiledJob, JobFiles } from './job-files.ts';
import { type JobRecord, runTimeoutMs, viewJob } from './job-record.ts';
import { repeat } from './repeat.ts';
import type { RunProcess } from './run-process.ts';
import { createRuns } from './runs.ts';
import { createStatuses } from './statuses.ts';
import { stopAll, untilAborted } from './stop.ts';
import { createTelling } from './telling.ts';
import { createTimetable } from './timetable.ts';
import type { Unfinished, Untold } from './unfinished.ts';
import type { DaemonView, RunView } from './view.ts';

export interface DaemonDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly version: string;
  readonly id: string;
  readonly maxRuns: number;
  readonly files: JobFiles;
  readonly chores: Chores;
  readonly unfinished: Unfinished;
  /** How a run ended of which nobody has been told yet. */
  readonly untold: Untold;
  /** Of shared schedules; every job that is shared has one. */
  readonly coordinator?: Coordinator;
  /** Start of the job's last run on this machine, milliseconds; `undefined` when it never ran here. */
  readonly lastRunAt: (job: Job) => Promise<number | undefined>;
  readonly readCalendar: () => Promise<CalendarOverride>;
  readonly hasAlerts: (job: Job) => boolean;
  readonly startRun: (filed: FiledJob, runId: string) => Promise<RunProcess>;
  readonly readProgress: (job: string) => Promise<RunView['progress']>;
  /** Calls back when the job files may have changed. */
  readonly watchFiles: (onChange: () => void, signal: AbortSignal) => void;
}

export interface Daemon {
  /** Costs nothing: probes ask for it. */
  view(): DaemonView;
  /** Somebody looks: what children said of the datasets is brought up to date. */
  look(): void;
  /** Where a job drops to, as its file has it; empty for an unknown job. */
  storeOf(job: string): string;
  /** Path of the job file that a child is given; `undefined` for an unknown job. */
  pathOf(job: string): string | undefined;
  /** Runs until the signal aborts, then stops its children and returns in less than ten seconds. @throws Fault at start */
  run(signal: AbortSignal): Promise<void>;
}

/** How often the clock, what was missed, retries and what is told are looked at. */
const BEAT_MS = 15_000;
/** A clock that is this far from where it should be was set, or the machine slept. */
const JUMP_MS = 5_000;
const RELOAD_MS = 60_000;
const PROGRESS_MS = 2_000;
const ALERT_MS = 3_600_000;
/** A status that nobody looks at, and one that somebody does. */
const STATUS_IDLE_MS = 900_000;
const STATUS_SHOWN_MS = 60_000;
/** A file that is half saved is not broken yet. */
const BROKEN_GRACE_MS = 10_000;
/** What was missed waits so long for its order to be known: a store may hang. */
const ORDER_PATIENCE_MS = 60_000;
export function createDaemon(deps: DaemonDeps): Daemon {
  const { clock, log, coordinator, chores, unfinished, untold, hasAlerts } = deps;
  const startedAtMs = clock.now();
  const claims = createClaims(coordinator, log);
  const newRunId = () => createRunId(clock.now());
  let calendar: CalendarOverride | undefined;
  let isStopping = false;

  const hasSession = (tickMs: number) => isSession(formatWallDate(tickMs), calendar);
  const timetable = createTimetable({
    ...{ clock, log, coordinator, isPreferred: hasSession },
    onTick: (job, tickMs) => admission.letIn({ job, tickMs, reason: 'scheduled' }),
    onLeft: (job) => admission.dropRetry(board.records.get(job)),
  });
  const board = createJobBoard({
    ...{ clock, log, timetable, files: deps.files },
    async lastRunAt(job) {
      const owedMs = await unfinished.read(job.name);
      // The run of that tick may have come as far as its record, and no further.
      const here = owedMs === undefined ? await deps.lastRunAt(job) : owedMs - 1;
      if (!job.schedule?.distributed) return here;
      const anywhere = await coordinator?.lastTick(job.name).catch(() => undefined); // Its claim will tell.
      return here === undefined || (anywhere ?? 0) > here ? anywhere : here;
    },
    onRemoved(record) {
      const dropped = runs.drop(record.filed.job.name);
      if (dropped) admission.settle(dropped);
      admission.dropRetry(record);
      for (const cause of ['died', 'broken'] as const) telling.drop(record.filed.job.name, cause);
      if (!runs.has(record.filed.job.name)) void unfinished.forget(record.filed.job.name);
      forgetRemoved(record);
    },
  });
  const readStatus = async (job: string) => await chores.readStatus(pathOf(job) ?? job);
  const statuses = createStatuses(readStatus, { clock, log });
  const runs = createRuns({
    ...{ clock, log, maxRuns: deps.maxRuns, newRunId, expiryOf: statuses.expiryOf },
    timeoutOf: (job) => runTimeoutMs(recordOf(job)),
    async startRun({ job, tickMs }, runId) {
      // The file may have been broken since it was looked at.
      await reload();
      await unfinished.note(job, tickMs);
      const record = board.records.get(job);
      return await deps.startRun(record?.filed as FiledJob, runId); // It is kept while the job runs.
    },
    onEnd(due, run, isUntold) {
      const record = board.records.get(due.job);
      admission.close(due, run, isUntold);
      if (record) forgetRemoved(record);
    },
  });
  const admission = createAdmission({
    ...{ clock, log, coordinator, claims, statuses, newRunId, hasSession, recordOf },
    runs: () => runs,
    nextTick: timetable.next,
    isStopping: () => isStopping,
    onOver: (job) => void unfinished.forget(job),
    onResult: (job) => telling.drop(job, 'died'),
    onUntold: (run, job) => telling.owe(job, 'died', describeEnd(run)),
  });

  const telling = createTelling({ clock, log, chores, untold, hasAlerts, recordOf, isStopping: () => isStopping });

  function recordOf(job: string): JobRecord | undefined {
    return board.records.get(job);
  }
  function pathOf(job: string): string | undefined {
    return recordOf(job)?.filed.path;
  }
  function forgetRemoved({ filed, isRemoved }: JobRecord): void {
    if (!isRemoved || runs.has(filed.job.name)) return;
    board.forget(filed.job.name);
    statuses.forget(filed.job.name);
  }

  async function reload(): Promise<void> {
    const missed = await board.reload();
    if (missed.length > 0) void startNew(missed);
  }
  /** Their order needs to be known first. */
  async function startNew(missed: readonly MissedTick[]): Promise<void> {
    await statuses.refreshAll(
      missed.map(({ job }) => job),
      ORDER_PATIENCE_MS,
    );
    await admission.catchUp(missed);
  }

  let beatAtMs = startedAtMs;
  async function beat(): Promise<void> {
    const nowMs = clock.now();
    const jumpMs = nowMs - beatAtMs - BEAT_MS;
    if (Math.abs(jumpMs) > JUMP_MS) {
      log.warn({ event: 'clock-jump', jumpMs }, 'the clock has jumped; looking for what was missed');
      timetable.rearm();
    }
    const owed = [...board.records.values()].flatMap(({ filed, owedMs }) =>
      owedMs === undefined ? [] : [{ job: filed.job.name, tickMs: owedMs }],
    );
    await admission.catchUp([...owed, ...timetable.findMissed()]);
    for (const record of board.records.values()) {
      const { retry, fault, filed } = record;
      if (retry && retry.atMs <= nowMs) {
        record.retry = undefined;
        admission.letIn(retry.due);
      }
      const { name } = filed.job;
      if (!fault) telling.drop(name, 'broken');
      else if (fault.sinceMs + BROKEN_GRACE_MS <= nowMs) telling.owe(name, 'broken', fault.message);
      // A run tells at its end what it leaves; one that goes on for long, or waits for its place, may have none in time.
      const sinceMs = runs.running(name)?.startedAtMs ?? runs.waitingSince(name) ?? Number.NEGATIVE_INFINITY;
      if (Math.min(nowMs - sinceMs, Math.abs(nowMs - record.alertedAtMs)) >= ALERT_MS) {
        record.alertedAtMs = nowMs;
        telling.lookForGaps(name);
      }
    }
    telling.retry();
    statuses.refreshOldest([...board.records.keys()], STATUS_IDLE_MS);
    // What the beat itself took is no jump.
    beatAtMs = clock.now();
  }
  async function readProgress(): Promise<void> {
    for (const job of runs.names()) {
      const record = board.records.get(job);
      if (record) record.progress = await deps.readProgress(job);
    }
  }
  async function renew(): Promise<void> {
    for (const { job, dueAtMs } of await claims.renew()) {
      const record = board.records.get(job);
      log.warn({ event: 'claim-lost', job }, `${job}: another daemon has taken its run over`);
      if (record?.retry?.due.tickMs === dueAtMs) record.retry = undefined;
      else if (record?.next?.tickMs === dueAtMs) record.next = undefined;
      else if (record?.current?.tickMs === dueAtMs) runs.cancel(job);
    }
  }
  async function takeOver(): Promise<void> {
    const shared = [...board.records.values()].filter(({ filed }) => filed.job.schedule?.distributed);
    const names = shared.map(({ filed }) => filed.job.name).filter((job) => !runs.has(job));
    const taken = names.length > 0 ? await coordinator?.takeOver(names) : undefined;
    for (const { job, dueAtMs } of taken ?? []) admission.letIn({ job, tickMs: dueAtMs, reason: 'take-over' });
  }

  return {
    pathOf,
    storeOf: (job) => board.records.get(job)?.filed.job.drop.to ?? '',
    look: () => statuses.refreshOldest([...board.records.keys()], STATUS_SHOWN_MS),
    view() {
      const known = [...board.records.values()].map((record) => viewJob(record, { timetable, runs, statuses }));
      const jobs = [...known, ...board.unusable()].sort((a, b) => (a.name < b.name ? -1 : 1));
      return { version: deps.version, id: deps.id, startedAtMs, beatAtMs, isStopping, jobs };
    },
    async run(signal) {
      calendar = await deps.readCalendar();
      // A stop need not wait for a Redis that does not answer.
      const missed = await Promise.race([board.load(), untilAborted(signal)]);
      if (!missed) return timetable.stop();
      deps.watchFiles(() => void reload(), signal);
      const looping = { clock, log, signal };
      void repeat(BEAT_MS, looping, beat);
      void repeat(RELOAD_MS, looping, reload);
      void repeat(PROGRESS_MS, looping, readProgress);
      if (coordinator) {
        void repeat(RENEW_MS, looping, renew);
        void repeat(LEASE_MS / 2, looping, takeOver);
      }
      // Read for the order of what was missed, and for whoever looks.
      void startNew(missed);
      for (const job of board.records.keys()) {
        void telling.recall(job);
        if (!missed.some((one) => one.job === job)) void statuses.refresh(job);
      }
      await untilAborted(signal);
      isStopping = true;
      timetable.stop();
      log.info({ event: 'stopping', running: runs.names() }, 'stopping');
      await stopAll([runs, chores], clock);
    },
  };
}
