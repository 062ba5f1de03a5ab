/** Effects of a historical SQL subscription on an answer: its row limit and the entitlement members of `meta`. Pure. */
import type { Caller } from './keys.ts';

export interface RowLimits {
  /** Maximum rows per answer. */
  readonly rowLimit: number;
  /** Maximum rows per answer for a trial caller; capped at `rowLimit`. */
  readonly trialRowLimit: number;
  /** Days back that active subscriptions see; `undefined`: all dates. */
  readonly lookbackDays: number | undefined;
}

interface CallerLimits {
  readonly entitlement: 'active' | 'trialing';
  readonly rowLimit: number;
  readonly capped: boolean;
  /** For active subscriptions only. */
  readonly lookbackDays: number | undefined;
}

/** The gate rejects callers without the subscription; if one came here, it would get the smallest limits. */
export function describeLimits(caller: Caller, { rowLimit, trialRowLimit, lookbackDays }: RowLimits): CallerLimits {
  if (caller.historical === 'active') {
    return { entitlement: 'active', rowLimit, capped: false, lookbackDays };
  }
  return {
    entitlement: 'trialing',
    rowLimit: Math.min(rowLimit, trialRowLimit),
    capped: true,
    lookbackDays: undefined,
  };
}
