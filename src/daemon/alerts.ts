/**
 * Operator alerts for problems of one job that no run can report: a run that crashed silently, a broken job file, gaps
 * between runs. Invariant: a crash or broken-file alert is retried, ever less often, until it is sent or its cause is
 * over. The child that sends alerts remembers who was notified, so nobody is notified twice. Unsent crash alerts survive a
 * restart. A broken file is found again anyway, and gaps are checked every hour.
 */
import type { FiledJob } from './job-files.ts';
import type { World } from './state.ts';

/** Doubled after each try, up to an hour, which is also the interval of gap checks. */
const FIRST_WAIT_MS = 60_000;
const MAX_WAIT_MS = 3_600_000;
/** Time between two checks for gaps. */
const GAPS_MS = 3_600_000;
/** A file that is still being saved is not broken yet. */
const BROKEN_GRACE_MS = 10_000;

const CAUSES = ['died', 'broken'] as const;
type Cause = (typeof CAUSES)[number];

/** Kept until it is sent or its cause is over. */
interface OwedAlert {
  text: string;
  /** Neither being sent nor sent. */
  isWaiting: boolean;
  triedAtMs: number;
  waitMs: number;
}

export class JobAlerts {
  readonly #world: World;
  readonly #job: { readonly name: string; readonly filed: FiledJob };
  readonly #owed = new Map<Cause, OwedAlert>();
  #gapsAtMs = Number.NEGATIVE_INFINITY;

  constructor(world: World, job: { readonly name: string; readonly filed: FiledJob }) {
    this.#world = world;
    this.#job = job;
  }

  /** Does nothing if the job has no operators. If an alert for the cause is already owed, only its text changes. */
  owe(cause: Cause, text: string): void {
    const { nowMs, isStopping, outside } = this.#world;
    const { name, filed } = this.#job;
    if (isStopping || !outside.hasAlerts(filed.job)) return;
    if (cause === 'died') this.#world.note(name, () => outside.notesOf(name).unsent.write({ died: text }));
    const owed = this.#owed.get(cause);
    if (owed) owed.text = text;
    else this.#owed.set(cause, { text, isWaiting: true, triedAtMs: nowMs, waitMs: 0 });
  }

  /** The cause is over: an alert that was not sent yet is not retried. Does nothing if no alert is owed. */
  drop(cause: Cause): void {
    if (!this.#owed.delete(cause) || cause !== 'died') return;
    const { name } = this.#job;
    this.#world.note(name, () => this.#world.outside.notesOf(name).unsent.remove());
  }

  dropAll(): void {
    for (const cause of CAUSES) this.drop(cause);
  }

  /** Sends the crash alert of a run under an earlier daemon, if that daemon could not send it. */
  async recall(): Promise<void> {
    const { unsent } = this.#world.outside.notesOf(this.#job.name);
    const noted = await unsent.read().catch(() => undefined); // The run's record still says how it ended.
    if (noted && !this.#owed.has('died')) this.owe('died', noted.died);
  }

  /**
   * Sends the alerts that are due, and checks for gaps. A run reports gaps at its end, unless it takes long or waits for
   * its place.
   * @param busySinceMs when it began to wait or to run, if it did
   */
  look(
    fault: { readonly message: string; readonly since: string } | null,
    busySinceMs = Number.NEGATIVE_INFINITY,
  ): void {
    const { nowMs, outside } = this.#world;
    if (!fault) this.drop('broken');
    else if (Date.parse(fault.since) + BROKEN_GRACE_MS <= nowMs) this.owe('broken', fault.message);
    // Waits use elapsed time in both directions: a clock that was set back must not delay an alert.
    if (Math.min(nowMs - busySinceMs, Math.abs(nowMs - this.#gapsAtMs)) >= GAPS_MS) {
      this.#gapsAtMs = nowMs;
      if (outside.hasAlerts(this.#job.filed.job)) void this.#alert('gaps');
    }
    for (const [cause, owed] of this.#owed) {
      if (owed.isWaiting && Math.abs(nowMs - owed.triedAtMs) >= owed.waitMs) void this.#send(cause, owed);
    }
  }

  async #send(cause: Cause, owed: OwedAlert): Promise<void> {
    owed.isWaiting = false;
    const isSent = await this.#alert(cause, `--${cause}`, owed.text);
    // It was dropped meanwhile, and one that is owed again has not been sent.
    if (this.#owed.get(cause) !== owed) return;
    owed.triedAtMs = this.#world.nowMs;
    owed.isWaiting = !isSent;
    if (!isSent) owed.waitMs = Math.min(MAX_WAIT_MS, Math.max(FIRST_WAIT_MS, owed.waitMs * 2));
    // The next crash is a new alert, unless the child remembers this one. A broken file stays `sent` until it is fixed.
    else if (cause === 'died') this.drop(cause);
  }

  /** @returns whether it got through */
  async #alert(what: Cause | 'gaps', ...args: readonly string[]): Promise<boolean> {
    const world = this.#world;
    const { name: job, filed } = this.#job;
    if (world.isStopping) return false;
    // Usually finds nothing: log at debug.
    const level = what === 'gaps' ? 'debug' : 'info';
    world.outside.log[level]({ event: 'alerting', job, what }, `${job}: alerting its operators`);
    const act = async () => {
      try {
        await world.outside.commands.read(['alert', filed.path, ...args]);
        return true;
      } catch (error) {
        // The stop has interrupted it: it is as unsent as one that failed, but that is no news.
        if (world.isStopping) return false;
        throw error;
      }
    };
    return (await world.attempt('error', { event: 'alert-failed', job, what }, act)) ?? false;
  }
}
