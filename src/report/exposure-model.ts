/** The exposure of a report as data, as `model.ts` has the rest. */
import type { Amount } from './amount.ts';
import { field, maybe, type RowOf } from './report-table.ts';

/**
 * Gamma and delta exposure at the close of the date. Calls positive, puts negative (see docs/formulas.md); `net` is their sum.
 * `After`: of the series that outlive the date, which are all that is left when the report is read.
 */
export interface ExposureSums {
  /** Dollars per 1% move of the underlying. */
  readonly callGex: Amount;
  readonly putGex: Amount;
  readonly netGex: Amount;
  /** Dollars of the underlying: `delta x OI x 100 x S`; a put's delta is negative. */
  readonly callDex: Amount;
  readonly putDex: Amount;
  readonly netDex: Amount;
  readonly netGexAfter: Amount;
  readonly netDexAfter: Amount;
  /** Series with gamma exposure among `contracts` that do not outlive the date. */
  readonly endedContracts: number;
  /** Series that traded this date. */
  readonly contracts: number;
  /** Series among `contracts` that are not for 100 shares, adjusted or mini: they count as 0. */
  readonly adjustedContracts: number;
  /** Other series among `contracts` without a gamma or an open interest: they count as 0. */
  readonly unknownContracts: number;
}

const GEX_COLUMNS = [
  maybe('Call GEX', 'callGex', 'dollars'),
  maybe('Put GEX', 'putGex', 'dollars'),
  maybe('Net GEX', 'netGex', 'dollars'),
];

export const STRIKE_COLUMNS = [
  field('Strike', 'strike', 'price'),
  ...GEX_COLUMNS,
  maybe('Net after expiration', 'netGexAfter', 'dollars', 'net_gex_after_expiration'),
];

export type StrikeGex = RowOf<typeof STRIKE_COLUMNS>;

export const EXPIRATION_COLUMNS = [
  field('Expiration', 'expirationDate', 'date'),
  ...GEX_COLUMNS,
  maybe('Share of gamma', 'share', 'fraction', 'share_of_gamma'),
];

/** `share`: the part of the symbol's gamma that rolls off with it. */
export type ExpirationGex = RowOf<typeof EXPIRATION_COLUMNS>;

export const PAIN_COLUMNS = [
  field('Expiration', 'expirationDate', 'date'),
  field('Max pain', 'maxPain', 'price'),
  maybe('Vanna per point', 'vanna', 'dollars'),
  maybe('Charm a day', 'charm', 'dollars'),
];

/**
 * `maxPain`: the price at which the open interest pays its holders least. `vanna`, `charm`: dollars of delta, signed as GEX,
 * per point of volatility and per trading day; null where no contract has a volatility.
 */
export type ExpirationPain = RowOf<typeof PAIN_COLUMNS>;

/** A symbol of the ranking. */
export interface RankedExposure extends ExposureSums {
  readonly symbol: string;
  /** Last positive underlying price of the date; null if no record had one: then the sums are 0 and mean nothing. */
  readonly spot: number | null;
  /** Whether its series are all of its chain, and not only those that traded. */
  readonly isWholeChain: boolean;
  /** Whether the drop of that chain is degraded: it may lack contracts. */
  readonly isDegradedChain?: boolean | undefined;
}

/** A price at which net GEX changes its sign, also of the series that outlive the date. `place` 1: the nearest to the spot. */
export interface ZeroGamma {
  readonly isAfter: boolean;
  readonly zeroGamma: number;
  readonly place: number;
}

/** Prices of the underlying; null where there is none. `After` as in `ExposureSums`. */
export interface ExposureLevels {
  /** The nearest to the spot. */
  readonly zeroGamma: number | null;
  readonly zeroGammaAfter: number | null;
  /** Strike with the largest call GEX, the most negative put GEX, and the largest sum of both absolute values. */
  readonly callWall: number | null;
  readonly putWall: number | null;
  readonly absoluteGammaStrike: number | null;
  readonly callWallAfter: number | null;
  readonly putWallAfter: number | null;
}

/** A symbol with all details. */
export interface SymbolExposure extends RankedExposure, ExposureLevels {
  readonly zeroGammas: readonly ZeroGamma[];
  /** Strikes near the spot (at most 60), ascending. */
  readonly strikes: readonly StrikeGex[];
  /** Ascending, at most 12. */
  readonly expirations: readonly ExpirationGex[];
  /** Ascending, at most 12. */
  readonly pains: readonly ExpirationPain[];
  /** The market-structure endpoint's figures for this date; null if no sealed drop has them. */
  readonly marketStructure: MarketStructureGex | null;
}

export interface MarketStructureGex {
  readonly intradayGex: number;
  /** Ours minus theirs, as a fraction of the larger absolute value. */
  readonly difference: Amount;
  /** A sentence if the difference is large; else empty. */
  readonly explanation: string;
}

export interface Exposure {
  readonly total: ExposureSums;
  /** Symbols left out because no record had a price of the underlying. */
  readonly unpricedSymbols: number;
  /** Records whose price of the underlying is odd beside its neighbors in time, and the first symbols; absent without any. */
  readonly oddPrices?: { readonly records: number; readonly symbols: readonly string[] } | undefined;
  /** Largest absolute net exposure first (at most 10). */
  readonly top: readonly RankedExposure[];
  /** The detailed symbols: the one with most premium, then the watchlist's. */
  readonly focus: readonly SymbolExposure[];
  /** The symbol of the first screen and the chart: the first of `focus` with exposure. */
  readonly lead: SymbolExposure | null;
}

export const VOLATILITY_COLUMNS = [
  field('Symbol', 'symbol', 'text'),
  field('Expires', 'expirationDate', 'date'),
  field('Days', 'days', 'count'),
  maybe('IV at the money', 'atTheMoney', 'fraction', 'at_the_money_volatility'),
  maybe('Strike', 'strike', 'price', 'at_the_money_strike'),
  maybe('25-delta skew', 'skew', 'points', 'skew_25_delta'),
  maybe('Expected move', 'expectedMove', 'price'),
];

/**
 * Implied volatility of one expiration of a symbol, annualized: at the money of `strike`, null if no strike is near the
 * spot. `skew`: of the put of delta -0.25 less that of the call of delta 0.25, null without contracts near these.
 * `expectedMove`: dollars of the underlying, up or down, one standard deviation; null for an expiration on the date.
 */
export type ExpirationVolatility = RowOf<typeof VOLATILITY_COLUMNS>;
