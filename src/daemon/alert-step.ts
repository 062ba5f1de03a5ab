/**
 * Operator alerts for problems that no run can report: a run that crashed silently, a broken job file, gaps between
 * runs. Pure. Invariant: a crash or broken-file alert is retried, ever less often, until it is sent or its cause is
 * over. The child that sends alerts remembers who was notified, so nobody is notified twice. Unsent crash alerts
 * survive a restart. A broken file is found again anyway, and gaps are checked every hour.
 */
import type { AlertCause, DaemonEvent } from './event.ts';
import type { NextState } from './next-state.ts';
import type { DaemonJob, OwedAlert, OwedCause } from './state.ts';

/** Doubled after each try, up to an hour, which is also the interval of gap checks. */
const FIRST_WAIT_MS = 60_000;
const MAX_WAIT_MS = 3_600_000;
/** Time between two checks for gaps. */
const GAPS_MS = 3_600_000;
/** A file that is still being saved is not broken yet. */
const BROKEN_GRACE_MS = 10_000;

/** Does nothing if the job has no operators. If an alert for the cause is already owed, only its text changes. */
export function oweAlert(turn: NextState, name: string, cause: OwedCause, text: string): void {
  const job = turn.job(name);
  if (!job || turn.isStopping || !turn.rules.hasAlerts(job.filed.job)) return;
  if (cause === 'died') turn.do({ kind: 'note-unsent', job: name, text });
  const known = job.alerts[cause];
  setAlert(turn, name, cause, known ? { ...known, text } : createAlert(turn, text));
  if (!known) sendOwed(turn, name, cause);
}

/** The cause is over: an alert that was not sent yet is not retried. Does nothing if no alert is owed. */
export function dropAlert(turn: NextState, name: string, cause: OwedCause): void {
  if (!turn.job(name)?.alerts[cause]) return;
  setAlert(turn, name, cause, undefined);
  if (cause === 'died') turn.do({ kind: 'forget-unsent', job: name });
}

/** Queues the crash alert of a run under an earlier daemon, if that daemon could not send it. */
export function recallDeath(turn: NextState, name: string, text: string): void {
  const job = turn.job(name);
  if (!job || job.alerts.died || !turn.rules.hasAlerts(job.filed.job)) return;
  setAlert(turn, name, 'died', createAlert(turn, text));
  sendOwed(turn, name, 'died');
}

export function endAlert(turn: NextState, event: Extract<DaemonEvent, { kind: 'alert-ended' }>): void {
  const { job: name, cause, owedAtMs, hasGotThrough } = event;
  const owed = cause === 'gaps' ? undefined : turn.job(name)?.alerts[cause];
  // The alert was dropped meanwhile and is owed again: the new one has not been sent.
  if (!owed || cause === 'gaps' || owed.owedAtMs !== owedAtMs) return;
  if (!hasGotThrough) {
    const waitMs = Math.min(MAX_WAIT_MS, Math.max(FIRST_WAIT_MS, owed.waitMs * 2));
    setAlert(turn, name, cause, { ...owed, state: 'waiting', triedAtMs: turn.nowMs, waitMs });
    return;
  }
  setAlert(turn, name, cause, { ...owed, state: 'sent', triedAtMs: turn.nowMs });
  // The next crash is a new alert, unless the child remembers this one. A broken file stays `sent` until it is fixed.
  if (cause === 'died') dropAlert(turn, name, cause);
}

/** At every beat: sends the alerts that are due, and checks for gaps. */
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
    // The wait uses elapsed time in both directions: a clock that was set back must not delay the alert.
    const isDue = owed?.state === 'waiting' && Math.abs(turn.nowMs - owed.triedAtMs) >= owed.waitMs;
    if (isDue) sendOwed(turn, name, cause);
  }
}

/** A run reports gaps at its end. A run that takes long or waits for its place may report them too late. */
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
  // Usually finds nothing: log at debug.
  turn.log[cause === 'gaps' ? 'debug' : 'info'](line, `${name}: alerting its operators`);
  turn.do({ kind: 'send-alert', job: name, cause, path, args, owedAtMs });
}

function setAlert(turn: NextState, name: string, cause: OwedCause, alert: OwedAlert | undefined): void {
  const job = turn.job(name);
  if (job) turn.change(name, { alerts: { ...job.alerts, [cause]: alert } });
}
