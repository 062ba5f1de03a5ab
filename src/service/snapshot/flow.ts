/** A symbol's flow and the underlying's attributes, taken from its trades, in the shape of `market-structure`. Pure. */
import type { Flow, SymbolMeta } from '../../api-contract/market-structure.ts';

/** Sums over a symbol's trades as the engine returns them; 0 and empty text when there are none. */
export interface FlowRow {
  readonly trades: number;
  readonly call_trades: number;
  readonly put_trades: number;
  readonly bullish_trades: number;
  readonly bearish_trades: number;
  readonly neutral_trades: number;
  readonly contracts: number;
  readonly call_contracts: number;
  readonly put_contracts: number;
  readonly total_premium: number;
  readonly call_premium: number;
  readonly put_premium: number;
  readonly bullish_premium: number;
  readonly bearish_premium: number;
  readonly neutral_premium: number;
  /** Latest positive price of the underlying, dollars; 0 if there is none. */
  readonly spot: number;
  readonly underlying_type: string;
  readonly market_cap: number;
  readonly earning_date: string;
}

/** Flow of a symbol without trades. */
export const NO_FLOW: FlowRow = {
  trades: 0,
  call_trades: 0,
  put_trades: 0,
  bullish_trades: 0,
  bearish_trades: 0,
  neutral_trades: 0,
  contracts: 0,
  call_contracts: 0,
  put_contracts: 0,
  total_premium: 0,
  call_premium: 0,
  put_premium: 0,
  bullish_premium: 0,
  bearish_premium: 0,
  neutral_premium: 0,
  spot: 0,
  underlying_type: '',
  market_cap: 0,
  earning_date: '',
};

export function describeFlow(row: FlowRow): Flow {
  const { spot: _spot, underlying_type: _type, market_cap: _cap, earning_date: _date, ...sums } = row;
  const net = row.bullish_premium - row.bearish_premium;
  return {
    ...sums,
    net_premium: net,
    sentiment: net > 0 ? 'BULLISH' : net < 0 ? 'BEARISH' : 'NEUTRAL',
    neutral_share: divide(row.neutral_premium, row.total_premium),
    put_call_premium_ratio: divide(row.put_premium, row.call_premium),
    put_call_volume_ratio: divide(row.put_contracts, row.call_contracts),
  };
}

export function describeSymbol(row: FlowRow): SymbolMeta {
  return {
    underlying_type: row.underlying_type || null,
    market_cap: row.market_cap || null,
    earning_date: row.earning_date || null,
  };
}

function divide(part: number, whole: number): number | null {
  return whole === 0 ? null : part / whole;
}
