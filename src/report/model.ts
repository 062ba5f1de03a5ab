/**
 * The flow report as data: the shapes that `numbers/` fills and `text/`, `draw/` and the templates show. Invariants: plain
 * JSON; dollars and contracts unless said otherwise; shares and ratios are fractions (0.62, not 62); a number that is
 * not known is null, never 0. "Counted" records are those that are neither a cancel message, nor a print that was
 * cancelled later, nor a late report: the rest is in `Exclusions`, so that nothing disappears.
 */
import type { Amount } from './amount.ts';
import type { ShownDrop } from './drop.ts';
import type { Exposure, SymbolExposure } from './exposure-model.ts';

/** Sums over a set of counted records. A record without a number is left out of the sums of that number, and counted. */
export interface Premium {
  readonly trades: number;
  /** Trades whose premium, and whose size, is no number. */
  readonly unpriced: number;
  readonly unsized: number;
  /** Sum of `size`, contracts. */
  readonly contracts: Amount;
  readonly callContracts: Amount;
  readonly putContracts: Amount;
  /** Sum of `premium`. */
  readonly total: Amount;
  readonly calls: Amount;
  readonly puts: Amount;
  /** Call premium at or above the ask less call premium at or below the bid. */
  readonly netCalls: Amount;
  /** Put premium at or above the ask less put premium at or below the bid. */
  readonly netPuts: Amount;
  /** By the record's `sentiment`; the three add up to the total less that of other sentiments (`Exclusions.unknownCodes`). */
  readonly bullish: Amount;
  readonly bearish: Amount;
  readonly neutral: Amount;
  /** Puts / calls; null when no call traded. */
  readonly putCallByPremium: number | null;
  readonly putCallByVolume: number | null;
  /** Premium of contracts that expire on the trading date. */
  readonly zeroDte: Amount;
  /** Premium of legs of complex orders. */
  readonly multiLeg: Amount;
  /** Premium of intermarket sweep orders (ISO). */
  readonly sweep: Amount;
}

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

/** Premium of a part of the day's records, by expiration or by moneyness. */
export interface PremiumPart {
  readonly trades: number;
  readonly contracts: Amount;
  readonly total: Amount;
  readonly calls: Amount;
  readonly puts: Amount;
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

/** Numbers that are compared; sums in dollars, the rest fractions of premium or ratios. */
export const COMPARED = [
  'total',
  'calls',
  'puts',
  'netCalls',
  'netPuts',
  'bullish',
  'bearish',
  'neutral',
  'trades',
  'contracts',
  'putCallByPremium',
  'putCallByVolume',
  'zeroDteShare',
  'multiLegShare',
  'sweepShare',
  'volumeAboveOpenInterest',
  'callShare',
  'putShare',
] as const;

export type Compared = (typeof COMPARED)[number];

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
export interface UnusualSymbol {
  readonly symbol: string;
  readonly premium: number;
  readonly previous: number | null;
  readonly mean: number;
  /** `premium / mean`. */
  readonly ratio: number;
  /** Sessions in the mean in which it traded. */
  readonly sessions: number;
  readonly netCalls: Amount;
  readonly netPuts: Amount;
  readonly bullish: Amount;
  readonly bearish: Amount;
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
