/**
 * The daemon's loop: passes events to `step.ts` and carries out the effects. It knows time, files and processes, but no
 * stages: all that it knows of a dataset comes from child processes.
 */
import { setMaxListeners } from 'node:events';
import { MINIMUM_DATA_DELAY_MINUTES } from '../api-contract/published-limits.ts';
import { type CalendarOverride, isSession, OPEN_SECOND } from '../calendar/session.ts';
import { formatSecond, formatWallClock, formatWallDate } from '../calendar/wall-clock.ts';
import type { Clock } from '../core/clock.ts';
import { describeError, Fault } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import { createRunId } from '../core/run-id.ts';
import type { Job } from '../job/job.ts';
import { settledAt } from '../plan/dates.ts';
import type { RunRecord } from '../state/run-record.ts';
import type { ChildCommands } from './child-commands.ts';
import { type Coordinator, LEASE_MS, RENEW_MS } from './coordinator.ts';
import { createEffects } from './effects.ts';
import type { Ask, AskAnswer, DaemonEvent, Rules } from './event.ts';
import type { FiledJob, JobFiles, JobFilesReading } from './job-files.ts';
import type { DaemonView, EndedRun } from './job-view.ts';
import type { RunIndex } from './run-index.ts';
import type { RunProcess } from './run-process.ts';
import { createState, type DaemonState, type DueRun, isBusy, isShared, viewJob } from './state.ts';
import { BEAT_MS, step } from './step.ts';
import { stopAll, untilAborted } from './stop.ts';
import { createTimetable } from './timetable.ts';
import type { Unfinished, Unsent } from './unfinished.ts';

interface DaemonDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly version: string;
  readonly id: string;
  readonly maxRuns: number;
  readonly files: JobFiles;
  readonly commands: ChildCommands;
  readonly unfinished: Unfinished;
  /** Ends of runs that no operator alert has reported yet. */
  readonly unsent: Unsent;
  /** For shared schedules; always set if a job has one. */
  readonly coordinator?: Coordinator | undefined;
  /** Start of the job's last run on this machine, in milliseconds; `undefined` when it never ran here. */
  readonly lastRunAt: (job: Job) => Promise<number | undefined>;
  readonly readCalendar: () => Promise<CalendarOverride>;
  readonly hasAlerts: (job: Job) => boolean;
  readonly startRun: (filed: FiledJob, runId: string, due: Pick<DueRun, 'reason' | 'asked'>) => Promise<RunProcess>;
  /** Completes the record of a run with what only its parent process knows. Never rejects. */
  readonly recordEnd: (job: string, run: EndedRun) => Promise<void>;
  /** What a run recorded so far; `undefined` if nothing. Never rejects. */
  readonly readRecord: (job: string, runId: string) => Promise<RunRecord | undefined>;
  /** The runs that this machine remembers. */
  readonly history: Pick<RunIndex, 'of' | 'refresh'>;
  /** Calls `onChange` when the job files may have changed. */
  readonly watchFiles: (onChange: () => void, signal: AbortSignal) => void;
}

export interface Daemon {
  /** Cheap, because probes call it. */
  view(): DaemonView;
  /** Someone views a page: refreshes the dataset statuses that children report, and the runs that are remembered. */
  look(): Promise<void>;
  /** Does what a person asks for, or says why not. Never rejects. */
  ask(ask: Ask): Promise<AskAnswer>;
  /** Reads the job files again. Never rejects: a failure is logged. */
  reload(): Promise<void>;
  /** The job's drop location as in its file; empty for an unknown job. */
  storeOf(job: string): string;
  /** Path of the job file for child processes; `undefined` for an unknown job. */
  pathOf(job: string): string | undefined;
  /**
   * Runs until the signal aborts; then stops its children and returns in less than ten seconds. @throws Fault at start
   */
  run(signal: AbortSignal): Promise<void>;
}

const RELOAD_MS = 60_000;
const PROGRESS_MS = 2_000;

export function createDaemon(deps: DaemonDeps): Daemon {
  const { clock, log, coordinator, commands, unfinished, unsent } = deps;
  const startedAtMs = clock.now();
  const stopping = new AbortController();
  // Each timer adds a listener.
  setMaxListeners(0, stopping.signal);
  let calendar: CalendarOverride | undefined;
  let state: DaemonState = createState(startedAtMs);
  let reloading: Promise<unknown> = Promise.resolve();
  /** Of what was asked in a step that has just been done. */
  const answers = new Map<string, AskAnswer>();

  const hasSession = (tickMs: number) => isSession(formatWallDate(tickMs), calendar);
  /** Whether a session of today is visible in part, and cannot be sealed yet. */
  const canStage = ({ settleSeconds }: Job, nowMs: number) => {
    const visible = formatWallClock(nowMs - MINIMUM_DATA_DELAY_MINUTES * 60_000);
    const date = visible.slice(0, 10);
    if (!isSession(date, calendar) || visible < `${date} ${formatSecond(OPEN_SECOND)}`) return false;
    return nowMs < settledAt(date, { settleSeconds, calendar });
  };
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
    canStage,
    nextTick: timetable.next,
  };
  const effects = createEffects({
    ...{ clock, log, timetable, coordinator, commands, unfinished, unsent, signal: stopping.signal },
    pathOf: (job) => state.jobs.get(job)?.filed.path ?? job,
    readRecord: deps.readRecord,
    async recordEnd(job, run) {
      await deps.recordEnd(job, run);
      await refreshRuns();
    },
    onAnswer: (id, answer) => answers.set(id, answer),
    async startRun(due, runId) {
      const { job } = due;
      // The file may have become broken since the last read.
      await reload();
      const filed = state.jobs.get(job)?.filed;
      if (!filed) throw new RangeError(`the job ${job} no longer exists`);
      return await deps.startRun(filed, runId, due);
    },
    dispatch: (event) => void dispatch(event),
  });

  /** Resolves when the effects that must be awaited are done. Never rejects. */
  async function dispatch(event: DaemonEvent): Promise<void> {
    const next = step(state, event, clock.now(), rules);
    ({ state } = next);
    await effects.carryOut(next.effects);
  }

  /** Loads are serialized, so that an older read cannot overwrite a newer one. A failed read changes nothing. */
  async function load(): Promise<void> {
    const read = async () => {
      const reading = await deps.files.read();
      if (state.jobs.size === 0 && state.unusable.length === 0) assertSome(reading);
      // In parallel, because Redis may be slow to fail.
      const fresh = reading.jobs.map(({ job }) => job).filter(isNew);
      const lastRuns = await Promise.all(fresh.map(async (job) => [job.name, await readLastRun(job)] as const));
      // Stopped meanwhile: it would start children that nobody ends.
      if (stopping.signal.aborted) return;
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
      log.error(
        { event: 'reload-failed', reason: describeError(error) },
        'reload failed; the loaded job files stay in use',
      );
    }
  }
  /** A job that only gains a schedule is not new: it is due from then on. */
  function isNew({ name, schedule }: Job): boolean {
    return schedule !== undefined && (state.jobs.get(name)?.isRemoved ?? true);
  }
  async function readLastRun(job: Job): Promise<number | undefined> {
    const owedMs = await unfinished.read(job.name);
    // An unfinished tick is still owed, even if its run already wrote its record.
    const here = owedMs === undefined ? await deps.lastRunAt(job) : owedMs - 1;
    if (!job.schedule?.distributed) return here;
    const anywhere = await coordinator?.lastTick(job.name).catch(() => undefined); // The claim decides later.
    return here === undefined || (anywhere ?? 0) > here ? anywhere : here;
  }

  async function refreshRuns(): Promise<void> {
    await deps.history.refresh([...state.jobs.keys()]);
  }
  async function beat(): Promise<void> {
    await dispatch({ kind: 'beat', missed: timetable.findMissed() });
    await dispatch({ kind: 'beat-over' });
  }
  async function readRecords(): Promise<void> {
    for (const [job, { run }] of state.jobs) {
      if (run?.phase !== 'running') continue;
      await dispatch({ kind: 'record-read', job, record: (await deps.readRecord(job, run.runId)) ?? null });
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
  /** Repeats an action until the stop, one call at a time, whether or not it fails. */
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
  async function recallUnsent(job: string): Promise<void> {
    const text = await unsent.read(job);
    if (text !== undefined) await dispatch({ kind: 'unsent-found', job, text });
  }

  return {
    pathOf: (job) => state.jobs.get(job)?.filed.path,
    storeOf: (job) => state.jobs.get(job)?.filed.job.drop.to ?? '',
    reload,
    async ask(ask) {
      const id = createRunId(clock.now());
      await dispatch({ kind: 'asked', id, ask });
      const answer = answers.get(id);
      answers.delete(id);
      return answer ?? { outcome: 'refused', text: 'The daemon did not answer.' };
    },
    async look() {
      void dispatch({ kind: 'looked-at' });
      await refreshRuns();
    },
    view() {
      const { beatAtMs, isStopping, unusable } = state;
      const known = [...state.jobs].map(([name, job]) => viewJob(job, timetable.next(name), deps.history.of(name)));
      const jobs = [...known, ...unusable].sort((a, b) => (a.name < b.name ? -1 : 1));
      return { version: deps.version, id: deps.id, startedAtMs, beatAtMs, isStopping, jobs };
    },
    async run(signal) {
      calendar = await deps.readCalendar();
      // A stop must not wait for a Redis that does not answer.
      const isLoaded = await Promise.race([load().then(() => true), untilAborted(signal)]);
      if (!isLoaded) {
        stopping.abort();
        timetable.stop();
        return;
      }
      signal.addEventListener('abort', () => stopping.abort(), { once: true });
      if (signal.aborted) stopping.abort();
      await refreshRuns();
      deps.watchFiles(() => void reload(), stopping.signal);
      void repeat(BEAT_MS, beat);
      void repeat(RELOAD_MS, reload);
      void repeat(PROGRESS_MS, readRecords);
      if (coordinator) {
        void repeat(RENEW_MS, renewClaims);
        void repeat(LEASE_MS / 2, takeOver);
      }
      for (const job of state.jobs.keys()) void recallUnsent(job);
      await untilAborted(signal);
      timetable.stop();
      const running = [...state.jobs].filter(([, { run }]) => run?.phase === 'running').map(([name]) => name);
      log.info({ event: 'stopping', running }, 'stopping');
      await dispatch({ kind: 'stop' });
      await stopAll([effects, commands], clock);
    },
  };
}

/** @throws Fault (kind `usage`) when no job has a schedule, or when a job needs a setting that is missing */
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
