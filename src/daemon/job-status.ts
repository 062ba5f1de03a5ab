/**
 * The dataset status of one job, as a child last reported it. Only one reading at a time. A reading in progress may have
 * begun before the change of interest, so a second request makes another one follow.
 */
import { describeError, Fault } from '../core/errors.ts';
import type { FiledJob } from './job-files.ts';
import { type StatusDocument, statusSchema } from './shapes.ts';
import type { World } from './state.ts';

export class JobStatus {
  /** `undefined` before the first that could be read. */
  read: { readonly document: StatusDocument; readonly readAtMs: number } | undefined;
  /** Why the last reading failed, if it did. */
  fault: string | undefined;
  /** When it was last read, or could not be. */
  triedAtMs = 0;
  isReading = false;
  readonly #world: World;
  readonly #job: { readonly name: string; readonly filed: FiledJob };
  #isAskedAgain = false;

  constructor(world: World, job: { readonly name: string; readonly filed: FiledJob }) {
    this.#world = world;
    this.#job = job;
  }

  /** Dates that are not sealed yet; `undefined` when the status is unknown. */
  get pending() {
    return this.read?.document.dates.filter(({ condition }) => condition === 'pending');
  }

  /** When the first pending date begins to leave the lookback; infinite when none does. */
  get expiresAtMs(): number {
    const expiries = (this.pending ?? []).map(({ begins_to_expire: at }) => Date.parse(at ?? ''));
    return Math.min(Number.POSITIVE_INFINITY, ...expiries.filter((ms) => !Number.isNaN(ms)));
  }

  /** How long ago it was tried. A time in the future means that the clock was set back. */
  get ageMs(): number {
    return Math.abs(this.#world.nowMs - this.triedAtMs);
  }

  get isKnown(): boolean {
    return this.read !== undefined || this.fault !== undefined;
  }

  async refresh(): Promise<void> {
    const { commands, log } = this.#world.outside;
    this.#isAskedAgain = true;
    if (this.isReading) return;
    this.isReading = true;
    while (this.#isAskedAgain) {
      this.#isAskedAgain = false;
      const { name, filed } = this.#job;
      try {
        const [document] = await commands.read<readonly unknown[]>(['status', filed.path]);
        const kept = statusSchema.safeParse(document);
        if (!kept.success) throw new Fault('CHILD_ANSWER_INVALID', 'flowdrop status printed no status document');
        this.read = { document: kept.data, readAtMs: this.#world.nowMs };
        this.fault = undefined;
      } catch (error) {
        const reason = describeError(error);
        // Logs once, not at every reading of an unavailable store.
        if (this.fault === undefined) log.warn({ event: 'status-failed', job: name, reason }, `${name}: ${reason}`);
        this.fault = reason;
      }
      this.triedAtMs = this.#world.nowMs;
    }
    this.isReading = false;
  }
}
