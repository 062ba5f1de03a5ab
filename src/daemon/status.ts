/**
 * Decides when the dataset status of a job is read again, by a child. Only one reading per job at a time. A reading in
 * progress may have begun before the change of interest, so a second request makes another one follow.
 */
import { describeError, Fault } from '../core/errors.ts';
import { type DaemonJob, type DaemonState, statusSchema } from './state.ts';

/** Maximum age of a status that nobody views, and of one that someone does. */
export const STATUS_IDLE_MS = 900_000;
export const STATUS_SHOWN_MS = 60_000;

export class Statuses {
  readonly #state: DaemonState;
  readonly #onRead: (job: DaemonJob) => void;

  /** @param onRead called when a reading ended, also if it failed, and none follows */
  constructor(state: DaemonState, onRead: (job: DaemonJob) => void) {
    this.#state = state;
    this.#onRead = onRead;
  }

  refresh(job: DaemonJob): void {
    if (job.isReading) job.isAskedAgain = true;
    else void this.#read(job);
  }

  /** Reads the oldest status that is older than this, unless a reading is in progress. */
  refreshOldest(olderThanMs: number): void {
    const jobs = [...this.#state.jobs.values()];
    if (jobs.some(({ isReading }) => isReading)) return;
    // A time in the future means that the clock was set back.
    const ageOf = ({ statusTriedAtMs }: DaemonJob) => Math.abs(this.#state.nowMs - statusTriedAtMs);
    const [oldest] = jobs.sort((a, b) => (ageOf(a) === ageOf(b) ? 0 : ageOf(b) - ageOf(a)));
    if (oldest && ageOf(oldest) >= olderThanMs) this.refresh(oldest);
  }

  async #read(job: DaemonJob): Promise<void> {
    const { commands, log } = this.#state.outside;
    job.isReading = true;
    do {
      job.isAskedAgain = false;
      try {
        const [document] = await commands.read<readonly unknown[]>(['status', job.filed.path]);
        const kept = statusSchema.safeParse(document);
        if (!kept.success) throw new Fault('CHILD_ANSWER_INVALID', 'flowdrop status printed no status document');
        job.status = { document: kept.data, readAtMs: this.#state.nowMs };
        job.statusFault = undefined;
      } catch (error) {
        const reason = describeError(error);
        // Logs once, not at every reading of an unavailable store.
        if (job.statusFault === undefined) {
          log.warn({ event: 'status-failed', job: job.name, reason }, `${job.name}: ${reason}`);
        }
        job.statusFault = reason;
      }
      job.statusTriedAtMs = this.#state.nowMs;
    } while (job.isAskedAgain);
    job.isReading = false;
    this.#onRead(job);
  }
}
