/**
 * The daemon's loop: what happens goes through `step.ts`, and what that says is carried out. It knows time, files and
 * processes, not stages: whatever it knows of a dataset, a child has told it.
 */
import { setMaxListeners } from 'node:events';
import { type CalendarOverride, isSession } from '../calendar/session.ts';
import { formatWallDate } from '../calendar/wall-clock.ts';
import type { Clock } from '../core/clock.ts';
import { describeError, Fault } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import { createRunId } from '../core/run-id.ts';
import type { Job } from '../job/job.ts';
import type { ChildCommands } from './child-commands.ts';
import { type Coordinator, LEASE_MS, RENEW_MS } from './coordinator.ts';
import { createEffects } from './effects.ts';
import type { DaemonEvent, Rules } from './event.ts';
import type { FiledJob, JobFiles, JobFilesReading } from './job-files.ts';
import type { DaemonView, RunView } from './job-view.ts';
import type { RunProcess } from './run-process.ts';
import { createState, type DaemonState, isBusy, isShared, viewJob } from './state.ts';
import { BEAT_MS, step } from './step.ts';
import { stopAll, untilAborted } from './stop.ts';
import { createTimetable } from './timetable.ts';
import type { Unfinished, Untold } from './unfinished.ts';

interface DaemonDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly version: string;
  readonly id: string;
  readonly maxRuns: number;
  readonly files: JobFiles;
  readonly commands: ChildCommands;
  readonly unfinished: Unfinished;
  /** How a run ended of which nobody has heard yet. */
  readonly untold: Untold;
  /** Of shared schedules; every job that is shared has one. */
  readonly coordinator?: Coordinator | undefined;
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

const RELOAD_MS = 60_000;
const PROGRESS_MS = 2_000;

export function createDaemon(deps: DaemonDeps): Daemon {
  const { clock, log, coordinator, commands, unfinished, untold } = deps;
  const startedAtMs = clock.now();
  const stopping = new AbortController();
  // Each timer listens to it.
  setMaxListeners(0, stopping.signal);
  let calendar: CalendarOverride | undefined;
  let state: DaemonState = createState(startedAtMs);
  let reloading: Promise<unknown> = Promise.resolve();

  const hasSession = (tickMs: number) => isSession(formatWallDate(tickMs), calendar);
  const timetable = createTimetable({
    ...{ clock, log, coordinator, isPreferred: hasSession },
    onTick: (job, tickMs) => void dispatch({ kind: 'due', due: { job, tickMs, reason: 'scheduled' } }),
    onLeft: (job) => void dispatch({ kind: 'left-to-another', job }),
  });
  const rules: Rules = {
    maxRuns: deps.maxRuns,
    newRunId: () => createRunId(clock.now()),
    hasSession,
    hasAlerts: deps.hasAlerts,
    nextTick: timetable.next,
  };
  const effects = createEffects({
    ...{ clock, log, timetable, coordinator, commands, unfinished, untold, signal: stopping.signal },
    pathOf: (job) => state.jobs.get(job)?.filed.path ?? job,
    async startRun(job, runId) {
      // The file may have been broken since it was looked at.
      await reload();
      const filed = state.jobs.get(job)?.filed;
      if (!filed) throw new RangeError(`${job} is no job any more`);
      return await deps.startRun(filed, runId);
    },
    dispatch: (event) => void dispatch(event),
  });

  /** Returns when what has to be waited for is done. Never rejects. */
  async function dispatch(event: DaemonEvent): Promise<void> {
    const next = step(state, event, clock.now(), rules);
    ({ state } = next);
    await effects.carryOut(next.effects);
  }

  /** One after another: a later reading must not be overtaken by an earlier one. A reading that fails changes nothing. */
  async function load(): Promise<void> {
    const read = async () => {
      const reading = await deps.files.read();
      if (state.jobs.size === 0 && state.unusable.length === 0) assertSome(reading);
      // Asked of all at once, because Redis may be slow to say no.
      const fresh = reading.jobs.map(({ job }) => job).filter(isNew);
      const lastRuns = await Promise.all(fresh.map(async (job) => [job.name, await readLastRun(job)] as const));
      await dispatch({ kind: 'files-read', reading, lastRuns: new Map(lastRuns) });
    };
    const turn = reloading.then(read);
    reloading = turn.catch(() => undefined); // The caller gets the error.
    await turn;
  }
  async function reload(): Promise<void> {
    try {
      await load();
    } catch (error) {
      log.error({ event: 'reload-failed', reason: describeError(error) }, 'the job files stay as they were');
    }
  }
  /** One that had no schedule is due from then on, and is not new. */
  function isNew({ name, schedule }: Job): boolean {
    return schedule !== undefined && (state.jobs.get(name)?.isRemoved ?? true);
  }
  async function readLastRun(job: Job): Promise<number | undefined> {
    const owedMs = await unfinished.read(job.name);
    // The run of that tick may have come as far as its record, and no further.
    const here = owedMs === undefined ? await deps.lastRunAt(job) : owedMs - 1;
    if (!job.schedule?.distributed) return here;
    const anywhere = await coordinator?.lastTick(job.name).catch(() => undefined); // Its claim will tell.
    return here === undefined || (anywhere ?? 0) > here ? anywhere : here;
  }

  async function beat(): Promise<void> {
    await dispatch({ kind: 'beat', missed: timetable.findMissed() });
    await dispatch({ kind: 'beat-over' });
  }
  async function readProgress(): Promise<void> {
    for (const [job, { run }] of state.jobs) {
      if (run?.phase !== 'running') continue;
      await dispatch({ kind: 'progress-read', job, progress: await deps.readProgress(job) });
    }
  }
  async function renewClaims(): Promise<void> {
    const held = [...state.jobs].flatMap(([job, { heldTicks }]) => heldTicks.map((dueAtMs) => ({ job, dueAtMs })));
    for (const tick of held) {
      try {
        if ((await coordinator?.renew(tick)) === false) await dispatch({ kind: 'claim-lost', tick });
      } catch (error) {
        const reason = describeError(error);
        log.warn({ event: 'renew-failed', job: tick.job, reason }, `${tick.job}: ${reason}`);
      }
    }
  }
  async function takeOver(): Promise<void> {
    const names = [...state.jobs].filter(([, job]) => isShared(job) && !isBusy(job)).map(([name]) => name);
    const taken = names.length > 0 ? await coordinator?.takeOver(names) : undefined;
    for (const { job, dueAtMs } of taken ?? []) {
      await dispatch({ kind: 'due', due: { job, tickMs: dueAtMs, reason: 'take-over' } });
    }
  }
  /** Again and again: one action, one at a time, whatever comes of it, until the stop. */
  async function repeat(everyMs: number, action: () => Promise<void>): Promise<void> {
    const { signal } = stopping;
    while (!signal.aborted) {
      await clock.sleep(everyMs, signal).catch(() => undefined); // The stop.
      if (signal.aborted) return;
      await action().catch((error: unknown) => {
        log.error({ event: 'loop-fault', what: action.name, reason: describeError(error) }, describeError(error));
      });
    }
  }
  async function recallUntold(job: string): Promise<void> {
    const text = await untold.read(job);
    if (text !== undefined) await dispatch({ kind: 'untold-found', job, text });
  }

  return {
    pathOf: (job) => state.jobs.get(job)?.filed.path,
    storeOf: (job) => state.jobs.get(job)?.filed.job.drop.to ?? '',
    look: () => void dispatch({ kind: 'looked-at' }),
    view() {
      const { beatAtMs, isStopping, unusable } = state;
      const known = [...state.jobs].map(([name, job]) => viewJob(job, timetable.next(name)));
      const jobs = [...known, ...unusable].sort((a, b) => (a.name < b.name ? -1 : 1));
      return { version: deps.version, id: deps.id, startedAtMs, beatAtMs, isStopping, jobs };
    },
    async run(signal) {
      calendar = await deps.readCalendar();
      // A stop need not wait for a Redis that does not answer.
      const isLoaded = await Promise.race([load().then(() => true), untilAborted(signal)]);
      if (!isLoaded) return timetable.stop();
      signal.addEventListener('abort', () => stopping.abort(), { once: true });
      if (signal.aborted) stopping.abort();
      deps.watchFiles(() => void reload(), stopping.signal);
      void repeat(BEAT_MS, beat);
      void repeat(RELOAD_MS, reload);
      void repeat(PROGRESS_MS, readProgress);
      if (coordinator) {
        void repeat(RENEW_MS, renewClaims);
        void repeat(LEASE_MS / 2, takeOver);
      }
      for (const job of state.jobs.keys()) void recallUntold(job);
      await untilAborted(signal);
      timetable.stop();
      const running = [...state.jobs].filter(([, { run }]) => run?.phase === 'running').map(([name]) => name);
      log.info({ event: 'stopping', running }, 'stopping');
      await dispatch({ kind: 'stop' });
      await stopAll([effects, commands], clock);
    },
  };
}

/** @throws Fault (kind `usage`) where there is nothing to do, or a setting is missing without which a job cannot be run */
function assertSome({ jobs, unusable }: JobFilesReading): void {
  const unset = unusable.find(({ fault }) => fault.code === 'SETTING_MISSING')?.fault;
  if (unset) throw unset;
  if (jobs.some(({ job }) => job.schedule)) return;
  const [first] = unusable;
  if (first) throw first.fault;
  throw new Fault('JOBS_MISSING', 'no job file in the folder of the jobs has a schedule', {
    kind: 'usage',
    hint: 'Add `schedule:` to a job file, or give another folder with --jobs DIR.',
  });
}
