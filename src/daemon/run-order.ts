/**
 * Chooses the waiting job that gets the next free place. Pure. Invariants: a date that expires sooner is fetched first.
 * After an hour of waiting, no job that came later goes first, so jobs whose dates never expire do not starve.
 */

export interface Waiting {
  readonly job: string;
  /** Due time of its tick. */
  readonly tickMs: number;
  /** When it began to wait. */
  readonly sinceMs: number;
}

/** Longer than the nightly export of a job, and far shorter than a day, the least time that a date has left. */
export const MAX_WAIT_MS = 3_600_000;
/**
 * Ticks missed before a start arrive within this time: they count as simultaneous, and expiry orders them however long
 * they wait.
 */
const ARRIVAL_MS = 60_000;

/**
 * @param expiryOf when the first pending date of a job begins to expire, in milliseconds; infinite if none does
 * @returns `undefined` when no job is waiting
 */
export function chooseNext<T extends Waiting>(
  waiting: readonly T[],
  expiryOf: (job: string) => number,
  nowMs: number,
): T | undefined {
  // A time in the future means that the clock was set back.
  const overdue = waiting.filter(({ sinceMs }) => Math.abs(nowMs - sinceMs) >= MAX_WAIT_MS);
  const byExpiry = (a: T, b: T) => compare(expiryOf(a.job), expiryOf(b.job)) || a.tickMs - b.tickMs;
  const arrivalOf = ({ sinceMs }: T) => Math.floor(sinceMs / ARRIVAL_MS);
  if (overdue.length === 0) return [...waiting].sort(byExpiry)[0];
  return overdue.sort((a, b) => arrivalOf(a) - arrivalOf(b) || byExpiry(a, b))[0];
}

/** Infinities compare as equal. */
function compare(a: number, b: number): number {
  return a === b ? 0 : a - b;
}
