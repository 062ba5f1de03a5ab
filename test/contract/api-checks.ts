/**
 * What each column of the trade record must be, in the document's words made exact. A table of data, and nothing of the
 * service's own: it is used on a real address as well.
 */

export interface ColumnCheck {
  readonly type: 'string' | 'number';
  /** JSON has no NaN: a number that a model could not compute may be null. */
  readonly computed?: boolean;
  readonly accepts?: (value: never, row: TradeRow) => boolean;
}

// biome-ignore lint/suspicious/noExplicitAny: rows of unknown origin, whose types are what is tested.
export type TradeRow = Readonly<Record<string, any>>;

const DATE = /^\d{4}-\d{2}-\d{2}$/;
const integer = (from: number): ColumnCheck => ({
  type: 'number',
  accepts: (value: number) => Number.isInteger(value) && value >= from,
});
const float = (from = Number.NEGATIVE_INFINITY): ColumnCheck => ({
  type: 'number',
  accepts: (value: number) => Number.isFinite(value) && value >= from,
});
const computed: ColumnCheck = { type: 'number', computed: true };
const text = (pattern = /^/): ColumnCheck => ({ type: 'string', accepts: (value: string) => pattern.test(value) });

export const COLUMN_CHECKS: Readonly<Record<string, ColumnCheck>> = {
  id: text(/./),
  symbol: text(/^[A-Z0-9.^/-]+$/),
  date: text(DATE),
  time: {
    type: 'string',
    accepts: (value: string, row) => /^[\d-]{10} \d{2}:\d{2}:\d{2}$/.test(value) && value.startsWith(row['date']),
  },
  put_call: text(/^(PUT|CALL)$/),
  strike: { type: 'number', accepts: (value: number) => value > 0 },
  expiration_date: { type: 'string', accepts: (value: string, row) => DATE.test(value) && value >= row['date'] },
  option_activity_type: text(),
  underlying_type: text(),
  oi: integer(0),
  size: integer(1),
  price: float(0),
  underlying_price: float(0),
  bid: float(0),
  bid_size: integer(0),
  ask: float(0),
  ask_size: integer(0),
  iv: computed,
  premium: { type: 'number', accepts: (value: number, row) => isNear(value, row['price'] * row['size'] * 100) },
  sentiment: text(/^(BULLISH|BEARISH|NEUTRAL)$/),
  trade_count: { type: 'number', accepts: (value: number) => value === 1 },
  expiry_days: integer(0),
  delta: computed,
  vega: computed,
  theta: computed,
  rho: computed,
  exchange: text(),
  daily_volume: { type: 'number', accepts: (value: number, row) => Number.isInteger(value) && value >= row['size'] },
  earning_date: text(/^(\d{4}-\d{2}-\d{2})?$/),
  updated_timestamp: text(/^\d{13}$/),
  market_cap: text(/^\d*$/),
  option_symbol: {
    type: 'string',
    accepts: (value: string, row) => {
      const [, letter, strike] = /^[A-Z0-9.]+\d{6}([PC])(\d{8})$/.exec(value) ?? [];
      return letter === row['put_call'][0] && Number(strike) === Math.round(row['strike'] * 1000);
    },
  },
};

/** Fields that rows carry besides; only their kind is shown. */
export const FURTHER_COLUMNS: Readonly<Record<string, 'string' | 'number'>> = {
  side: 'string',
  moneyness: 'string',
  gamma: 'number',
  dex: 'number',
  dei: 'number',
};

/** Why a row's value is not as documented, or undefined. */
export function findFault(column: string, row: TradeRow): string | undefined {
  const check = COLUMN_CHECKS[column];
  const value = row[column];
  if (check?.computed && value === null) return undefined;
  const fits = typeof value === check?.type && (check.accepts?.(value as never, row) ?? true); // Its type is checked.
  return fits ? undefined : `${column} is ${JSON.stringify(value)} in ${JSON.stringify(row)}`;
}

/** Within one percent: prices are rounded. */
function isNear(value: number, expected: number): boolean {
  return Math.abs(value - expected) <= 0.01 * Math.max(1, Math.abs(expected));
}
