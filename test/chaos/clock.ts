/**
 * The time of a chaos run: what it really is, what the API says it is, and what a worker's own clock shows. Invariant: only
 * the run moves the real one; what is wrong is an offset to it.
 */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { createMovedClock, type MovedClock } from '../support/moved-clock.ts';

export class RunClock {
  readonly #started = performance.now();
  #startMs: number;
  readonly #workers = new Map<
    number,
    { readonly clock: MovedClock; offsetMs: number; pid: number | undefined; leaps: number }
  >();
  readonly #folder: string;
  #leaps = 0;

  constructor(folder: string, startMs: number) {
    this.#folder = folder;
    this.#startMs = startMs;
  }

  now(): number {
    return this.#startMs + performance.now() - this.#started;
  }

  /** Time goes by, for workers that run as well. */
  async leap(ms: number): Promise<void> {
    this.#startMs += ms;
    this.#leaps += 1;
    for (const { clock, offsetMs, pid } of this.#workers.values()) {
      // A process that has just ended needs no clock.
      await clock.moveTo(this.now() + offsetMs, pid).catch(() => undefined);
    }
  }

  async leapTo(ms: number): Promise<void> {
    await this.leap(Math.max(0, ms - this.now()));
  }

  /** The environment of a worker whose clock is off by so much. */
  async start(worker: number, offsetMs: number): Promise<Readonly<Record<string, string>>> {
    const folder = join(this.#folder, `clock-${worker}`);
    await mkdir(folder, { recursive: true });
    const clock = await createMovedClock(folder, this.now() + offsetMs);
    this.#workers.set(worker, { clock, offsetMs, pid: undefined, leaps: this.#leaps });
    return clock.env;
  }

  /** From now on the process goes along when time leaps; its clock must be loaded by then. */
  async watch(worker: number, pid: number | undefined): Promise<void> {
    const found = this.#workers.get(worker);
    if (!found) return;
    found.pid = pid;
    // Time may have leapt while it started.
    if (pid !== undefined && found.leaps < this.#leaps) await this.leap(0);
  }
}
