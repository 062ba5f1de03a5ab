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

export class Alerts {
  readonly #state: DaemonState;

  constructor(state: DaemonState) {
    this.#state = state;
  }

  /** Does nothing if the job has no operators. If an alert for the cause is already owed, only its text changes. */
  owe(job: DaemonJob, cause: OwedCause, text: string): void {
    const { hasAlerts, notesOf } = this.#state.outside;
    if (this.#state.isStopping || !hasAlerts(job.filed.job)) return;
    if (cause === 'died') this.#state.note(job.name, () => notesOf(job.name).unsent.write({ died: text }));
    const owed = job.alerts[cause];
    if (owed) owed.text = text;
    else this.#begin(job, cause, text);
  }

  /** The cause is over: an alert that was not sent yet is not retried. Does nothing if no alert is owed. */
  drop(job: DaemonJob, cause: OwedCause): void {
    if (!job.alerts[cause]) return;
    job.alerts[cause] = undefined;
    if (cause === 'died') this.#state.note(job.name, () => this.#state.outside.notesOf(job.name).unsent.remove());
  }

  dropAll(job: DaemonJob): void {
    for (const cause of CAUSES) this.drop(job, cause);
  }

  /** Sends the crash alert of a run under an earlier daemon, if that daemon could not send it. */
  async recall(job: DaemonJob): Promise<void> {
    // If it cannot be read, the run's record still says how it ended.
    const noted = await this.#state.outside
      .notesOf(job.name)
      .unsent.read()
      .catch(() => undefined);
    if (!noted || job.alerts.died || !this.#state.outside.hasAlerts(job.filed.job)) return;
    this.#begin(job, 'died', noted.died);
  }

  /** At every beat: sends the alerts that are due, and checks for gaps. */
  look(job: DaemonJob): void {
    const { nowMs } = this.#state;
    if (!job.fault) this.drop(job, 'broken');
    else if (job.fault.sinceMs + BROKEN_GRACE_MS <= nowMs) this.owe(job, 'broken', job.fault.message);
    if (areGapsDue(job, nowMs)) {
      job.gapsAtMs = nowMs;
      if (this.#state.outside.hasAlerts(job.filed.job)) void this.#alert(job, 'gaps', []);
    }
    for (const cause of CAUSES) {
      const owed = job.alerts[cause];
      // The wait uses elapsed time in both directions: a clock that was set back must not delay the alert.
      const isDue = owed?.state === 'waiting' && Math.abs(nowMs - owed.triedAtMs) >= owed.waitMs;
      if (isDue) void this.#send(job, cause, owed);
    }
  }

  #begin(job: DaemonJob, cause: OwedCause, text: string): void {
    const owed: OwedAlert = { text, state: 'waiting', triedAtMs: this.#state.nowMs, waitMs: 0 };
    job.alerts[cause] = owed;
    void this.#send(job, cause, owed);
  }

  async #send(job: DaemonJob, cause: OwedCause, owed: OwedAlert): Promise<void> {
    owed.state = 'sending';
    const isSent = await this.#alert(job, cause, [`--${cause}`, owed.text]);
    // It was dropped meanwhile, and one that is owed again has not been sent.
    if (job.alerts[cause] !== owed) return;
    owed.triedAtMs = this.#state.nowMs;
    owed.state = isSent ? 'sent' : 'waiting';
    if (!isSent) owed.waitMs = Math.min(MAX_WAIT_MS, Math.max(FIRST_WAIT_MS, owed.waitMs * 2));
    // The next crash is a new alert, unless the child remembers this one. A broken file stays `sent` until it is fixed.
    else if (cause === 'died') this.drop(job, cause);
  }

  /** @returns whether it got through */
  async #alert({ name: job, filed }: DaemonJob, what: OwedCause | 'gaps', args: readonly string[]): Promise<boolean> {
    const { commands, log } = this.#state.outside;
    if (this.#state.isStopping) return false;
    // Usually finds nothing: log at debug.
    log[what === 'gaps' ? 'debug' : 'info']({ event: 'alerting', job, what }, `${job}: alerting its operators`);
    const alert = async () => {
      try {
        await commands.read(['alert', filed.path, ...args]);
        return true;
      } catch (error) {
        // The stop has interrupted it: it is as unsent as one that failed, but that is no news.
        if (this.#state.isStopping) return false;
        throw error;
      }
    };
    return (await this.#state.attempt('error', { event: 'alert-failed', job, what }, alert)) ?? false;
  }
}

/** A run reports gaps at its end. A run that takes long or waits for its place may report them too late. */
function areGapsDue({ run, gapsAtMs }: DaemonJob, nowMs: number): boolean {
  const sinceMs =
    run?.phase === 'running' ? run.startedAtMs : run?.phase === 'waiting' ? run.sinceMs : Number.NEGATIVE_INFINITY;
  return Math.min(nowMs - sinceMs, Math.abs(nowMs - gapsAtMs)) >= GAPS_MS;
}
