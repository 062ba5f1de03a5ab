/**
 * Turns a tick into a run, a day without a session, or a log line that says why not; plans a retry after a failed run.
 * Pure. Invariant: a job has one run at a time, a tick that comes during a run waits for its end, and a held tick is
 * settled once it is finished.
 */
import { formatWallDate } from '../calendar/wall-clock.ts';
import { dropAlert, oweAlert } from './alert-step.ts';
import { describeEnd } from './end-text.ts';
import type { EndedRun } from './job-view.ts';
import type { NextState } from './next-state.ts';
import { type DaemonJob, type DueRun, hasPending, isBusy, isShared, isStaging, type MissedTick } from './state.ts';
import { refreshStatus } from './status-step.ts';

/** A status younger than this is good enough to decide whether dates are pending. */
const STATUS_FRESH_MS = 60_000;
/** How long missed ticks wait to be ordered: a store may hang. */
const ORDER_PATIENCE_MS = 60_000;
/** Ticks of jobs with the same scheduled time arrive within this, so that the one that expires first can go first. */
const GATHER_MS = 100;
/** Outcomes that a retry may fix. It cannot fix a wrong job file or an incomplete date, but a held-back or open one. */
const RETRIED: readonly EndedRun['outcome'][] = ['failed', 'died', 'timed-out', 'active'];

/** No daemon needs to run this tick any more. Does nothing if the tick is not held. */
export function settleTick(turn: NextState, { job, tickMs }: DueRun): void {
  const held = turn.job(job)?.heldTicks ?? [];
  if (!held.includes(tickMs)) return;
  turn.change(job, { heldTicks: held.filter((other) => other !== tickMs) });
  turn.do({ kind: 'complete', tick: { job, dueAtMs: tickMs } });
}

export function dropRetry(turn: NextState, name: string): void {
  const retry = turn.job(name)?.retry;
  if (!retry) return;
  turn.change(name, { retry: undefined });
  settleTick(turn, retry.due);
}

/** Ticks that node-cron did not fire. Those of shared schedules must be claimed first. */
export function catchUp(turn: NextState, missed: readonly MissedTick[]): void {
  for (const { job: name, tickMs } of missed) {
    const job = turn.job(name);
    if (!job) continue;
    if (isShared(job)) turn.do({ kind: 'claim', tick: { job: name, dueAtMs: tickMs } });
    else admit(turn, { job: name, tickMs, reason: 'catch-up' });
  }
}

/** Missed ticks of new jobs wait until the statuses of all these jobs are known: these show which job expires first. */
export function arrive(turn: NextState, ticks: readonly MissedTick[]): void {
  if (ticks.length === 0) return;
  const id = Math.max(0, ...turn.arrivals.map((arrival) => arrival.id)) + 1;
  turn.arrivals = [...turn.arrivals, { id, ticks, unread: ticks.map(({ job }) => job) }];
  // The status of a new job is already being read.
  for (const { job } of ticks) if (turn.job(job)?.status.reading === 'none') refreshStatus(turn, job);
  turn.later(ORDER_PATIENCE_MS, { kind: 'arrival-late', id });
}

/** The status of a job is known, or could not be read. */
export function noteArrivals(turn: NextState, name: string): void {
  const arrivals = turn.arrivals.map((each) => ({ ...each, unread: each.unread.filter((job) => job !== name) }));
  turn.arrivals = arrivals.filter(({ unread }) => unread.length > 0);
  for (const { ticks, unread } of arrivals) if (unread.length === 0) catchUp(turn, ticks);
}

export function endArrival(turn: NextState, id: number): void {
  const late = turn.arrivals.find((arrival) => arrival.id === id);
  if (!late) return;
  turn.arrivals = turn.arrivals.filter((arrival) => arrival !== late);
  catchUp(turn, late.ticks);
}

/** A tick for this daemon to run. */
export function admit(turn: NextState, due: DueRun): void {
  const { job: name, tickMs, reason } = due;
  const job = turn.job(name);
  if (!job || turn.isStopping) return;
  if (due.asked) {
    // It waited for staging to give way.
    waitForPlace(turn, due);
    return;
  }
  if (isShared(job) && !job.heldTicks.includes(tickMs)) turn.change(name, { heldTicks: [...job.heldTicks, tickMs] });
  // The schedule or its retries were removed from the file, so do not retry.
  if (reason === 'retry' && (job.filed.job.schedule?.retrySeconds ?? null) === null) {
    endTick(turn, due);
    return;
  }
  const isSure = reason === 'retry' || turn.rules.hasSession(tickMs);
  const deciding = job.run?.phase === 'deciding' ? job.run.due : undefined;
  if (isBusy(job) || (deciding && !isSure)) {
    if (isStaging(job)) {
      keepNext(turn, job, due);
      // There the staging is stopped.
      turn.later(0, { kind: 'fill-places' });
      return;
    }
    // The tick that is already running, found again after its file was gone for a moment: it stays held.
    if (job.run?.due.tickMs === tickMs) return;
    turn.log.warn({ event: 'overlap', job: name }, `${name} is due, but its last run has not ended`);
    if (isSure && reason !== 'retry') keepNext(turn, job, due);
    else settleTick(turn, due);
    return;
  }
  if (reason !== 'retry') dropRetry(turn, name);
  // A tick that certainly runs replaces one that is still being decided.
  if (deciding) settleTick(turn, deciding);
  if (isSure) {
    waitForPlace(turn, due);
    return;
  }
  turn.change(name, { run: { phase: 'deciding', due } });
  const readAtMs = job.status.shown?.readAtMs ?? Number.NEGATIVE_INFINITY;
  if (Math.abs(turn.nowMs - readAtMs) > STATUS_FRESH_MS) refreshStatus(turn, name);
  else decide(turn, name);
}

/** On a day without a session, only pending dates justify a process. The job's status has just been read. */
export function decide(turn: NextState, name: string): void {
  const job = turn.job(name);
  if (job?.run?.phase !== 'deciding') return;
  const { due } = job.run;
  turn.change(name, { run: undefined });
  // If the status is unknown, a run that finds nothing is cheaper than a lost date.
  if (!job.isRemoved && hasPending(job) !== false) {
    waitForPlace(turn, { ...due, reason: 'gap' });
    return;
  }
  settleTick(turn, due);
  if (job.isRemoved) return;
  turn.log.info({ event: 'no-session', job: name }, `${name}: no session on ${formatWallDate(due.tickMs)}`);
}

/**
 * Handles the end of a run.
 * @param isUnsent it died without a stop by the daemon, or timed out, so it could not report its end
 */
export function endRun(turn: NextState, due: DueRun, run: EndedRun, isUnsent: boolean): void {
  const { job: name } = due;
  turn.change(name, { run: undefined });
  if (turn.isStopping) {
    // After a stop, another daemon takes over an interrupted run, or the next start catches it up; a completed one is
    // over.
    if (run.outcome === 'done') endTick(turn, due);
    return;
  }
  const next = turn.job(name)?.next;
  turn.change(name, { next: undefined });
  if (turn.job(name)?.isRemoved) {
    endTick(turn, due);
    if (next) settleTick(turn, next);
    return;
  }
  // A tick that came during the run serves as the retry.
  const atMs = next ? undefined : retryAt(turn, name, run);
  if (atMs === undefined) endTick(turn, due);
  else {
    const at = new Date(atMs).toISOString();
    turn.change(name, { retry: { atMs, due: { ...due, reason: 'retry' } } });
    turn.log.info({ event: 'retry-planned', job: name, at }, `${name}: next retry at ${at}`);
  }
  refreshStatus(turn, name);
  if (isUnsent) oweAlert(turn, name, 'died', describeEnd(run));
  // The run came to its end, so an earlier crash is over.
  else if (run.outcome === 'done' || run.record?.error === null) dropAlert(turn, name, 'died');
  if (next) admit(turn, next);
}

/** Handles the end of what a person asked for: a page shows it, so nobody is alerted, and it is not retried. */
export function endAsked(turn: NextState, due: DueRun, run: EndedRun): void {
  const { job: name } = due;
  const isWhole = due.asked?.command === 'run';
  const { retry, next } = turn.job(name) ?? {};
  turn.change(name, { run: undefined, next: undefined });
  if (turn.isStopping) return;
  if (isWhole && run.outcome === 'done') {
    dropAlert(turn, name, 'died');
    // It did what the retry was for.
    if (retry) endTick(turn, retry.due);
    turn.change(name, { retry: undefined });
  }
  refreshStatus(turn, name);
  if (next) admit(turn, next);
}

/** The tick is finished: neither another daemon nor a restart needs to run it. */
export function endTick(turn: NextState, due: DueRun): void {
  turn.do({ kind: 'forget-unfinished', job: due.job });
  settleTick(turn, due);
}

export function waitForPlace(turn: NextState, due: DueRun): void {
  turn.change(due.job, { run: { phase: 'waiting', due, sinceMs: turn.nowMs } });
  turn.later(GATHER_MS, { kind: 'fill-places' });
}

/** Keeps only the newest tick: one run exports everything that is not sealed. */
export function keepNext(turn: NextState, { next }: DaemonJob, due: DueRun): void {
  const isNewest = next === undefined || next.tickMs <= due.tickMs;
  if (isNewest) turn.change(due.job, { next: due });
  const older = isNewest ? next : due;
  if (older) settleTick(turn, older);
}

function retryAt(turn: NextState, name: string, { outcome, finishedAtMs, record }: EndedRun): number | undefined {
  const seconds = turn.job(name)?.filed.job.schedule?.retrySeconds ?? null;
  if (seconds === null || !(RETRIED.includes(outcome) || record?.has_open)) return undefined;
  const atMs = finishedAtMs + seconds * 1000;
  return atMs < (turn.rules.nextTick(name) ?? 0) ? atMs : undefined;
}
