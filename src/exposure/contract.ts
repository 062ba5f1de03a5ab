/** What the exposure arithmetic needs to know about an option contract, and the contract size. Pure data. */

/** One listed series: a root, an expiration, a strike, and call or put. */
export interface OptionContract {
  readonly putCall: 'CALL' | 'PUT';
  /** Dollars. */
  readonly strike: number;
  /** YYYY-MM-DD. */
  readonly expirationDate: string;
  /** Implied volatility, annualized, 1 = 100%; null or 0 if unknown. */
  readonly iv: number | null;
  /** Change of delta per dollar of the underlying; null or 0 if unknown. */
  readonly gamma: number | null;
  /** Contracts. */
  readonly openInterest: number;
}

/** Shares of the underlying per contract (OCC, standard contracts). */
export const SHARES_PER_CONTRACT = 100;

/** Exposures are stated for a 1% move of the underlying. */
export const MOVE = 0.01;
