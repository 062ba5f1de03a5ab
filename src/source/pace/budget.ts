/** The request budgets of a key, as data, and the pace derived from one. Pure. */
import { REQUESTS_PER_SECOND } from '../../api-contract/published-limits.ts';

interface Budget {
  /** Sustained request starts a second. */
  readonly requestsPerSecond: number;
  /** Starts that can accumulate while idle; 1 accumulates none. */
  readonly burst: number;
}

/**
 * Limits that the provider counts separately, from the section "Limits" of the API's specification:
 * - `historical`: "1 request per second", both entry points together; no burst is granted
 * - `chain`: "sustained traffic of 1 request per second per customer; short bursts of 10 requests or fewer"
 * - `market-structure`: "not shown", so no more than is granted elsewhere
 */
export const BUDGETS = {
  historical: { requestsPerSecond: REQUESTS_PER_SECOND, burst: 1 },
  chain: { requestsPerSecond: 1, burst: 10 },
  'market-structure': { requestsPerSecond: 1, burst: 1 },
} as const satisfies Record<string, Budget>;

export type BudgetName = keyof typeof BUDGETS;

/**
 * Intervals are longer than the budget requires, so that network jitter does not bring two requests too close. Where
 * this is not enough, `reservations.ts` learns more.
 */
const JITTER_GUARD = 1.01;

export interface Pace {
  /** Between two starts, while no 429 has made it longer. */
  readonly intervalMs: number;
  readonly burst: number;
  /** Maximum time that a 429 holds back starts. */
  readonly longestPauseMs: number;
}

export function paceOf(budget: Budget, longestPauseMs: number): Pace {
  return { intervalMs: (1000 / budget.requestsPerSecond) * JITTER_GUARD, burst: budget.burst, longestPauseMs };
}
