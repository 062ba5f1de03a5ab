/**
 * The option trade record: every column of the historical SQL tables, in the specification's order, with its type on
 * the wire and in the drop. A table of data.
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
  /** Unit of the numbers; null: the contract does not say. Absent: not a quantity. */
  readonly unit?: string | null | undefined;
  /** The contract describes the column; if not, it only shows it in rows, and type and meaning are what those suggest. */
  readonly isDescribed: boolean;
  readonly description: string;
}

const text = (name: string, description: string): TradeColumn => column(name, 'string', 'string', description);
const category = (name: string, description: string, words?: readonly string[]): TradeColumn => ({
  ...column(name, 'string', 'string', description),
  lowCardinality: true,
  words,
});
const integer = (name: string, meaning: string, unit: string): TradeColumn => ({
  ...column(name, 'integer', 'int32', describeQuantity(meaning, unit)),
  unit,
});
const float = (name: string, meaning: string, unit: string): TradeColumn => ({
  ...column(name, 'float', 'double', describeQuantity(meaning, unit)),
  unit,
});
/** Computed by a model, which may fail for a contract: JSON has no NaN, so the engine then sends null. */
const computed = (name: string, meaning: string, unit: string | null): TradeColumn => ({
  ...column(name, 'float', 'double', `${describeQuantity(meaning, unit)} Null where it could not be computed.`, true),
  unit,
});
const undescribed = (shown: TradeColumn): TradeColumn => ({ ...shown, isDescribed: false });

/** `Strike price, dollars.`: the description of a quantity. */
export function describeQuantity(meaning: string, unit: string | null): string {
  return unit === null ? `${meaning}.` : `${meaning}, ${unit}.`;
}

function column(
  name: string,
  wire: TradeColumn['wire'],
  drop: DropType,
  description: string,
  nullable = false,
): TradeColumn {
  return { name, wire, drop, nullable, lowCardinality: false, isDescribed: true, description };
}

export const TRADE_COLUMNS: readonly TradeColumn[] = [
  text('id', 'Unique id of the trade record.'),
  category('symbol', 'Underlying ticker symbol.'),
  column('date', 'string', 'date', 'Execution date.'),
  column('time', 'string', 'wall', "Trade creation time, exchange's wall clock (America/New_York), not UTC."),
  category('put_call', 'PUT or CALL.', ['PUT', 'CALL']),
  float('strike', 'Strike price', 'dollars'),
  column('expiration_date', 'string', 'date', 'Expiration date of the contract.'),
  category('option_activity_type', 'OPRA trade-code classification.'),
  category('underlying_type', 'Kind of underlying (common stock, ETF, ETN, ...); may be empty.'),
  integer('oi', 'Open interest', 'contracts'),
  integer('size', 'Order size', 'contracts'),
  float('price', 'Trade price per share', 'dollars'),
  float('underlying_price', 'Price of the underlying', 'dollars'),
  float('bid', 'Best bid of the contract', 'dollars'),
  integer('bid_size', 'Size on the exchange with the best bid', 'contracts'),
  float('ask', 'Best ask of the contract', 'dollars'),
  integer('ask_size', 'Size on the exchange with the best ask', 'contracts'),
  computed('iv', 'Implied volatility', 'annualized, 1 = 100%'),
  float('premium', 'Cost of the whole trade (price x size x 100)', 'dollars'),
  category('sentiment', 'BULLISH, BEARISH or NEUTRAL; an estimate from whether the trade executed at bid or ask.', [
    'BULLISH',
    'BEARISH',
    'NEUTRAL',
  ]),
  integer('trade_count', 'Trades in the record (always 1 in historical data)', 'trades'),
  integer('expiry_days', 'Time left to expiration', 'days'),
  computed('delta', 'Option delta', null),
  computed('vega', 'Option vega', null),
  computed('theta', 'Option theta (time decay)', null),
  computed('rho', 'Option rho', null),
  category('exchange', 'Exchange where the trade executed.'),
  integer('daily_volume', 'Day volume of the contract including this trade', 'contracts'),
  column('earning_date', 'string', 'date', 'Next earnings date of the underlying; null when not known.', true),
  column('updated_timestamp', 'string', 'instant', 'When the record was created in the service, UTC.'),
  {
    ...column('market_cap', 'string', 'int64', 'Market capitalization, dollars; null when not known.', true),
    unit: 'dollars',
  },
  category('option_symbol', 'Contract: root, yymmdd, P or C, strike in thousandths (8 digits).'),
  undescribed(
    category('side', 'Where the trade executed: AASK, ASK, MID, BID or BBID.', ['AASK', 'ASK', 'MID', 'BID', 'BBID']),
  ),
  undescribed(category('moneyness', 'ITM, ATM or OTM.', ['ITM', 'ATM', 'OTM'])),
  undescribed(computed('gamma', 'Option gamma', 'per dollar of the underlying')),
  undescribed(computed('dex', 'Delta exposure of the trade (delta x size x 100 x underlying)', 'dollars')),
  undescribed(computed('dei', 'Delta equivalent of the trade (delta x size x 100)', 'shares')),
];

/** Characters of an option symbol after its root: six digits of expiration, C or P, eight digits of strike. */
export const SYMBOL_TAIL = 15;

/** Text columns with about as many values as rows; the others have few. */
const DISTINCT_COLUMNS: ReadonlySet<string> = new Set(['id', 'time', 'updated_timestamp']);

/** ClickHouse's type in which the service and the archive store and answer a column. */
export function answerType({ name, wire }: Pick<TradeColumn, 'name' | 'wire'>): string {
  if (wire !== 'string') return wire === 'integer' ? 'Int32' : 'Float64';
  return DISTINCT_COLUMNS.has(name) ? 'String' : 'LowCardinality(String)';
}
