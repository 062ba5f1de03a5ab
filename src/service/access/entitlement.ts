/** What a subscription to historical SQL means for an answer: its row limit, and what `meta` says of it. Pure. */
import { LOOKBACK_DAYS } from '../../api-contract/published-limits.ts';
import type { Caller } from './keys.ts';

export interface RowLimits {
  /** Most rows of one answer. */
  readonly rowLimit: number;
  /** Most rows of one answer to a trialing caller; one above `rowLimit` means `rowLimit`. */
  readonly trialRowLimit: number;
}

interface CallerLimits {
  readonly entitlement: 'active' | 'trialing';
  readonly rowLimit: number;
  readonly capped: boolean;
  /** Active subscriptions only. */
  readonly lookbackDays?: number;
}

/** A caller without the subscription never comes here; if one did, it would get the least. */
export function describeLimits(caller: Caller, { rowLimit, trialRowLimit }: RowLimits): CallerLimits {
  if (caller.historical === 'active') {
    return { entitlement: 'active', rowLimit, capped: false, lookbackDays: LOOKBACK_DAYS };
  }
  return { entitlement: 'trialing', rowLimit: Math.min(rowLimit, trialRowLimit), capped: true };
}
