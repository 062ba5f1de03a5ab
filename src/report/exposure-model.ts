/**
 * Exposure in the flow report's model (`model.ts`, whose invariants hold here too): plain JSON, dollars, null where a
 * number is not known.
 */

import type { Amount } from './amount.ts';

/** Gamma and delta exposure. Calls positive, puts negative (see docs/formulas.md); `net` is their sum. */
export interface ExposureSums {
  /** Dollars per 1 % move of the underlying. */
  readonly callGex: Amount;
  readonly putGex: Amount;
  readonly netGex: Amount;
  /** Dollars of the underlying: `delta x OI x 100 x S`, a put's delta being negative. */
  readonly callDex: Amount;
  readonly putDex: Amount;
  readonly netDex: Amount;
  /** Series that traded this date. */
  readonly contracts: number;
  /** Of those, series without a gamma or an open interest: they count as 0. */
  readonly unknownContracts: number;
}

export interface StrikeGex {
  readonly strike: number;
  readonly callGex: Amount;
  readonly putGex: Amount;
  readonly netGex: Amount;
}

export interface ExpirationGex {
  readonly expirationDate: string;
  readonly callGex: Amount;
  readonly putGex: Amount;
  readonly netGex: Amount;
}

/** A symbol of the ranking. */
export interface RankedExposure extends ExposureSums {
  readonly symbol: string;
  /** Last positive underlying price of the date; null when no record had one: the sums are 0 and mean nothing. */
  readonly spot: number | null;
}

/** A symbol in full. */
export interface SymbolExposure extends RankedExposure {
  readonly zeroGamma: number | null;
  /** Strike with the largest call GEX; with the most negative put GEX; with the largest sum of both sizes. */
  readonly callWall: number | null;
  readonly putWall: number | null;
  readonly absoluteGammaStrike: number | null;
  /** Ascending, those near the spot (at most 60). */
  readonly strikes: readonly StrikeGex[];
  /** Ascending, at most 12; the rest is in `laterExpirations`. */
  readonly expirations: readonly ExpirationGex[];
  readonly laterExpirations: { readonly count: number; readonly netGex: Amount };
  /** What the market-structure endpoint said of it on this date; null when no such drop is sealed. */
  readonly marketStructure: MarketStructureGex | null;
}

export interface MarketStructureGex {
  readonly intradayGex: number;
  /** Ours less theirs, as a fraction of the larger size of the two. */
  readonly difference: Amount;
  /** A sentence, when the difference is large; else empty. */
  readonly explanation: string;
}

export interface Exposure {
  readonly total: ExposureSums;
  /** Symbols left out, because no record had a price of the underlying. */
  readonly unpricedSymbols: number;
  /** Largest net exposure first, whatever its sign (at most 10). */
  readonly top: readonly RankedExposure[];
  /** The symbols in full: the watchlist's, or without one the first of `top`. */
  readonly focus: readonly SymbolExposure[];
  /** The symbol of the first screen and of the chart: the first of the watchlist with exposure, else the first of `top`. */
  readonly lead: SymbolExposure | null;
}
