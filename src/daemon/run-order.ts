/**
 * Which of the jobs that wait gets the place that falls free. Pure. Invariants: a date that expires is fetched before one
 * that has time; and a job that has waited for an hour is passed by none that came after it, so that jobs whose dates
 * never expire do not starve behind those whose dates do.
 */

export interface Waiting {
  readonly job: string;
  /** The tick that it is for. */
  readonly tickMs: number;
  /** When it came. */
  readonly sinceMs: number;
}

/** Longer than a night's export of a job takes, and far shorter than the day that every date has at least. */
export const MAX_WAIT_MS = 3_600_000;
/** What was missed comes within one of these at a start: it has come together, and its dates decide for as long as it waits. */
const ARRIVAL_MS = 60_000;

/**
 * @param expiryOf when the first pending date of a job begins to expire, milliseconds; infinite where none does
 * @returns `undefined` when none waits
 */
export function chooseNext<T extends Waiting>(
  waiting: readonly T[],
  expiryOf: (job: string) => number,
  nowMs: number,
): T | undefined {
  // A time to come is one of a clock that was set back since.
  const overdue = waiting.filter(({ sinceMs }) => Math.abs(nowMs - sinceMs) >= MAX_WAIT_MS);
  const byExpiry = (a: T, b: T) => compare(expiryOf(a.job), expiryOf(b.job)) || a.tickMs - b.tickMs;
  const arrivalOf = ({ sinceMs }: T) => Math.floor(sinceMs / ARRIVAL_MS);
  if (overdue.length === 0) return [...waiting].sort(byExpiry)[0];
  return overdue.sort((a, b) => arrivalOf(a) - arrivalOf(b) || byExpiry(a, b))[0];
}

/** Infinities are equal to each other. */
function compare(a: number, b: number): number {
  return a === b ? 0 : a - b;
}
