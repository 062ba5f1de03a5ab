/**
 * The server's clock as its `Date` headers show it. Invariant: one odd answer does not move it, because the middle one of
 * the last answers counts; and it does not follow this machine's clock when that is set, because between answers it runs
 * on by a clock that nobody sets. Whether the server's clock is right is not judged here: see `plan/witness.ts`.
 */
import { type Clock, elapsedMs } from '../core/clock.ts';

interface ServerClock {
  /** Takes the time from an answer that is surely the server's. */
  note(offer: TimeOffer | undefined): void;
  /** Milliseconds since the epoch. Before the first answer that tells the time: by what an earlier run knew. */
  now(): number;
  /** Whether an answer has told the time. */
  isTold(): boolean;
}

/** When the head of an answer came, and what time it said. */
export interface TimeOffer {
  readonly serverMs: number;
  readonly ownMs: number;
  readonly elapsedMs: number;
}

/** So many answers vote: one odd answer in a row is outvoted, and a server that was set is followed after three answers. */
const KEPT_OFFERS = 5;
/** This machine's clock was set, or the machine slept, when its two clocks go apart by more: NTP slews by less. */
const STEP_MS = 2_000;
/** The header has whole seconds: half a second is its expected error. */
const HALF_SECOND_MS = 500;

/** @param age of the `Age` header: seconds since a cache had the answer from the server (RFC 9111, section 5.1) */
export function readTime(clock: Clock, date: unknown, age: unknown): TimeOffer | undefined {
  const serverMs = typeof date === 'string' ? Date.parse(date) : Number.NaN;
  if (Number.isNaN(serverMs)) return undefined;
  const ageMs = typeof age === 'string' && /^\d{1,9}$/.test(age.trim()) ? Number(age) * 1000 : 0;
  return { serverMs: serverMs + ageMs + HALF_SECOND_MS, ownMs: clock.now(), elapsedMs: elapsedMs(clock) };
}

/** @param knownOffsetMs the server's clock minus ours, as of an earlier run */
export function createServerClock(clock: Clock, knownOffsetMs: number): ServerClock {
  let offers: TimeOffer[] = [];
  return {
    note(offer) {
      if (offer === undefined) return;
      const last = offers.at(-1);
      // After a step nobody knows how long it took: what was told before is of no use.
      const stepMs = last && offer.ownMs - last.ownMs - (offer.elapsedMs - last.elapsedMs);
      if (stepMs !== undefined && Math.abs(stepMs) > STEP_MS) offers = [];
      offers = [...offers, offer].slice(-KEPT_OFFERS);
    },
    now() {
      const elapsed = elapsedMs(clock);
      if (offers.length === 0) return clock.now() + knownOffsetMs;
      return elapsed + pickMiddle(offers, clock.now() - elapsed);
    },
    isTold: () => offers.length > 0,
  };
}

/**
 * The server's clock minus the clock that nobody sets. Of two in the middle the one nearer to this machine's clock: two
 * clocks that agree are wrong together more seldom than one alone.
 */
function pickMiddle(offers: readonly TimeOffer[], ownOffsetMs: number): number {
  const sorted = offers.map(({ serverMs, elapsedMs: at }) => serverMs - at).sort((a, b) => a - b);
  const upper = sorted[Math.floor(sorted.length / 2)] ?? ownOffsetMs;
  const lower = sorted[Math.floor((sorted.length - 1) / 2)] ?? ownOffsetMs;
  return Math.abs(lower - ownOffsetMs) <= Math.abs(upper - ownOffsetMs) ? lower : upper;
}
