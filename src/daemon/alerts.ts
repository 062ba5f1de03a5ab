/**
 * Operator alerts for problems of one job that no run can report: a run that crashed silently, a broken job file, gaps
 * between runs. The command that sends them keeps in the job's outbox who was notified of what, so nobody is notified
 * twice, and what it could not send is sent by a later one, also after a restart. Invariant: a crash, a broken file or a
 * missed deadline is reported again, ever less often, until the command succeeds or the cause is over; gaps are checked
 * every hour.
 */
import type { FiledJob } from './job-files.ts';
import type { JobStatus } from './job-status.ts';
import type { World } from './state.ts';

/** After a failure; doubled after each, up to an hour. */
const FIRST_WAIT_MS = 60_000;
/** Time between two checks for gaps. */
const GAPS_MS = 3_600_000;
/** A file that is still being saved is not broken yet: it is read again before. */
const BROKEN_GRACE_MS = 15_000;

interface AlertedJob {
  readonly name: string;
  readonly filed: FiledJob;
  readonly status: Pick<JobStatus, 'read' | 'refresh'>;
}

export class JobAlerts {
  /** How a run ended that could not report it, until that is reported or over. */
  died: string | undefined;
  readonly #world: World;
  readonly #job: AlertedJob;
  /** Whether the fault that the job file has was reported. */
  #isFaultKnown = false;
  #isAlerting = false;
  #triedAtMs = Number.NEGATIVE_INFINITY;
  /** 0 after a success, and when there is something else to report. */
  #waitMs = 0;
  /** What there was to report when it last looked: a death, a broken file, a deadline. */
  #news: readonly boolean[] = [];
  /** The last deadline that passed. */
  #passed: string | null = null;
  #isLateUnsaid = false;

  constructor(world: World, job: AlertedJob) {
    this.#world = world;
    this.#job = job;
  }

  /**
   * Alerts if something is to be reported, or it is time to check for gaps. A run reports gaps at its end, unless it takes
   * long or waits for its place.
   * @param busySinceMs when it began to wait or to run, if it did
   */
  look(
    fault: { readonly message: string; readonly since: string } | null,
    busySinceMs = Number.NEGATIVE_INFINITY,
  ): void {
    const { nowMs, isStopping, outside } = this.#world;
    if (!fault) this.#isFaultKnown = false;
    // Said as long as it lasts: without it, the command would take the copy that is in use for the mended file.
    const broken = fault && Math.abs(nowMs - Date.parse(fault.since)) >= BROKEN_GRACE_MS ? fault.message : undefined;
    // Elapsed time in both directions: a clock that was set back must not delay an alert.
    const quietMs = Math.abs(nowMs - this.#triedAtMs);
    this.#lookForDeadline();
    const isNewlyBroken = broken !== undefined && !this.#isFaultKnown;
    const news = [this.died !== undefined, isNewlyBroken, this.#isLateUnsaid];
    if (news.some((isIt, at) => isIt && !this.#news[at])) this.#waitMs = 0;
    this.#news = news;
    const isGapsDue = (!fault || broken !== undefined) && Math.min(nowMs - busySinceMs, quietMs) >= GAPS_MS;
    const isDue = news.includes(true) ? quietMs >= this.#waitMs : isGapsDue;
    if (isDue && !this.#isAlerting && !isStopping && outside.hasAlerts(this.#job.filed.job)) void this.#alert(broken);
  }

  /** When a deadline passes, what is known of the dates may be old: the page and the metrics get it anew. */
  #lookForDeadline(): void {
    const next = this.#job.status.read?.document.next_deadline ?? null;
    if (next === null || next === this.#passed || Date.parse(next) > this.#world.nowMs) return;
    this.#passed = next;
    this.#isLateUnsaid = true;
    void this.#job.status.refresh();
  }

  async #alert(broken: string | undefined): Promise<void> {
    const { log, commands } = this.#world.outside;
    const { name: job, filed } = this.#job;
    const { died } = this;
    const [isNews, isLate] = [broken !== undefined && !this.#isFaultKnown, this.#isLateUnsaid];
    const what = died !== undefined ? 'died' : isNews ? 'broken' : isLate ? 'late' : 'gaps';
    const flags = [
      ...(died === undefined ? [] : ['--died', died]),
      ...(broken === undefined ? [] : ['--broken', broken]),
    ];
    // Usually finds nothing: log at debug.
    const level = what === 'gaps' ? 'debug' : 'info';
    log[level]({ event: 'alerting', job, what }, `${job}: alerting its operators`);
    this.#isAlerting = true;
    const isSent = await this.#world.attempt('error', { event: 'alert-failed', job, what }, async () => {
      await commands.read(['alert', filed.path, ...flags]);
      return true;
    });
    this.#isAlerting = false;
    this.#triedAtMs = this.#world.nowMs;
    this.#waitMs = isSent || what === 'gaps' ? 0 : Math.min(GAPS_MS, Math.max(FIRST_WAIT_MS, this.#waitMs * 2));
    if (!isSent) return;
    if (isLate) this.#isLateUnsaid = false;
    // Another run may have died meanwhile.
    if (this.died === died) this.died = undefined;
    if (broken !== undefined) this.#isFaultKnown = true;
  }
}
