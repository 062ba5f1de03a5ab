/**
 * Columns of the table of loaded chains: one row per contract of one symbol's chain at one instant. A table of data.
 * The contract columns have the same names as in the answer of the option chain endpoint.
 */

interface ChainColumn {
  readonly name: string;
  /** ClickHouse type. */
  readonly type: string;
  /** A file may omit the column; its values are then null. */
  readonly optional: boolean;
}

const text = (name: string): ChainColumn => ({ name, type: 'String', optional: false });
const category = (name: string): ChainColumn => ({ name, type: 'LowCardinality(String)', optional: false });
const number = (name: string): ChainColumn => ({ name, type: 'Float64', optional: false });
const whole = (name: string): ChainColumn => ({ name, type: 'Int32', optional: false });
const known = (name: string, type = 'Float64'): ChainColumn => ({ name, type: `Nullable(${type})`, optional: true });

export const CHAIN_COLUMNS: readonly ChainColumn[] = [
  category('symbol'),
  category('date'),
  // Instant of the chain: UTC, ISO 8601 with milliseconds and Z.
  category('as_of'),
  // Price of the underlying, dollars; 0 if unknown.
  number('spot'),
  text('option_symbol'),
  category('expiration_date'),
  category('put_call'),
  number('strike'),
  known('bid'),
  known('bid_size', 'Int32'),
  known('ask'),
  known('ask_size', 'Int32'),
  known('last'),
  known('last_time', 'String'),
  whole('volume'),
  whole('open_interest'),
  known('iv'),
  known('delta'),
  known('gamma'),
  known('theta'),
  known('vega'),
  known('rho'),
];

/** Sort key of the table. */
export const CHAIN_SORT: readonly string[] = ['symbol', 'date', 'as_of', 'expiration_date', 'strike', 'put_call'];

/** Members of an answered row, in order; the other columns identify the chain. */
export const CONTRACT_COLUMNS: readonly string[] = CHAIN_COLUMNS.map(({ name }) => name).filter(
  (name) => !['symbol', 'date', 'as_of', 'spot'].includes(name),
);
