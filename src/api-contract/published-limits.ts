/** Limits of the options data API, from the section "Limits" of its specification. */

/** Rolling lookback of active subscriptions, measured at execution time. */
export const LOOKBACK_DAYS = 15;
/** Visible rows are at least this old (OPRA rule). */
export const MINIMUM_DATA_DELAY_MINUTES = 15;
/** First date of the provider's historical data. */
export const EARLIEST_DATE = '2025-02-28';
/** Soft rate limit of both historical entry points, per key. */
export const REQUESTS_PER_SECOND = 1;
/** Tables that a query may read. Case-insensitive on the wire. */
export const TABLES = ['RawOptionTrades', 'RawOptionTradesMaxDateOnlyMV'] as const;
/** Header of every 200 response of the main entry point. */
export const DELAY_HEADER = 'x-service-historical-sql-minimum-data-delay-minutes';

export const HISTORICAL_PATH = '/api/historical/sql';
export const PORTAL_PATH = '/api-portal/historical-trades-by-sql';
export const CHAIN_PATH = '/api/option-chain';
/** As the router writes it. */
export const MARKET_STRUCTURE_PATH = '/api/v1/market-structure/:symbol';

/** The time zone of `date` and `time` fields. */
export const EXCHANGE_TIME_ZONE = 'America/New_York';
