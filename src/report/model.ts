/**
 * The flow report as data: the types that `query/` fills and `text/`, `draw/` and the templates show; a row of a table
 * is what the table's columns read. Invariants: plain JSON; dollars and contracts unless noted otherwise; shares and
 * ratios are fractions (0.62, not 62); an unknown number is null, never 0. "Counted" records exclude cancel messages,
 * prints that were cancelled later, and late reports: these are in `Exclusions`, so that nothing disappears.
 */
import { type Amount, divide } from './amount.ts';
import type { Change, LevelChange } from './changes.ts';
import type { ExpirationVolatility, Exposure, SymbolExposure } from './exposure-model.ts';
import type { Compared, Direction, Premium, PremiumPart } from './numbers.ts';
import { field, maybe, type RowOf, shown } from './report-table.ts';
import type { Week } from './week-model.ts';

/**
 * The facts about a sealed drop that the report needs. Structural, so that the seal's manifest satisfies it without an
 * import. The report reads only sealed data: never a stage, never the API.
 */
export interface SealedDrop {
  readonly dataset: string;
  /** Trading date, `YYYY-MM-DD`. */
  readonly date: string;
  /** 1 for the first seal of the date; each restatement adds one. */
  readonly revision: number;
  readonly condition: 'available' | 'degraded';
  /** Distinct ids of the rows; absent if each row has its own. */
  readonly ids?: number | undefined;
  /** End of the last segment that its rows cover, `16:15`; absent where they are all that like sessions have. */
  readonly through?: string | undefined;
  /** Why it is degraded, as in the manifest. */
  readonly degraded_reason?: string | undefined;
  /** Failed checks of the drop, in words. */
  readonly doubts?: readonly string[] | undefined;
  /** The condition, in SQL, that every row of the drop meets; absent if it has the whole market. */
  readonly filter?: string | undefined;
  /** Rows in the Parquet file. */
  readonly rows: number;
  /** Earliest and latest trade, wall clock of the exchange; null or empty if there are no rows. */
  readonly min_time: string | null;
  readonly max_time: string | null;
  /** UTC, ISO 8601. */
  readonly sealed_at: string;
  /** SHA-256 of the Parquet file, hexadecimal. */
  readonly sha256: string;
  /** Store URL of the object, for people. */
  readonly location: string;
  /** Local Parquet file that the numbers are computed from. Never shown, because it means nothing to a reader. */
  readonly path: string;
}

/** The drop as the report shows it. */
export type ShownDrop = Omit<SealedDrop, 'path' | 'ids'>;

/** A number of records and their premium. */
export interface Tally {
  readonly trades: number;
  readonly premium: Amount;
}

/** Records that the sums leave out, and the sentiment of their premium. */
export interface LeftOut extends Tally {
  readonly bullish: Amount;
  readonly bearish: Amount;
}

/** Counted records with a value that the API's contract lacks: they are in no part that the column decides. */
export interface UnknownCodes {
  readonly trades: number;
  readonly column: 'put_call' | 'sentiment' | 'side' | 'option_activity_type';
  /** The most frequent values (at most 5); null: the record has no value. */
  readonly values: readonly { readonly value: string | null; readonly trades: number }[];
}

/** The records that the sums leave out, and the total of the file. */
export interface Exclusions {
  readonly cancelMessages: Tally;
  /** Prints that a cancel message cancelled. */
  readonly cancelledPrints: LeftOut;
  /** Cancel messages without a print in the file. */
  readonly unmatchedCancels: number;
  readonly lateReports: LeftOut;
  /** Of the night or the curb of a session: not in the hours of the report. */
  readonly otherHours: Tally;
  /** Every record of the file, including those left out. */
  readonly recorded: Tally;
  /** Counted records with an unknown code; empty if there are none. */
  readonly unknownCodes: readonly UnknownCodes[];
  /** Counted records that share an id with another record, or have none; absent if each has its own. */
  readonly sharedIds?: Tally | undefined;
}

/** Series whose volume of the day exceeds their open interest: at least part of the positions must be new. */
export interface VolumeAboveOpenInterest {
  readonly series: number;
  /** Series that traded. */
  readonly ofSeries: number;
  /** Series that traded but whose volume or open interest is unknown. */
  readonly unknownSeries: number;
  /** Premium of the day in those series. */
  readonly premium: Amount;
}

/** Days to expiration: 0; 1 to 7; 8 to 31; more; unknown. Always these five, in this order. */
export interface ExpiryBucket extends PremiumPart {
  readonly bucket: '0DTE' | 'week' | 'month' | 'later' | 'unknown';
}

/** Always these four, in this order; `unknown`: records without a known moneyness. */
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

export interface Comparison {
  /** The sealed session before this date; null if there is none. */
  readonly previousDate: string | null;
  /** Of whole days before a half day, the part of their sums that is compared, from 0 to 1; absent where all are. */
  readonly share?: number | undefined;
  /** Up to twenty sealed sessions before this date, newest first. */
  readonly dates: readonly string[];
  /** Sessions between the oldest of `dates` and this date that are not in it, newest first: they are not compared. */
  readonly missingDates: readonly string[];
  /** The subset of `dates` whose drop is degraded: their numbers may lack trades. */
  readonly degradedDates: readonly string[];
  readonly changes: Readonly<Record<Compared, Change>>;
  /** Of the symbols of `exposure.focus`, where a report of a session before has them. */
  readonly levels: readonly LevelChange[];
}

export const SYMBOL = field('Symbol', 'symbol', 'text');

export const UNUSUAL_COLUMNS = [
  SYMBOL,
  field('Premium', 'premium', 'dollars'),
  maybe('Session before', 'previous', 'dollars', 'previous_premium'),
  field('Median', 'median', 'dollars', 'median_premium'),
  field('Premium / median', 'ratio', 'ratio'),
  field('Sessions traded', 'sessions', 'count'),
];

/** A symbol whose premium is unusual compared with its own last sessions: `ratio` is `premium / median`. */
export type UnusualSymbol = RowOf<typeof UNUSUAL_COLUMNS> & Direction;

export const DRIVER_COLUMNS = [
  SYMBOL,
  shown('Right', 'right', 'text', (row: { readonly right: 'calls' | 'puts' }) => row.right),
  maybe('Expires', 'expirationDate', 'date'),
  field('Premium', 'premium', 'dollars'),
  field('Bullish', 'bullish', 'dollars', 'bullish_premium'),
  field('Bearish', 'bearish', 'dollars', 'bearish_premium'),
];

/** A symbol's calls or puts, counted records only. `expirationDate` null: all expirations, or one that is not known. */
export type Driver = RowOf<typeof DRIVER_COLUMNS>;

/** What drove the sentiment of the day. */
export interface Drivers {
  /** The symbol's calls or puts with most bullish (bearish) premium; one expiration of it if that has most of it. */
  readonly bullish: Driver | null;
  readonly bearish: Driver | null;
  /** By expiration: the largest differences of bullish and bearish premium first (at most 5). */
  readonly top: readonly Driver[];
}

/** A symbol's part in the change of total premium since the session before. Dollars. */
export interface Mover {
  readonly symbol: string;
  readonly premium: number;
  /** 0 if it did not trade. */
  readonly previous: number;
}

/** The next earnings of a symbol that moved the day, where they are within ten calendar days. */
export interface Earnings {
  readonly symbol: string;
  /** `YYYY-MM-DD`. */
  readonly day: string;
}

type Turnover = Readonly<Record<'volume' | 'openInterest', Amount>>;

export const CONTRACT_COLUMNS = [
  field(null, 'symbol', 'text'),
  field('Contract', 'contract', 'contract'),
  maybe('Premium', 'premium', 'dollars'),
  field('Trades', 'trades', 'count'),
  maybe('Volume', 'volume', 'count'),
  maybe('OI', 'openInterest', 'count'),
  shown('Volume / OI', 'volume_to_open_interest', 'ratio', (row: Turnover) => divide(row.volume, row.openInterest)),
  field('Bullish', 'bullish', 'dollars', 'bullish_premium'),
  field('Bearish', 'bearish', 'dollars', 'bearish_premium'),
];

/** A contract that traded (`SPY 2026-11-20 600 C`); counted records only. Its open interest is that before the day. */
export type ContractFlow = RowOf<typeof CONTRACT_COLUMNS>;

export const OPENED_COLUMNS = [
  field(null, 'symbol', 'text'),
  field('Contract', 'contract', 'contract'),
  field('Premium then', 'premium', 'dollars'),
  field('Volume then', 'volume', 'count'),
  field('OI before', 'before', 'count', 'open_interest_before'),
  field('OI after', 'after', 'count', 'open_interest_after'),
  shown('Opened', 'opened', 'count', (row: Readonly<Record<'before' | 'after', number>>) => row.after - row.before),
];

/** A contract of the session before that traded more than was open, with its open interest before and after that session. */
export type OpenedContract = RowOf<typeof OPENED_COLUMNS>;

export const BIG_TRADE_COLUMNS = [
  field('Time', 'time', 'text'),
  field(null, 'id', 'text'),
  field(null, 'symbol', 'text'),
  field('Contract', 'contract', 'contract'),
  maybe('Size', 'size', 'count'),
  maybe('Price', 'price', 'price'),
  field('Premium', 'premium', 'dollars'),
  field('Side', 'side', 'code'),
  field('Sentiment', 'sentiment', 'code'),
  maybe('Spot', 'spot', 'price'),
  maybe('OI', 'openInterest', 'count'),
  maybe('IV', 'impliedVolatility', 'fraction'),
  maybe('Days', 'days', 'count', 'days_to_expiration'),
  field('Type', 'activityType', 'code', 'option_activity_type'),
  field(null, 'multiLeg', 'flag'),
  field(null, 'sweep', 'flag'),
];

/** `time`: wall clock of the exchange, `HH:MM:SS`. A text is empty if the record has none. */
export type BigTrade = RowOf<typeof BIG_TRADE_COLUMNS>;

export const LEFT_OUT_COLUMNS = [field(null, 'record', 'text'), ...BIG_TRADE_COLUMNS];

/** A print that was cancelled, or a late report: in no number of the day. */
export type LeftOutTrade = RowOf<typeof LEFT_OUT_COLUMNS>;

/** One symbol of the watchlist; `flow` and `exposure` are null if it did not trade, `unusual` also if it is usual. */
export interface WatchedSymbol {
  readonly symbol: string;
  /** Other symbols that its numbers have, as weeklies that the source gives a symbol of their own; absent without any. */
  readonly members?: readonly string[] | undefined;
  readonly flow: SymbolFlow | null;
  readonly exposure: SymbolExposure | null;
  readonly unusual: UnusualSymbol | null;
}

/** SQL that rebuilds a table of the report from the sealed object, in DuckDB and ClickHouse. */
export interface RebuildQuery {
  /** Title of the table, such as `Headline`, `Symbols` or `GEX by symbol`; see `query/rebuild.ts`. */
  readonly table: string;
  readonly sql: string;
}

export interface FlowReport {
  readonly kind: 'flow';
  readonly job: string;
  /** UTC, ISO 8601. */
  readonly createdAt: string;
  readonly drop: ShownDrop;
  /** When stock options close on a half day, `13:00`; absent on whole days. */
  readonly halfDay?: string | undefined;
  readonly headline: Premium;
  readonly exclusions: Exclusions;
  /** Of this session, beside the hours of the report: the night from the end of the session before on, and the curb. */
  readonly besides: Readonly<Record<'overnight' | 'curb', Tally>>;
  readonly volumeAboveOpenInterest: VolumeAboveOpenInterest;
  readonly comparison: Comparison;
  readonly expiries: readonly ExpiryBucket[];
  readonly moneyness: readonly MoneynessBucket[];
  readonly halfHours: readonly HalfHour[];
  /** Symbols that traded. */
  readonly symbolCount: number;
  readonly topSymbols: readonly SymbolFlow[];
  /** By bullish minus bearish premium: the largest and the most negative (at most 5 each, none of the other sign). */
  readonly mostBullish: readonly SymbolFlow[];
  readonly mostBearish: readonly SymbolFlow[];
  /** Largest ratio first (at most 10). */
  readonly unusual: readonly UnusualSymbol[];
  readonly drivers: Drivers;
  /** Largest absolute change first (at most 3); empty without a session before. */
  readonly movers: readonly Mover[];
  /** Of the symbols of `drivers` and `movers`, by date. */
  readonly earnings: readonly Earnings[];
  readonly biggestTrades: readonly BigTrade[];
  /** Executions of intermarket sweep orders: largest premium first (at most 10). */
  readonly biggestSweeps: readonly BigTrade[];
  /** Of the records that are left out: largest premium first (at most 10). */
  readonly biggestLeftOut: readonly LeftOutTrade[];
  /** Largest premium first (at most 10). */
  readonly topContracts: readonly ContractFlow[];
  /** Of the session before, by its premium; empty if no report of it was mailed. */
  readonly opened: readonly OpenedContract[];
  /** By symbol and expiration, of the symbols of `exposure.focus`. */
  readonly volatility: readonly ExpirationVolatility[];
  readonly exposure: Exposure;
  readonly watchlist: readonly WatchedSymbol[];
  /** Number of watchlist symbols beyond the limit, which are not shown. */
  readonly watchlistLeftOut: number;
  /** Store URL of the chain drop that the exposure of its symbols is computed from; null without one. */
  readonly chainLocation: string | null;
  /** Store URL of the market-structure drop that the exposure is compared with; null without one. */
  readonly structureLocation: string | null;
  readonly rebuildQueries: readonly RebuildQuery[];
  /** The week that ends with the date; only in a report of a week. */
  readonly week?: Week | undefined;
}
