/**
 * The option trade record: every column of the historical SQL tables, in the specification's order, with its type on
 * the wire and in the drop. A table of data; no logic.
 */

/** Logical type of a column in a drop. `wall` is the exchange's wall clock; `instant` is UTC. */
export type DropType = 'string' | 'int32' | 'int64' | 'double' | 'date' | 'wall' | 'instant';

export interface TradeColumn {
  readonly name: string;
  /** JSON type on the wire. */
  readonly wire: 'string' | 'integer' | 'float';
  readonly drop: DropType;
  /** May be null by the contract: an empty string on the wire, or a null if the wire has numbers. */
  readonly nullable: boolean;
  /** Few distinct values: stored dictionary-encoded. */
  readonly lowCardinality: boolean;
  /** All values that the contract allows, in capitals; `undefined` if the contract lists none. */
  readonly words?: readonly string[] | undefined;
  readonly description: string;
}

const text = (name: string, description: string): TradeColumn => column(name, 'string', 'string', description);
const category = (name: string, description: string, words?: readonly string[]): TradeColumn => ({
  ...column(name, 'string', 'string', description),
  lowCardinality: true,
  words,
});
const integer = (name: string, description: string): TradeColumn => column(name, 'integer', 'int32', description);
const float = (name: string, description: string): TradeColumn => column(name, 'float', 'double', description);
/** Computed by a model, which may fail for a contract: JSON has no NaN, so the engine then sends null. */
const computed = (name: string, description: string): TradeColumn =>
  column(name, 'float', 'double', `${description} Null where it could not be computed.`, true);

function column(
  name: string,
  wire: TradeColumn['wire'],
  drop: DropType,
  description: string,
  nullable = false,
): TradeColumn {
  return { name, wire, drop, nullable, lowCardinality: false, description };
}

export const TRADE_COLUMNS: readonly TradeColumn[] = [
  text('id', 'Unique id of the trade record.'),
  category('symbol', 'Underlying ticker symbol.'),
  column('date', 'string', 'date', 'Execution date.'),
  column('time', 'string', 'wall', "Trade creation time, exchange's wall clock (America/New_York), not UTC."),
  category('put_call', 'PUT or CALL.', ['PUT', 'CALL']),
  float('strike', 'Strike price, dollars.'),
  column('expiration_date', 'string', 'date', 'Expiration date of the contract.'),
  category('option_activity_type', 'OPRA trade-code classification.'),
  category('underlying_type', 'Kind of underlying (common stock, ETF, ETN, ...); may be empty.'),
  integer('oi', 'Open interest, contracts.'),
  integer('size', 'Order size, contracts.'),
  float('price', 'Trade price per share, dollars.'),
  float('underlying_price', 'Price of the underlying, dollars.'),
  float('bid', 'Best bid of the contract, dollars.'),
  integer('bid_size', 'Size on the exchange with the best bid, contracts.'),
  float('ask', 'Best ask of the contract, dollars.'),
  integer('ask_size', 'Size on the exchange with the best ask, contracts.'),
  computed('iv', 'Implied volatility, annualised, 1 = 100%.'),
  float('premium', 'Dollar cost of the whole trade: price x size x 100.'),
  category('sentiment', 'BULLISH, BEARISH or NEUTRAL; an estimate from whether the trade executed at bid or ask.', [
    'BULLISH',
    'BEARISH',
    'NEUTRAL',
  ]),
  integer('trade_count', 'Trades in the record; always 1 in historical data.'),
  integer('expiry_days', 'Days left to expiration.'),
  computed('delta', 'Option delta.'),
  computed('vega', 'Option vega.'),
  computed('theta', 'Option theta (time decay).'),
  computed('rho', 'Option rho.'),
  category('exchange', 'Exchange where the trade executed.'),
  integer('daily_volume', 'Day volume of the contract including this trade, contracts.'),
  column('earning_date', 'string', 'date', 'Next earnings date of the underlying; null when not known.', true),
  column('updated_timestamp', 'string', 'instant', 'When the record was created in the service, UTC.'),
  column('market_cap', 'string', 'int64', 'Market capitalisation, dollars; null when not known.', true),
  category('option_symbol', 'Contract: root, yymmdd, P or C, strike in thousandths (8 digits).'),
  category('side', 'Where the trade executed: AASK, ASK, MID, BID or BBID.', ['AASK', 'ASK', 'MID', 'BID', 'BBID']),
  category('moneyness', 'ITM, ATM or OTM.', ['ITM', 'ATM', 'OTM']),
  computed('gamma', 'Option gamma, per dollar of the underlying.'),
  computed('dex', 'Delta exposure of the trade, dollars: delta x size x 100 x underlying.'),
  computed('dei', 'Delta-equivalent shares of the trade: delta x size x 100.'),
];
