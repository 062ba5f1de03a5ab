/**
 * Columns of snapshot drops: option chains and market structure. The specification shows no field of a chain row and no
 * member of `symbol_meta`, `flow` and `structure`. So all known fields of these may be null, and unknown fields are
 * kept in extra columns. A table of data; no logic.
 */
import { describeQuantity } from '../api-contract/trade.ts';
import type { JobColumn, SnapshotApi } from './job.ts';

/**
 * Where the meaning of a column comes from: `document`, the API's specification; `service`, the included service's own
 * members, because the specification shows none; `flowdrop`, the worker.
 */
type SnapshotSource = 'document' | 'service' | 'flowdrop';

interface SnapshotColumn extends JobColumn {
  /** Unit of the numbers; null: not known before an API's answers are checked. Absent: not a quantity. */
  readonly unit?: string | null | undefined;
  readonly source: SnapshotSource;
}

const column = (
  name: string,
  type: JobColumn['type'],
  description: string,
  source: SnapshotSource = 'service',
): SnapshotColumn => ({ name, type, nullable: true, oftenNull: true, lowCardinality: false, description, source });
/** Every row has it. */
const required: typeof column = (...about) => ({ ...column(...about), nullable: false, oftenNull: false });
const number = (name: string, meaning: string, unit: string | null, source?: SnapshotSource): SnapshotColumn => ({
  ...column(name, 'double', describeQuantity(meaning, unit), source),
  unit,
});
const whole = (name: string, meaning: string, unit: string): SnapshotColumn => ({
  ...number(name, meaning, unit),
  type: 'int64',
});
const text = (name: string, description: string, source?: SnapshotSource) =>
  column(name, 'string', description, source);

/**
 * Counts of a chain are doubles: an API that stores them as floats would send `120.0`, which is not a valid integer.
 */
const CHAIN_COLUMNS: readonly SnapshotColumn[] = [
  required('symbol', 'string', 'Underlying symbol: from the row, else the requested one.', 'flowdrop'),
  required('date', 'date', 'Date of the session.', 'flowdrop'),
  text('option_symbol', 'Contract: root, yymmdd, P or C, strike in thousandths (8 digits).'),
  column('expiration_date', 'date', 'Expiration date of the contract.'),
  text('put_call', 'CALL or PUT.'),
  number('strike', 'Strike price', 'dollars'),
  number('bid', 'Best bid', 'dollars'),
  number('bid_size', 'Size at the best bid', 'contracts'),
  number('ask', 'Best ask', 'dollars'),
  number('ask_size', 'Size at the best ask', 'contracts'),
  number('last', 'Price of the latest trade', 'dollars'),
  text('last_time', 'Time of the latest trade, as received.'),
  number('volume', 'Contracts traded in the session', 'contracts'),
  number('open_interest', 'Open interest', 'contracts'),
  number('iv', 'Implied volatility', 'annualized, 1 = 100%'),
  number('delta', 'Option delta', null),
  number('gamma', 'Option gamma', 'per dollar of the underlying'),
  number('theta', 'Option theta (time decay)', null),
  number('vega', 'Option vega', null),
  number('rho', 'Option rho', null),
];

const MARKET_STRUCTURE_COLUMNS: readonly SnapshotColumn[] = [
  required('symbol', 'string', 'Underlying option root.', 'flowdrop'),
  required('date', 'date', 'Date of the session.', 'flowdrop'),
  required('effective_date', 'date', 'Effective date of the snapshot, from the API.', 'document'),
  required('structure_as_of', 'instant', 'Instant of the chain, UTC.', 'document'),
  required('flow_as_of', 'instant', 'Trades up to this instant are included, UTC.', 'document'),
  column('intraday_gex_as_of', 'instant', 'Instant of the intraday summary, UTC; null without one.', 'document'),
  number('spot', 'Latest positive price of the underlying (null without an intraday summary)', 'dollars', 'document'),
  number(
    'call_gex',
    'Call gamma exposure of the full chain, 0 or more (null without an intraday summary)',
    'dollars',
    'document',
  ),
  number(
    'put_gex',
    'Put gamma exposure of the full chain, 0 or less (null without an intraday summary)',
    'dollars',
    'document',
  ),
  text('symbol_meta_underlying_type', 'Kind of underlying.'),
  whole('symbol_meta_market_cap', 'Market capitalization', 'dollars'),
  column('symbol_meta_earning_date', 'date', 'Next earnings date.'),
  whole('flow_trades', 'Trades of the session', 'trades'),
  whole('flow_call_trades', 'Trades of calls', 'trades'),
  whole('flow_put_trades', 'Trades of puts', 'trades'),
  whole('flow_bullish_trades', 'Trades whose sentiment is BULLISH', 'trades'),
  whole('flow_bearish_trades', 'Trades whose sentiment is BEARISH', 'trades'),
  whole('flow_neutral_trades', 'Trades with any other sentiment', 'trades'),
  whole('flow_contracts', 'Contracts traded', 'contracts'),
  whole('flow_call_contracts', 'Calls traded', 'contracts'),
  whole('flow_put_contracts', 'Puts traded', 'contracts'),
  number('flow_total_premium', 'Premium of all trades', 'dollars'),
  number('flow_call_premium', 'Premium of calls', 'dollars'),
  number('flow_put_premium', 'Premium of puts', 'dollars'),
  number('flow_bullish_premium', 'Premium of BULLISH trades', 'dollars'),
  number('flow_bearish_premium', 'Premium of BEARISH trades', 'dollars'),
  number('flow_neutral_premium', 'Premium of trades with any other sentiment', 'dollars'),
  number('flow_net_premium', 'Bullish less bearish premium', 'dollars'),
  text('flow_sentiment', 'Sign of the net premium: BULLISH, BEARISH or NEUTRAL.'),
  number('flow_neutral_share', 'Neutral premium / total premium', '1 = 100%'),
  number('flow_put_call_premium_ratio', 'Put premium / call premium', 'ratio'),
  number('flow_put_call_volume_ratio', 'Put contracts / call contracts', 'ratio'),
  text('structure_source', 'Source of the chain.'),
  number('structure_spot', 'Price at which the exposure is computed', 'dollars'),
  whole('structure_contracts', 'Contracts of the chain', 'series'),
  number('structure_call_gex', 'Call gamma exposure of the chain', 'dollars per 1% move'),
  number('structure_put_gex', 'Put gamma exposure of the chain', 'dollars per 1% move, negative'),
  number('structure_net_gex', 'Calls + puts', 'dollars per 1% move'),
  number('structure_zero_gamma', 'Price at which net exposure changes its sign', 'dollars'),
  number('structure_call_wall', 'Strike with the largest call exposure', 'dollars'),
  number('structure_put_wall', 'Strike with the most negative put exposure', 'dollars'),
  required('symbol_meta', 'string', 'The complete object `symbol_meta`, as JSON.', 'document'),
  required('flow', 'string', 'The complete object `flow`, as JSON.', 'document'),
  text('intraday_gex', 'The complete object `intraday_gex`, as JSON; null without an intraday summary.', 'document'),
  required('structure', 'string', 'The complete object `structure`, as JSON.', 'document'),
];

export const SNAPSHOT_COLUMNS: Readonly<Record<SnapshotApi, readonly SnapshotColumn[]>> = {
  chain: CHAIN_COLUMNS,
  'market-structure': MARKET_STRUCTURE_COLUMNS,
};

export const SNAPSHOT_SORT: Readonly<Record<SnapshotApi, readonly string[]>> = {
  chain: ['symbol', 'expiration_date', 'strike', 'put_call', 'option_symbol'],
  'market-structure': ['symbol'],
};
