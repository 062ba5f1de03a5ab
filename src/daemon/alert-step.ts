/**
 * What operators must hear that no run can tell: a run that ended without a word, a broken job file, gaps between runs.
 * Pure. Invariant: a death or a broken file stays owed, and is tried again ever more seldom, until it got through or is
 * over. The child that sends remembers who has heard what, so nobody hears it twice. An untold death outlives the daemon;
 * a broken file is found again anyway, and gaps are looked for every hour.
 */
import type { AlertCause, DaemonEvent } from './event.ts';
import type { NextState } from './next-state.ts';
import type { DaemonJob, OwedAlert, OwedCause } from './state.ts';

/** Doubled after each try; an hour is how often gaps are looked for too. */
const FIRST_WAIT_MS = 60_000;
const MAX_WAIT_MS = 3_600_000;
/** Between two looks for gaps. */
const GAPS_MS = 3_600_000;
/** A file that is half saved is not broken yet. */
const BROKEN_GRACE_MS = 10_000;

/** Without effect where the job has no operators. Of what is owed already only the text changes. */
export function oweAlert(turn: NextState, name: string, cause: OwedCause, text: string): void {
  const job = turn.job(name);
  if (!job || turn.isStopping || !turn.rules.hasAlerts(job.filed.job)) return;
  if (cause === 'died') turn.do({ kind: 'note-untold', job: name, text });
  const known = job.alerts[cause];
  setAlert(turn, name, cause, known ? { ...known, text } : createAlert(turn, text));
  if (!known) sendOwed(turn, name, cause);
}

/** It is over: if it has not got through, it is not tried again. Without effect where nothing is owed. */
export function dropAlert(turn: NextState, name: string, cause: OwedCause): void {
  if (!turn.job(name)?.alerts[cause]) return;
  setAlert(turn, name, cause, undefined);
  if (cause === 'died') turn.do({ kind: 'forget-untold', job: name });
}

/** How a run ended under a daemon before this one, of which nobody heard. */
export function recallDeath(turn: NextState, name: string, text: string): void {
  const job = turn.job(name);
  if (!job || job.alerts.died || !turn.rules.hasAlerts(job.filed.job)) return;
  setAlert(turn, name, 'died', createAlert(turn, text));
  sendOwed(turn, name, 'died');
}

export function endAlert(turn: NextState, event: Extract<DaemonEvent, { kind: 'alert-ended' }>): void {
  const { job: name, cause, owedAtMs, hasGotThrough } = event;
  const owed = cause === 'gaps' ? undefined : turn.job(name)?.alerts[cause];
  // One that was dropped meanwhile, and is owed anew, has not been sent.
  if (!owed || cause === 'gaps' || owed.owedAtMs !== owedAtMs) return;
  if (!hasGotThrough) {
    const waitMs = Math.min(MAX_WAIT_MS, Math.max(FIRST_WAIT_MS, owed.waitMs * 2));
    setAlert(turn, name, cause, { ...owed, state: 'waiting', triedAtMs: turn.nowMs, waitMs });
    return;
  }
  setAlert(turn, name, cause, { ...owed, state: 'sent', triedAtMs: turn.nowMs });
  // The next death is told anew, unless the child remembers this one; a file is broken until it is mended.
  if (cause === 'died') dropAlert(turn, name, cause);
}

/** At every beat: what is owed and due is tried, and gaps are looked for. */
export function lookForAlerts(turn: NextState, name: string): void {
  const job = turn.job(name);
  if (!job) return;
  if (!job.fault) dropAlert(turn, name, 'broken');
  else if (job.fault.sinceMs + BROKEN_GRACE_MS <= turn.nowMs) oweAlert(turn, name, 'broken', job.fault.message);
  if (areGapsDue(turn, job)) {
    turn.change(name, { gapsAtMs: turn.nowMs });
    if (turn.rules.hasAlerts(job.filed.job)) send(turn, name, 'gaps', [], turn.nowMs);
  }
  for (const cause of ['died', 'broken'] as const) {
    const owed = turn.job(name)?.alerts[cause];
    // Its own time, not a date: a clock that was set back must not put it off.
    const isDue = owed?.state === 'waiting' && Math.abs(turn.nowMs - owed.triedAtMs) >= owed.waitMs;
    if (isDue) sendOwed(turn, name, cause);
  }
}

/** A run tells at its end what it leaves; one that goes on for long, or waits for its place, may tell nothing in time. */
function areGapsDue({ nowMs }: NextState, job: DaemonJob): boolean {
  const sinceMs = job.run?.phase === 'running' ? job.run.startedAtMs : waitingSince(job);
  return Math.min(nowMs - sinceMs, Math.abs(nowMs - job.gapsAtMs)) >= GAPS_MS;
}

function waitingSince(job: DaemonJob): number {
  return job.run?.phase === 'waiting' ? job.run.sinceMs : Number.NEGATIVE_INFINITY;
}

function createAlert({ nowMs }: NextState, text: string): OwedAlert {
  return { text, owedAtMs: nowMs, state: 'waiting', triedAtMs: nowMs, waitMs: 0 };
}

function sendOwed(turn: NextState, name: string, cause: OwedCause): void {
  const owed = turn.job(name)?.alerts[cause];
  if (!owed) return;
  setAlert(turn, name, cause, { ...owed, state: 'sending' });
  send(turn, name, cause, [`--${cause}`, owed.text], owed.owedAtMs);
}

function send(turn: NextState, name: string, cause: AlertCause, args: readonly string[], owedAtMs: number): void {
  const path = turn.job(name)?.filed.path;
  if (path === undefined || turn.isStopping) return;
  const line = { event: 'alerting', job: name, what: cause };
  // The look for gaps usually finds nothing.
  turn.log[cause === 'gaps' ? 'debug' : 'info'](line, `${name}: alerting its operators`);
  turn.do({ kind: 'send-alert', job: name, cause, path, args, owedAtMs });
}

function setAlert(turn: NextState, name: string, cause: OwedCause, alert: OwedAlert | undefined): void {
  const job = turn.job(name);
  if (job) turn.change(name, { alerts: { ...job.alerts, [cause]: alert } });
}
