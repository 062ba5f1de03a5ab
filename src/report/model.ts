/**
 * The flow report as data: the shapes that `query/` fills and `text/`, `draw/` and the templates show. Invariants: plain
 * JSON; dollars and contracts unless said otherwise; shares and ratios are fractions (0.62, not 62); a number that is
 * not known is null, never 0. "Counted" records are those that are neither a cancel message, nor a print that was
 * cancelled later, nor a late report: the rest is in `Exclusions`, so that nothing disappears.
 */
import type { Amount } from './amount.ts';
import type { Compared, Direction, Premium, PremiumPart } from './numbers.ts';

/**
 * What the report needs to know of a sealed drop. Structural, so that the seal's manifest satisfies it and this stage
 * imports no other. The report reads only what was sealed: never a stage, never the API.
 */
export interface SealedDrop {
  readonly dataset: string;
  /** Trading date, `YYYY-MM-DD`. */
  readonly date: string;
  /** 1 for the first seal of the date; each restatement adds one. */
  readonly revision: number;
  readonly condition: 'available' | 'degraded';
  /** Why it is degraded, in the manifest's words. */
  readonly degraded_reason?: string | undefined;
  /** Rows in the Parquet file. */
  readonly rows: number;
  /** Earliest and latest trade, wall clock of the exchange; null or empty when there are no rows. */
  readonly min_time: string | null;
  readonly max_time: string | null;
  /** UTC, ISO 8601. */
  readonly sealed_at: string;
  /** Of the Parquet file, hexadecimal. */
  readonly sha256: string;
  /** Store URL of the object, for people. */
  readonly location: string;
  /** Local Parquet file that the numbers are computed from. Never shown: it means nothing to a reader. */
  readonly path: string;
}

/** The drop as the report shows it. */
export type ShownDrop = Omit<SealedDrop, 'path'>;

/** A number of records and their premium. */
export interface Tally {
  readonly trades: number;
  readonly premium: Amount;
}

/** Counted records whose value of a column the API's contract does not have: they are in no part that the column decides. */
export interface UnknownCodes extends Tally {
  readonly column: 'put_call' | 'sentiment' | 'side' | 'option_activity_type';
  /** The most frequent (at most 5); null: the record has none. */
  readonly values: readonly { readonly value: string | null; readonly trades: number }[];
}

/** What the sums leave out, and what the file holds in all. */
export interface Exclusions {
  readonly cancelMessages: Tally;
  /** Prints that a cancel message took back. */
  readonly cancelledPrints: Tally;
  /** Cancel messages for which the file has no print. */
  readonly unmatchedCancels: number;
  readonly lateReports: Tally;
  /** Every record of the file, those left out included. */
  readonly recorded: Tally;
  /** Counted, and of no known code; empty when there are none. */
  readonly unknownCodes: readonly UnknownCodes[];
}

/** Series whose volume of the day is above their open interest: positions that must be new, at least in part. */
export interface VolumeAboveOpenInterest {
  readonly series: number;
  /** Series that traded. */
  readonly ofSeries: number;
  /** Of those, series of which volume or open interest is not known. */
  readonly unknownSeries: number;
  /** Premium of the day in those series. */
  readonly premium: Amount;
}

/** Days to expiration: 0; 1 to 7; 8 to 31; more; records without one. Always the five, in this order. */
export interface ExpiryBucket extends PremiumPart {
  readonly bucket: '0DTE' | 'week' | 'month' | 'later' | 'unknown';
}

/** Always these four, in this order; `unknown` is what the records do not say. */
export interface MoneynessBucket extends PremiumPart {
  readonly bucket: 'ITM' | 'ATM' | 'OTM' | 'unknown';
}

export interface HalfHour extends Premium {
  /** `09:30`, wall clock of the exchange. */
  readonly start: string;
}

export interface SymbolFlow extends Premium {
  readonly symbol: string;
  /** 1 = largest premium of the day. */
  readonly place: number;
}

/** A number of this date beside the same number of the sessions before. */
export interface Change {
  readonly latest: number | null;
  /** Of the sealed session before; null when there is none. */
  readonly previous: number | null;
  /** Mean over the sessions of `Comparison.meanDates`; null when there are none. */
  readonly mean: number | null;
}

export interface Comparison {
  /** The sealed session before this date; null when there is none. */
  readonly previousDate: string | null;
  /** Up to five sealed sessions before this date, newest first. */
  readonly meanDates: readonly string[];
  /** Those of them whose drop is degraded: their numbers may lack trades. */
  readonly degradedDates: readonly string[];
  /** Calls' and puts' share of premium in each session of `meanDates`; null where it has none. */
  readonly pastShares: readonly { readonly calls: number | null; readonly puts: number | null }[];
  readonly changes: Readonly<Record<Compared, Change>>;
}

/** A symbol whose premium stands out against its own last sessions. */
export interface UnusualSymbol extends Direction {
  readonly symbol: string;
  readonly premium: number;
  readonly previous: number | null;
  readonly mean: number;
  /** `premium / mean`. */
  readonly ratio: number;
  /** Sessions in the mean in which it traded. */
  readonly sessions: number;
}

export interface BigTrade {
  readonly id: string;
  /** Wall clock of the exchange, `HH:MM:SS`. */
  readonly time: string;
  readonly symbol: string;
  /** `SPY 2026-11-20 600 C`. */
  readonly contract: string;
  readonly size: Amount;
  /** Dollars per share. */
  readonly price: Amount;
  readonly premium: number;
  /** Empty where the record has none, as all texts here. */
  readonly side: string;
  readonly sentiment: string;
  readonly spot: number | null;
  readonly openInterest: Amount;
  /** Annualised, 1 = 100 %. */
  readonly impliedVolatility: number | null;
  /** Calendar days to expiration. */
  readonly days: Amount;
  readonly activityType: string;
  readonly multiLeg: boolean;
  readonly sweep: boolean;
}

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

/** One symbol of the watchlist; null where it did not trade. */
export interface WatchedSymbol {
  readonly symbol: string;
  readonly flow: SymbolFlow | null;
  readonly exposure: SymbolExposure | null;
  readonly unusual: UnusualSymbol | null;
}

/** SQL that rebuilds a table of the report from the sealed object, in DuckDB and ClickHouse. */
export interface RebuildQuery {
  /** `Headline`, `Symbols`, `Half hours`, `Expirations`, `Moneyness`, `Biggest trades`, `GEX by symbol`. */
  readonly table: string;
  readonly sql: string;
}

export interface FlowReport {
  readonly kind: 'flow';
  readonly job: string;
  /** UTC, ISO 8601. */
  readonly createdAt: string;
  readonly drop: ShownDrop;
  readonly headline: Premium;
  readonly exclusions: Exclusions;
  readonly volumeAboveOpenInterest: VolumeAboveOpenInterest;
  readonly comparison: Comparison;
  readonly expiries: readonly ExpiryBucket[];
  readonly moneyness: readonly MoneynessBucket[];
  readonly halfHours: readonly HalfHour[];
  /** Symbols that traded. */
  readonly symbolCount: number;
  readonly topSymbols: readonly SymbolFlow[];
  /** By bullish less bearish premium: the largest, and the most negative (at most 5 each, none of the other sign). */
  readonly mostBullish: readonly SymbolFlow[];
  readonly mostBearish: readonly SymbolFlow[];
  /** Largest ratio first (at most 10). */
  readonly unusual: readonly UnusualSymbol[];
  readonly biggestTrades: readonly BigTrade[];
  readonly exposure: Exposure;
  readonly watchlist: readonly WatchedSymbol[];
  /** Symbols of the watchlist beyond its limit, not shown. */
  readonly watchlistLeftOut: number;
  readonly rebuildQueries: readonly RebuildQuery[];
}
