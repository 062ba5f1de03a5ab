/**
 * How long a run may take. Invariant: only time in which this machine was at work counts, because it is counted in short
 * sleeps: neither a clock that is set nor a laptop that sleeps ends a run, and a time-out of weeks is no number too large
 * for a timer. What becomes of the run is not decided here.
 */
import type { Clock } from '../core/clock.ts';

/** A sleep of the machine counts as one of these at most. */
const SLICE_MS = 60_000;

export interface RunTimeoutOptions {
  readonly clock: Clock;
  /** Asked anew for every slice, so that a changed job file counts for the run that goes on. Infinite: none. */
  readonly timeoutMs: () => number;
  /** Aborts when the run has ended. */
  readonly ended: AbortSignal;
}

/** @returns the time-out that is over, milliseconds; `undefined` when the run ended before. Never rejects */
export async function untilTimeout({ clock, timeoutMs, ended }: RunTimeoutOptions): Promise<number | undefined> {
  let tookMs = 0;
  for (;;) {
    const leftMs = timeoutMs() - tookMs;
    if (leftMs <= 0) return timeoutMs();
    const sliceMs = Math.min(SLICE_MS, leftMs);
    await clock.sleep(sliceMs, ended).catch(() => undefined); // The end of the run.
    if (ended.aborted) return undefined;
    tookMs += sliceMs;
  }
}
