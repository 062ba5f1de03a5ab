/**
 * Gamma exposure (GEX) and delta exposure (DEX) in dollars: of a symbol's whole chain if a drop of the date has it, else of
 * the series that traded this date.
 *
 * GEX of a series is `gamma x OI x 100 x S^2 x 0.01`, calls positive, puts negative: the dollars of the underlying that
 * dealers must trade per 1% move to stay hedged, under the naive assumption that dealers are long calls and short puts.
 * The signs follow SqueezeMetrics' white paper "Gamma Exposure"; others flip them, or omit 0.01 (per 100% move). DEX is
 * `delta x OI x 100 x S`: the position in the underlying, in dollars, that moves like the open interest (Hull, Options,
 * Futures, and Other Derivatives, ch. "The Greek Letters": delta). Its sign is delta's own, negative for a put
 * regardless of the holder: it makes no assumption about dealers.
 *
 * `series-state.ts` says which values of the day's records count, and what S is. `exposure/zero-gamma.ts` has the method for zero gamma. Left out: series that did
 * not trade (of symbols without a chain), adjusted contracts (`hasAdjustedRoot`), and symbols without a price. Invariant: rows never reach this module, only the bounded result of
 * `exposure-query.ts`.
 */

import { Fault } from '../../core/errors.ts';
import { parquetFile } from '../../engine/literal.ts';
import { findSignChange, scaleGammaProfile } from '../../exposure/zero-gamma.ts';
import { type Amount, type EngineNumber, readNumber } from '../amount.ts';
import type { DropSource } from '../drop-source.ts';
import type { Exposure, ExposureSums, RankedExposure, SymbolExposure } from '../model.ts';
import { buildChainTable } from '../records.ts';
import { buildExposureQuery, type ExposureRow, type ExposureScope, TOP_EXPOSURES } from './exposure-query.ts';
import { compareStructure, queryStructures, type StructureNumbers } from './exposure-structure.ts';

/** Without a watchlist, the first of these with exposure stands for the market: not a symbol that is largest by accident. */
const MARKET: readonly string[] = ['SPX', 'SPY'];

const NO_SUM = { callGex: null, putGex: null, netGex: null, callDex: null, putDex: null, netDex: null } as const;

/** Of a drop that lacks trades by its job's condition: a sum over the rest would look like the market's. */
export const NO_EXPOSURE: Exposure = {
  total: { ...NO_SUM, contracts: 0, adjustedContracts: 0, unknownContracts: 0 },
  unpricedSymbols: 0,
  top: [],
  focus: [],
  lead: null,
};

export interface ExposureOptions {
  /** Trading date, YYYY-MM-DD, from which time to expiration is counted. */
  readonly date: string;
  /**
   * Symbols to show with details, in this order; those that did not trade are left out. Empty: SPX or SPY, else the first
   * of the ranking.
   */
  readonly focus: readonly string[];
  /** Local Parquet file of the market-structure drop of this date; null if none is sealed. */
  readonly marketStructure: string | null;
  /** The chain drop of this date; null if none is sealed. */
  readonly chain?: ExposureScope['chain'] | undefined;
  /** Whether zero gamma counts contracts that expire this date, with a time of 1/262. Default: it does. */
  readonly keepsExpiring?: boolean | undefined;
}

/** What exposure and volatility are computed from. */
export const CHAIN_COLUMNS: readonly string[] = [
  ...['symbol', 'option_symbol', 'expiration_date', 'put_call', 'strike'],
  ...['open_interest', 'iv', 'delta', 'gamma'],
];

/**
 * One pass over the counted records, and one over the market-structure drop.
 * @throws Fault `REPORT_COLUMNS_MISSING` for the market-structure drop; EngineFault
 */
export async function queryExposure(source: DropSource, options: ExposureOptions): Promise<Exposure> {
  const { date, marketStructure } = options;
  const hasWatchlist = options.focus.length > 0;
  const focus = hasWatchlist ? [...new Set(options.focus)] : MARKET;
  const scope = { date, chain: options.chain ?? null, keepsExpiring: options.keepsExpiring ?? true };
  const rows = await source.rows<ExposureRow>(buildExposureQuery(source.table, scope), { focus });
  const bySymbol = new Map(rows.map((row) => [row.symbol, row]));
  const watchedRows = focus.flatMap((symbol) => bySymbol.get(symbol) ?? []);
  const top = rows.filter(({ place, spot }) => place <= TOP_EXPOSURES && spot > 0);
  const shown = [...watchedRows, ...top.slice(0, 1)].map(({ symbol }) => symbol);
  const structures = marketStructure === null ? undefined : await queryStructures(source, marketStructure, shown);
  const isDegraded = options.chain?.isDegraded === true;
  const describe = (row: ExposureRow) => describeSymbol(rankSymbol(row, isDegraded), row, structures?.get(row.symbol));
  const watched = watchedRows.map(describe);
  const [first] = top.slice(0, 1).map(describe);
  const lead = watched.find(hasExposure) ?? first ?? null;
  return {
    total: readTotal(rows[0]),
    unpricedSymbols: rows[0]?.unpriced ?? 0,
    oddPrices: readOddPrices(rows[0]),
    top: top.map((row) => rankSymbol(row, isDegraded)),
    focus: hasWatchlist ? watched : [lead ?? []].flat(),
    lead,
  };
}

/** @throws Fault `REPORT_COLUMNS_MISSING` (kind `usage`): the file is not a chain drop */
export async function openChain(
  source: DropSource,
  { path, isDegraded }: { readonly path: string; readonly isDegraded?: boolean },
): Promise<NonNullable<ExposureScope['chain']>> {
  const table = parquetFile(path);
  const described = await source.rows<{ readonly name: string }>(`DESCRIBE TABLE ${table}`);
  const present = new Set(described.map(({ name }) => name));
  const missing = CHAIN_COLUMNS.filter((name) => !present.has(name));
  if (missing.length > 0)
    throw new Fault(
      'REPORT_COLUMNS_MISSING',
      `the drop that the report takes the chain from has no column ${missing.join(', ')}`,
      { kind: 'usage', hint: 'Name the dataset of a job whose source is `api: chain` in `chain`, or set it to off.' },
    );
  const rows = await source.rows<{ readonly symbol: string }>(`SELECT DISTINCT symbol FROM ${table} ORDER BY symbol`);
  return { table: buildChainTable(table, CHAIN_COLUMNS), symbols: rows.map(({ symbol }) => symbol), isDegraded };
}

function describeSymbol(
  ranked: RankedExposure,
  row: ExposureRow,
  structure: StructureNumbers | undefined,
): SymbolExposure {
  return {
    ...ranked,
    zeroGamma: row.spot > 0 ? findZeroGamma(row.spot, row.profile) : null,
    callWall: row.call_wall,
    putWall: row.put_wall,
    absoluteGammaStrike: row.absolute_gamma,
    strikes: row.near_strikes.map(([strike, call, put]) => ({ strike, ...sumGex(call, put) })).sort(byStrike),
    expirations: row.first_expirations.map(([expirationDate, call, put]) => ({ expirationDate, ...sumGex(call, put) })),
    laterExpirations: { count: row.later_count, netGex: add(row.later_net, 0) },
    marketStructure: structure && row.spot > 0 ? compareStructure(ranked, structure) : null,
  };
}

/** @param isDegraded whether the chain drop may lack contracts */
function rankSymbol(row: ExposureRow, isDegraded: boolean): RankedExposure {
  return {
    symbol: row.symbol,
    spot: row.spot > 0 ? row.spot : null,
    ...sumGex(row.call_gex, row.put_gex),
    ...sumDex(row.call_dex, row.put_dex),
    contracts: row.series,
    adjustedContracts: row.adjusted,
    unknownContracts: row.unknown,
    isWholeChain: row.is_chain === 1,
    isDegradedChain: row.is_chain === 1 && isDegraded ? true : undefined,
  };
}

/** Without any row, nothing traded. */
function readTotal(row: ExposureRow | undefined): ExposureSums {
  return {
    ...sumGex(row?.all_call_gex ?? 0, row?.all_put_gex ?? 0),
    ...sumDex(row?.all_call_dex ?? 0, row?.all_put_dex ?? 0),
    contracts: row?.all_series ?? 0,
    adjustedContracts: row?.all_adjusted ?? 0,
    unknownContracts: row?.all_unknown ?? 0,
  };
}

/** Absent without any. */
function readOddPrices(row: ExposureRow | undefined): Exposure['oddPrices'] {
  const records = Number(row?.all_odd_prices ?? 0);
  return records === 0 ? undefined : { records, symbols: row?.odd_symbols ?? [] };
}

/** Null if a sum of the profile is not finite: then the price of the sign change is unknown. */
function findZeroGamma(spot: number, profile: readonly EngineNumber[]): number | null {
  const sums = profile.map(readNumber).filter((sum) => sum !== null);
  return sums.length < profile.length ? null : findSignChange(scaleGammaProfile(spot, sums));
}

function sumGex(call: EngineNumber, put: EngineNumber): Pick<ExposureSums, 'callGex' | 'putGex' | 'netGex'> {
  return { callGex: add(call, 0), putGex: add(put, 0), netGex: add(call, put) };
}

function sumDex(call: EngineNumber, put: EngineNumber): Pick<ExposureSums, 'callDex' | 'putDex' | 'netDex'> {
  return { callDex: add(call, 0), putDex: add(put, 0), netDex: add(call, put) };
}

/** Null if either is unknown. Adding 0 turns a negative zero, which the engine's sums may be, into 0. */
function add(a: EngineNumber, b: EngineNumber): Amount {
  const [left, right] = [readNumber(a), readNumber(b)];
  return left === null || right === null ? null : readNumber(left + right + 0);
}

function byStrike(a: { readonly strike: number }, b: { readonly strike: number }): number {
  return a.strike - b.strike;
}

function hasExposure({ callGex, putGex }: SymbolExposure): boolean {
  return callGex !== 0 || putGex !== 0;
}
