/**
 * Gamma exposure (GEX) in dollars, from the contracts that traded this day.
 *
 * Per contract `gamma x OI x 100 x S^2 x 0.01`: the dollars of the underlying that dealers must trade per 1 % move to
 * stay hedged, under the naive assumption that dealers are long the calls (+) and short the puts (-). The signs are those
 * of SqueezeMetrics' white paper "Gamma Exposure"; others flip them, or leave out 0.01 (per 100 % move).
 * Gamma and open interest are those of the contract's latest record of the day; S is the symbol's last positive
 * underlying price of the day. What is left out: contracts that did not trade this day, and symbols without a price.
 */
import { type DropSource, RECORD_ORDER } from './source.ts';

export const TOP_GEX_SYMBOLS = 10;

/** Shares of a contract. */
const MULTIPLIER = 100;
/** Per 1 % move of the underlying. */
const MOVE = 0.01;

export interface GexSums {
  /** Dollars per 1 % move: calls positive, puts negative, net their sum. */
  readonly call: number;
  readonly put: number;
  readonly net: number;
  /** Contracts (series, not lots) that traded this day. */
  readonly contracts: number;
}

export interface SymbolGex extends GexSums {
  readonly symbol: string;
  /** Last positive underlying price of the day; null when no record had one: then the sums are 0 and mean nothing. */
  readonly spot: number | null;
}

export interface Gex {
  readonly total: GexSums;
  /** Symbols left out of the total, because no record of the day had a price of the underlying. */
  readonly unpricedSymbols: number;
  /** Largest net exposure first, whatever its sign. */
  readonly top: readonly SymbolGex[];
  readonly focus: readonly SymbolGex[];
}

interface GexRow {
  readonly symbol: string;
  readonly spot: number;
  readonly contracts: number;
  readonly call_gex: number;
  readonly put_gex: number;
  readonly place: number;
  readonly total_call: number;
  readonly total_put: number;
  readonly total_contracts: number;
  readonly unpriced: number;
}

/** Two passes over the file (contracts, prices); the result has at most `TOP_GEX_SYMBOLS` and the focus list's rows. */
export async function queryGex(source: DropSource, focus: readonly string[]): Promise<Gex> {
  const rows = await source.rows<GexRow>(buildGexQuery(source.table), { focus });
  const first = rows[0];
  const wanted = new Set(focus);
  const totalCall = first?.total_call ?? 0;
  const totalPut = first?.total_put ?? 0;
  return {
    total: { call: totalCall, put: totalPut, net: totalCall + totalPut, contracts: first?.total_contracts ?? 0 },
    unpricedSymbols: first?.unpriced ?? 0,
    top: rows.filter((row) => row.place <= TOP_GEX_SYMBOLS && row.spot > 0).map(readGex),
    focus: rows.filter((row) => wanted.has(row.symbol)).map(readGex),
  };
}

function buildGexQuery(table: string): string {
  // The key names the contract in full: option_symbol alone may be empty, and strike with expiration alone does not
  // tell SPX from SPXW.
  return `WITH
    series AS (
      SELECT symbol, put_call, argMax(gamma * oi, ${RECORD_ORDER}) AS weight
      FROM ${table} GROUP BY symbol, option_symbol, put_call, strike, expiration_date
    ),
    weights AS (
      SELECT symbol, count(*) AS contracts,
        sumIf(weight, put_call = 'CALL') AS call_weight, sumIf(weight, put_call = 'PUT') AS put_weight
      FROM series GROUP BY symbol
    ),
    spots AS (
      SELECT symbol, argMaxIf(underlying_price, ${RECORD_ORDER}, underlying_price > 0) AS spot
      FROM ${table} GROUP BY symbol
    ),
    symbols AS (
      SELECT symbol, spot, contracts,
        call_weight * spot * spot * ${MULTIPLIER} * ${MOVE} AS call_gex,
        -put_weight * spot * spot * ${MULTIPLIER} * ${MOVE} AS put_gex
      FROM weights INNER JOIN spots USING (symbol)
    )
    SELECT * FROM (
      SELECT *, row_number() OVER (ORDER BY abs(call_gex + put_gex) DESC, symbol) AS place,
        sum(call_gex) OVER () AS total_call, sum(put_gex) OVER () AS total_put,
        sum(contracts) OVER () AS total_contracts, countIf(spot = 0) OVER () AS unpriced
      FROM symbols
    ) WHERE place <= ${TOP_GEX_SYMBOLS} OR has({focus:Array(String)}, symbol) ORDER BY place`;
}

function readGex(row: GexRow): SymbolGex {
  return {
    symbol: row.symbol,
    spot: row.spot > 0 ? row.spot : null,
    contracts: row.contracts,
    call: row.call_gex,
    put: row.put_gex,
    net: row.call_gex + row.put_gex,
  };
}
