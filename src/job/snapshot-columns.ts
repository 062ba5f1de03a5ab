/**
 * Columns of snapshot drops: option chains and market structure. The specification shows no field of a chain row and no
 * member of `symbol_meta`, `flow` and `structure`. So all known fields of these may be null, and unknown fields are
 * kept in extra columns. A table of data; no logic.
 */
import type { JobColumn, SnapshotApi } from './job.ts';

const column = (name: string, type: JobColumn['type'], description: string, nullable = true): JobColumn => ({
  name,
  type,
  nullable,
  oftenNull: nullable,
  lowCardinality: false,
  description,
});
const number = (name: string, description: string) => column(name, 'double', description);
const whole = (name: string, description: string) => column(name, 'int64', description);
const text = (name: string, description: string) => column(name, 'string', description);

/**
 * Counts of a chain are doubles: an API that stores them as floats would send `120.0`, which is not a valid integer.
 */
const CHAIN_COLUMNS: readonly JobColumn[] = [
  column('symbol', 'string', 'Underlying symbol: as in the row, else the requested one.', false),
  column('date', 'date', 'Date of the session.', false),
  text('option_symbol', 'Contract: root, yymmdd, P or C, strike in thousandths (8 digits).'),
  column('expiration_date', 'date', 'Expiration date of the contract.'),
  text('put_call', 'CALL or PUT.'),
  number('strike', 'Strike price, dollars.'),
  number('bid', 'Best bid, dollars.'),
  number('bid_size', 'Size at the best bid, contracts.'),
  number('ask', 'Best ask, dollars.'),
  number('ask_size', 'Size at the best ask, contracts.'),
  number('last', 'Price of the latest trade, dollars.'),
  text('last_time', 'Time of the latest trade, as received.'),
  number('volume', 'Contracts traded in the session.'),
  number('open_interest', 'Open interest, contracts.'),
  number('iv', 'Implied volatility, annualised, 1 = 100%.'),
  number('delta', 'Option delta.'),
  number('gamma', 'Option gamma, per dollar of the underlying.'),
  number('theta', 'Option theta (time decay).'),
  number('vega', 'Option vega.'),
  number('rho', 'Option rho.'),
];

const MARKET_STRUCTURE_COLUMNS: readonly JobColumn[] = [
  column('symbol', 'string', 'Underlying option root.', false),
  column('date', 'date', 'Date of the session.', false),
  column('effective_date', 'date', 'Effective date of the snapshot, from the API.', false),
  column('structure_as_of', 'instant', 'Instant of the chain, UTC.', false),
  column('flow_as_of', 'instant', 'Instant up to which trades count, UTC.', false),
  column('intraday_gex_as_of', 'instant', 'Instant of the intraday summary, UTC; null without one.'),
  number('spot', 'Latest positive price of the underlying, dollars; null without an intraday summary.'),
  number('call_gex', 'Full-chain call gamma exposure, dollars, 0 or more; null without an intraday summary.'),
  number('put_gex', 'Full-chain put gamma exposure, dollars, 0 or less; null without an intraday summary.'),
  text('symbol_meta_underlying_type', 'Kind of underlying.'),
  whole('symbol_meta_market_cap', 'Market capitalisation, dollars.'),
  column('symbol_meta_earning_date', 'date', 'Next earnings date.'),
  whole('flow_trades', 'Trades of the session.'),
  whole('flow_call_trades', 'Trades of calls.'),
  whole('flow_put_trades', 'Trades of puts.'),
  whole('flow_bullish_trades', 'Trades whose sentiment is BULLISH.'),
  whole('flow_bearish_trades', 'Trades whose sentiment is BEARISH.'),
  whole('flow_neutral_trades', 'Every other trade.'),
  whole('flow_contracts', 'Contracts traded.'),
  whole('flow_call_contracts', 'Calls traded.'),
  whole('flow_put_contracts', 'Puts traded.'),
  number('flow_total_premium', 'Dollars paid for options.'),
  number('flow_call_premium', 'Dollars paid for calls.'),
  number('flow_put_premium', 'Dollars paid for puts.'),
  number('flow_bullish_premium', 'Premium of BULLISH trades.'),
  number('flow_bearish_premium', 'Premium of BEARISH trades.'),
  number('flow_neutral_premium', 'Premium of every other trade.'),
  number('flow_net_premium', 'Bullish less bearish premium.'),
  text('flow_sentiment', 'Sign of the net premium: BULLISH, BEARISH or NEUTRAL.'),
  number('flow_neutral_share', 'Neutral premium / total premium.'),
  number('flow_put_call_premium_ratio', 'Put premium / call premium.'),
  number('flow_put_call_volume_ratio', 'Put contracts / call contracts.'),
  text('structure_source', 'What the chain was made from.'),
  number('structure_spot', 'Price that the exposure is computed at, dollars.'),
  whole('structure_contracts', 'Contracts (series) of the chain.'),
  number('structure_call_gex', 'Call gamma exposure of the chain, dollars per 1% move.'),
  number('structure_put_gex', 'Put gamma exposure of the chain, dollars per 1% move, negative.'),
  number('structure_net_gex', 'Calls + puts.'),
  number('structure_zero_gamma', 'Price at which net exposure changes its sign.'),
  number('structure_call_wall', 'Strike with the largest call exposure.'),
  number('structure_put_wall', 'Strike with the most negative put exposure.'),
  column('symbol_meta', 'string', 'The object `symbol_meta`, whole, as JSON.', false),
  column('flow', 'string', 'The object `flow`, whole, as JSON.', false),
  text('intraday_gex', 'The object `intraday_gex`, whole, as JSON; null without an intraday summary.'),
  column('structure', 'string', 'The object `structure`, whole, as JSON.', false),
];

export const SNAPSHOT_COLUMNS: Readonly<Record<SnapshotApi, readonly JobColumn[]>> = {
  chain: CHAIN_COLUMNS,
  'market-structure': MARKET_STRUCTURE_COLUMNS,
};

export const SNAPSHOT_SORT: Readonly<Record<SnapshotApi, readonly string[]>> = {
  chain: ['symbol', 'expiration_date', 'strike', 'put_call', 'option_symbol'],
  'market-structure': ['symbol'],
};
