/**
 * Gamma of a European option in the Black-Scholes-Merton model. Pure. Calls and puts of one strike and expiration have
 * the same gamma, by put-call parity.
 */

export interface GammaTerms {
  /** Price of the underlying, dollars. */
  readonly spot: number;
  /** Dollars. */
  readonly strike: number;
  /** Volatility, annualised, 1 = 100 %. */
  readonly iv: number;
  /** Time to expiration, years. */
  readonly years: number;
  /** Risk-free rate, continuously compounded. Default: 0. */
  readonly rate?: number;
  /** Dividend yield, continuously compounded. Default: 0. */
  readonly dividendYield?: number;
}

/** Height of the standard normal density at 0. */
export const NORMAL_PEAK = 1 / Math.sqrt(2 * Math.PI);

/**
 * Change of delta per dollar of the underlying:
 * `exp(-q T) x n(d1) / (S x sigma x sqrt(T))`, `d1 = (ln(S / K) + (r - q + sigma^2 / 2) x T) / (sigma x sqrt(T))`,
 * n the standard normal density. Source: Hull, Options, Futures, and Other Derivatives, ch. "The Greek Letters".
 * @returns 0 where the model says nothing: a price, strike, volatility or time that is not above 0
 */
export function computeGamma({ spot, strike, iv, years, rate = 0, dividendYield = 0 }: GammaTerms): number {
  if (!(spot > 0 && strike > 0 && iv > 0 && years > 0)) return 0;
  const deviation = iv * Math.sqrt(years);
  const d1 = (Math.log(spot / strike) + (rate - dividendYield + (iv * iv) / 2) * years) / deviation;
  return (Math.exp(-dividendYield * years - (d1 * d1) / 2) * NORMAL_PEAK) / (spot * deviation);
}
