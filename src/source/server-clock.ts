/**
 * The server's clock, derived from its `Date` headers. Invariant: one odd answer does not move it, because the median
 * of the last answers counts. It does not jump when this machine's clock is set, because between answers it advances by
 * a monotonic clock. Whether the server's clock is right is judged in `plan/clocks.ts`.
 */
import { type Clock, elapsedMs } from '../core/clock.ts';

/** When the head of an answer arrived, and the server time in it. */
export interface TimeOffer {
  readonly serverMs: number;
  readonly ownMs: number;
  readonly elapsedMs: number;
}

/** Answers that vote. One odd answer is outvoted; a change of the server's clock is followed after three answers. */
const KEPT_OFFERS = 5;
/** If our wall clock and monotonic clock diverge by more, the clock was set or the machine slept: NTP slews by less. */
const STEP_MS = 2_000;
/** The header has whole seconds; its expected error is half a second. */
const HALF_SECOND_MS = 500;

/** @param age of the `Age` header: seconds since a cache got the answer from the server (RFC 9111, section 5.1) */
export function readTime(clock: Clock, date: unknown, age: unknown): TimeOffer | undefined {
  const serverMs = typeof date === 'string' ? Date.parse(date) : Number.NaN;
  if (Number.isNaN(serverMs)) return undefined;
  const ageMs = typeof age === 'string' && /^\d{1,9}$/.test(age.trim()) ? Number(age) * 1000 : 0;
  return { serverMs: serverMs + ageMs + HALF_SECOND_MS, ownMs: clock.now(), elapsedMs: elapsedMs(clock) };
}

/** @param knownOffsetMs the server's clock minus ours, from an earlier run */
export function createServerClock(clock: Clock, knownOffsetMs: number) {
  let offers: TimeOffer[] = [];
  return {
    /** Records the time from an answer that surely comes from the server. */
    note(offer: TimeOffer | undefined): void {
      if (offer === undefined) return;
      const last = offers.at(-1);
      // After a step the elapsed time is unknown, so earlier offers are useless.
      const stepMs = last && offer.ownMs - last.ownMs - (offer.elapsedMs - last.elapsedMs);
      if (stepMs !== undefined && Math.abs(stepMs) > STEP_MS) offers = [];
      offers = [...offers, offer].slice(-KEPT_OFFERS);
    },
    /** Milliseconds since the epoch. Before the first answer with a time: uses the offset of an earlier run. */
    now(): number {
      const elapsed = elapsedMs(clock);
      if (offers.length === 0) return clock.now() + knownOffsetMs;
      return elapsed + pickMiddle(offers, clock.now() - elapsed);
    },
    /** Whether any answer has contained the time. */
    isTold: () => offers.length > 0,
  };
}

/**
 * Median offset of the server's clock from the monotonic clock. With two middle values, the one nearer to this
 * machine's clock wins: two clocks that agree are less often wrong than one alone.
 */
function pickMiddle(offers: readonly TimeOffer[], ownOffsetMs: number): number {
  const sorted = offers.map(({ serverMs, elapsedMs: at }) => serverMs - at).sort((a, b) => a - b);
  const upper = sorted[Math.floor(sorted.length / 2)] ?? ownOffsetMs;
  const lower = sorted[Math.floor((sorted.length - 1) / 2)] ?? ownOffsetMs;
  return Math.abs(lower - ownOffsetMs) <= Math.abs(upper - ownOffsetMs) ? lower : upper;
}
