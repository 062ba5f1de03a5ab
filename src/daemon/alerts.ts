/**
 * Operator alerts for problems that no run can report: a run that crashed silently, a broken job file, gaps between
 * runs. Invariant: a crash or broken-file alert is retried, ever less often, until it is sent or its cause is over. The
 * child that sends alerts remembers who was notified, so nobody is notified twice. Unsent crash alerts survive a
 * restart. A broken file is found again anyway, and gaps are checked every hour.
 */
import type { DaemonJob, DaemonState, OwedAlert, OwedCause } from './state.ts';

/** Doubled after each try, up to an hour, which is also the interval of gap checks. */
const FIRST_WAIT_MS = 60_000;
const MAX_WAIT_MS = 3_600_000;
/** Time between two checks for gaps. */
const GAPS_MS = 3_600_000;
/** A file that is still being saved is not broken yet. */
const BROKEN_GRACE_MS = 10_000;

const CAUSES = ['died', 'broken'] as const;

export function createAlerts(state: DaemonState) {
  return { owe, drop, dropAll, recall, look };

  /** Does nothing if the job has no operators. If an alert for the cause is already owed, only its text changes. */
  function owe(job: DaemonJob, cause: OwedCause, text: string): void {
    const { hasAlerts, notesOf } = state.outside;
    if (state.isStopping || !hasAlerts(job.filed.job)) return;
    if (cause === 'died') state.note(job.name, () => notesOf(job.name).unsent.write({ died: text }));
    const owed = job.alerts[cause];
    if (owed) owed.text = text;
    else begin(job, cause, text);
  }

  /** The cause is over: an alert that was not sent yet is not retried. Does nothing if no alert is owed. */
  function drop(job: DaemonJob, cause: OwedCause): void {
    if (!job.alerts[cause]) return;
    job.alerts[cause] = undefined;
    if (cause === 'died') state.note(job.name, () => state.outside.notesOf(job.name).unsent.remove());
  }

  function dropAll(job: DaemonJob): void {
    for (const cause of CAUSES) drop(job, cause);
  }

  /** Sends the crash alert of a run under an earlier daemon, if that daemon could not send it. */
  async function recall(job: DaemonJob): Promise<void> {
    // If it cannot be read, the run's record still says how it ended.
    const noted = await state.outside
      .notesOf(job.name)
      .unsent.read()
      .catch(() => undefined);
    if (!noted || job.alerts.died || !state.outside.hasAlerts(job.filed.job)) return;
    begin(job, 'died', noted.died);
  }

  /** At every beat: sends the alerts that are due, and checks for gaps. */
  function look(job: DaemonJob): void {
    const { nowMs } = state;
    if (!job.fault) drop(job, 'broken');
    else if (job.fault.sinceMs + BROKEN_GRACE_MS <= nowMs) owe(job, 'broken', job.fault.message);
    if (areGapsDue(job, nowMs)) {
      job.gapsAtMs = nowMs;
      if (state.outside.hasAlerts(job.filed.job)) void alert(job, 'gaps', []);
    }
    for (const cause of CAUSES) {
      const owed = job.alerts[cause];
      // The wait uses elapsed time in both directions: a clock that was set back must not delay the alert.
      const isDue = owed?.state === 'waiting' && Math.abs(nowMs - owed.triedAtMs) >= owed.waitMs;
      if (isDue) void send(job, cause, owed);
    }
  }

  function begin(job: DaemonJob, cause: OwedCause, text: string): void {
    const owed: OwedAlert = { text, state: 'waiting', triedAtMs: state.nowMs, waitMs: 0 };
    job.alerts[cause] = owed;
    void send(job, cause, owed);
  }

  async function send(job: DaemonJob, cause: OwedCause, owed: OwedAlert): Promise<void> {
    owed.state = 'sending';
    const isSent = await alert(job, cause, [`--${cause}`, owed.text]);
    // It was dropped meanwhile, and one that is owed again has not been sent.
    if (job.alerts[cause] !== owed) return;
    owed.triedAtMs = state.nowMs;
    owed.state = isSent ? 'sent' : 'waiting';
    if (!isSent) owed.waitMs = Math.min(MAX_WAIT_MS, Math.max(FIRST_WAIT_MS, owed.waitMs * 2));
    // The next crash is a new alert, unless the child remembers this one. A broken file stays `sent` until it is fixed.
    else if (cause === 'died') drop(job, cause);
  }

  /** @returns whether it got through */
  async function alert(
    { name: job, filed }: DaemonJob,
    what: OwedCause | 'gaps',
    args: readonly string[],
  ): Promise<boolean> {
    const { commands, log } = state.outside;
    if (state.isStopping) return false;
    // Usually finds nothing: log at debug.
    log[what === 'gaps' ? 'debug' : 'info']({ event: 'alerting', job, what }, `${job}: alerting its operators`);
    const act = async () => {
      try {
        await commands.read(['alert', filed.path, ...args]);
        return true;
      } catch (error) {
        // The stop has interrupted it: it is as unsent as one that failed, but that is no news.
        if (state.isStopping) return false;
        throw error;
      }
    };
    return (await state.attempt('error', { event: 'alert-failed', job, what }, act)) ?? false;
  }
}

/** A run reports gaps at its end. A run that takes long or waits for its place may report them too late. */
function areGapsDue({ run, gapsAtMs }: DaemonJob, nowMs: number): boolean {
  const sinceMs =
    run?.phase === 'running' ? run.startedAtMs : run?.phase === 'waiting' ? run.sinceMs : Number.NEGATIVE_INFINITY;
  return Math.min(nowMs - sinceMs, Math.abs(nowMs - gapsAtMs)) >= GAPS_MS;
}
