/** What the arithmetic of exposure needs to know of an option contract, and the size of one. Pure data. */

/** One listed series: a root, an expiration, a strike, and call or put. */
export interface OptionContract {
  readonly putCall: 'CALL' | 'PUT';
  /** Dollars. */
  readonly strike: number;
  /** YYYY-MM-DD. */
  readonly expirationDate: string;
  /** Implied volatility, annualised, 1 = 100 %; null or 0 where it is not known. */
  readonly iv: number | null;
  /** Change of delta per dollar of the underlying; null or 0 where it is not known. */
  readonly gamma: number | null;
  /** Contracts. */
  readonly openInterest: number;
}

/** Shares of the underlying that one contract is for (OCC, standard contracts). */
export const SHARES_PER_CONTRACT = 100;

/** Exposures are told for a move of the underlying by 1 %. */
export const MOVE = 0.01;
