/** The `test_mode` answer: two invented trades with every column, so that a client can be built before it queries. */
import { TRADE_COLUMNS } from '../../api-contract/trade.ts';

const CALL: Readonly<Record<string, string | number>> = {
  id: '900000000001',
  symbol: 'SPY',
  date: '2025-03-03',
  time: '2025-03-03 09:31:07',
  put_call: 'CALL',
  strike: 600,
  expiration_date: '2025-03-07',
  option_activity_type: 'AUTO',
  underlying_type: 'ETF',
  oi: 12_480,
  size: 10,
  price: 1.85,
  underlying_price: 595.2,
  bid: 1.84,
  bid_size: 120,
  ask: 1.85,
  ask_size: 96,
  iv: 0.1712,
  premium: 1_850,
  sentiment: 'BULLISH',
  trade_count: 1,
  expiry_days: 4,
  delta: 0.2931,
  vega: 0.2218,
  theta: -0.4127,
  rho: 0.0187,
  exchange: 'CBOE',
  daily_volume: 10,
  earning_date: '',
  updated_timestamp: '1741012267412',
  market_cap: '',
  option_symbol: 'SPY250307C00600000',
  side: 'ASK',
  moneyness: 'OTM',
  gamma: 0.030114,
  dex: 174_453.12,
  dei: 293.1,
};

const PUT: Readonly<Record<string, string | number>> = {
  ...CALL,
  id: '900000000002',
  time: '2025-03-03 09:31:09',
  put_call: 'PUT',
  strike: 590,
  size: 3,
  price: 2.4,
  bid: 2.38,
  ask: 2.42,
  premium: 720,
  sentiment: 'NEUTRAL',
  delta: -0.3016,
  rho: -0.0202,
  daily_volume: 3,
  updated_timestamp: '1741012269088',
  option_symbol: 'SPY250307P00590000',
  side: 'MID',
  dex: -53_853.7,
  dei: -90.48,
};

export const SAMPLE_ROWS = 2;

/** A JSON array of the sample rows, columns in the order of the trade record. */
export function writeSample(): Uint8Array {
  const rows = [CALL, PUT].map((row) => Object.fromEntries(TRADE_COLUMNS.map(({ name }) => [name, row[name]])));
  return Buffer.from(JSON.stringify(rows));
}
