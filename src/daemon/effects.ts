/**
 * Carries out the effects of a step, and reports their results as events. Invariant: every failure becomes an event or
 * a log line; notes about a job are written to disk in the order of their effects.
 */
import type { Clock } from '../core/clock.ts';
import { describeError } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import type { RunRecord } from '../state/run-record.ts';
import type { ChildCommands } from './child-commands.ts';
import type { Coordinator } from './coordinator.ts';
import type { AskAnswer, DaemonEvent, Effect } from './event.ts';
import type { EndedRun } from './job-view.ts';
import type { RunProcess, RunProcessEnd } from './run-process.ts';
import type { DueRun, MissedTick } from './state.ts';
import { killLate, type Stoppable } from './stop.ts';
import type { Timetable } from './timetable.ts';
import type { Unfinished, Unsent } from './unfinished.ts';

interface EffectDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly timetable: Timetable;
  readonly coordinator: Coordinator | undefined;
  readonly commands: ChildCommands;
  readonly unfinished: Unfinished;
  readonly unsent: Unsent;
  /** Starts the process of a run, from the job's current file. */
  readonly startRun: (due: DueRun, runId: string) => Promise<RunProcess>;
  /** Completes the record of a run with what only its parent process knows. Never rejects. */
  readonly recordEnd: (job: string, run: EndedRun) => Promise<void>;
  /** What a run recorded; `undefined` if it recorded nothing. Never rejects. */
  readonly readRecord: (job: string, runId: string) => Promise<RunRecord | undefined>;
  /** What a step says to what was asked. */
  readonly onAnswer: (id: string, answer: AskAnswer) => void;
  /** Path of the job file for child processes. */
  readonly pathOf: (job: string) => string;
  readonly dispatch: (event: DaemonEvent) => void;
  /** Ends timers. */
  readonly signal: AbortSignal;
}

interface Effects extends Stoppable {
  /** Waits for claims only. Never rejects. */
  carryOut(effects: readonly Effect[]): Promise<void>;
}

export function createEffects(deps: EffectDeps): Effects {
  const { clock, log, timetable, coordinator, commands, unfinished, unsent, dispatch } = deps;
  const processes = new Map<string, { readonly process: RunProcess; readonly ended: AbortSignal }>();
  const running = new Set<Promise<void>>();
  /** Missed ticks of new jobs, until all jobs of a step are scheduled. */
  const missed: MissedTick[] = [];
  let notes: Promise<void> = Promise.resolve();

  const note = (write: () => Promise<void>) => {
    notes = notes.then(write);
  };

  const schedule = (effect: Extract<Effect, { kind: 'schedule' | 'reschedule' }>): void => {
    const { job } = effect;
    let tickMs: number | undefined;
    if (effect.kind === 'reschedule') timetable.change(job, effect.schedule);
    else tickMs = timetable.add(job, effect.schedule, effect.lastMs);
    const [next, last] = [timetable.next(job), tickMs].map((ms) => ms && new Date(ms).toISOString());
    log.info({ event: 'scheduled', job, next, missed: last }, `${job}: next run ${next}`);
    if (tickMs !== undefined) missed.push({ job, tickMs });
  };

  const claim = async ({ tick }: Extract<Effect, { kind: 'claim' }>): Promise<void> => {
    try {
      dispatch({ kind: 'claimed', tick, isMine: (await coordinator?.claim(tick)) ?? true });
    } catch (error) {
      dispatch({ kind: 'claim-failed', tick, reason: describeError(error) });
    }
  };

  const complete = async ({ tick }: Extract<Effect, { kind: 'complete' }>): Promise<void> => {
    try {
      await coordinator?.complete(tick);
    } catch (error) {
      // The lease will expire, and another daemon runs the finished tick again, which costs a request.
      const reason = describeError(error);
      log.warn({ event: 'complete-failed', job: tick.job, reason }, `${tick.job}: ${reason}`);
    }
  };

  const run = async ({ due, runId }: Extract<Effect, { kind: 'start-run' }>): Promise<void> => {
    const { job, tickMs, reason, asked } = due;
    const over = new AbortController();
    let end: RunProcessEnd;
    try {
      // What staging leaves is owed by the next tick anyway; what a person asked for is no tick.
      if (reason !== 'stage' && !asked) note(() => unfinished.note(job, tickMs));
      await notes;
      const process = await deps.startRun(due, runId);
      processes.set(job, { process, ended: over.signal });
      dispatch({ kind: 'run-started', job, runId, logFile: process.logFile });
      end = await process.done;
    } catch (error) {
      end = { code: undefined, signal: undefined, error: { code: 'START_FAILED', message: describeError(error) } };
    }
    over.abort();
    processes.delete(job);
    const record = await deps.readRecord(job, runId);
    // A killed run has recorded no end: this process does.
    const ended = record?.outcome === null || record?.outcome === 'died' ? undefined : record;
    dispatch({ kind: 'run-ended', job, runId, end, record: ended });
  };

  const stopRun = (job: string) => {
    const found = processes.get(job);
    found?.process.stop();
    if (found) void killLate([found.process], { clock, ended: found.ended });
  };

  const readStatus = async (job: string): Promise<void> => {
    try {
      dispatch({ kind: 'status-read', job, document: await commands.readStatus(deps.pathOf(job)) });
    } catch (error) {
      dispatch({ kind: 'status-failed', job, reason: describeError(error) });
    }
  };

  const sendAlert = async (effect: Extract<Effect, { kind: 'send-alert' }>): Promise<void> => {
    const { job, cause, path, args, owedAtMs } = effect;
    let hasGotThrough = true;
    try {
      await commands.sendAlert(path, args);
    } catch (error) {
      const reason = describeError(error);
      hasGotThrough = false;
      if (!deps.signal.aborted) log.error({ event: 'alert-failed', job, what: cause, reason }, `${job}: ${reason}`);
    }
    dispatch({ kind: 'alert-ended', job, cause, owedAtMs, hasGotThrough });
  };

  const act: { readonly [Kind in Effect['kind']]: (effect: Extract<Effect, { kind: Kind }>) => unknown } = {
    schedule: (effect) => schedule(effect),
    reschedule: (effect) => schedule(effect),
    unschedule: ({ job }) => timetable.remove(job),
    rearm: () => timetable.rearm(),
    claim: (effect) => claim(effect),
    complete: (effect) => void complete(effect),
    'start-run': (effect) => {
      const going = run(effect).finally(() => running.delete(going));
      running.add(going);
    },
    'stop-run': ({ job }) => stopRun(job),
    answer: ({ id, answer }) => deps.onAnswer(id, answer),
    'record-end': ({ job, run }) => note(() => deps.recordEnd(job, run)),
    'read-status': ({ job }) => void readStatus(job),
    'send-alert': (effect) => void sendAlert(effect),
    'forget-unfinished': ({ job }) => note(() => unfinished.forget(job)),
    'note-unsent': ({ job, text }) => note(() => unsent.note(job, text)),
    'forget-unsent': ({ job }) => note(() => unsent.forget(job)),
    later: ({ afterMs, event }) =>
      void clock.sleep(afterMs, deps.signal).then(
        () => dispatch(event),
        () => undefined, // The stop.
      ),
    log: ({ level, line, text }) => log[level](line, text),
  };
  const carryOut = <Kind extends Effect['kind']>(effect: Extract<Effect, { kind: Kind }>) =>
    act[effect.kind as Kind](effect);

  return {
    async carryOut(effects) {
      const waits = effects.map((effect) => carryOut(effect));
      const ticks = missed.splice(0);
      if (ticks.length > 0) dispatch({ kind: 'missed-at-start', ticks });
      await Promise.all(waits);
    },
    // The step that stops the daemon also emits `stop-run` for each run.
    stop: () => undefined,
    kill() {
      for (const { process } of processes.values()) process.kill();
    },
    async untilIdle() {
      while (running.size > 0) await Promise.all(running);
      await notes;
    },
  };
}
