/**
 * Gamma exposure (GEX), delta exposure (DEX) and implied volatility: of a symbol's whole chain if a drop of the date has it,
 * else of the series that traded this date.
 *
 * GEX of a series is `gamma x OI x 100 x S^2 x 0.01`, calls positive, puts negative: the dollars of the underlying that
 * dealers must trade per 1% move to stay hedged, under the naive assumption that dealers are long calls and short puts.
 * The signs follow SqueezeMetrics' white paper "Gamma Exposure"; others flip them, or omit 0.01 (per 100% move). DEX is
 * `delta x OI x 100 x S`: the position in the underlying, in dollars, that moves like the open interest (Hull, Options,
 * Futures, and Other Derivatives, ch. "The Greek Letters": delta). Its sign is delta's own, negative for a put
 * regardless of the holder: it makes no assumption about dealers.
 *
 * Left out: series that did not trade (of symbols without a chain), adjusted contracts, and symbols without a price.
 * Invariant: rows never reach this module, only bounded results of the queries that readers get too (`exposure-sql.ts`).
 */
import { parquetFile } from '../../engine/literal.ts';
import { type Amount, type EngineNumber, readNumber } from '../amount.ts';
import { assertPresent, type DropSource } from '../drop-source.ts';
import type {
  ExpirationVolatility,
  Exposure,
  ExposureSums,
  GexSums,
  RankedExposure,
  SymbolExposure,
} from '../model.ts';
import {
  CHAIN_COLUMNS,
  type ExposureScope,
  RANKED,
  selectExpirations,
  selectSeries,
  selectStrikes,
  selectVolatility,
  selectWalls,
  selectZeroGamma,
} from './exposure-sql.ts';
import { compareStructure, queryStructures } from './exposure-structure.ts';
import { SELECT_SPOTS, selectStates } from './series-state.ts';

/** Symbols of the ranking: few enough to read at a glance. */
const TOP_EXPOSURES = 10;
/** Symbols with odd prices that are named. */
const ODD_SYMBOLS = 5;

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

export interface ExposureOptions extends ExposureScope {
  /**
   * Symbols to show with details, in this order; those that did not trade are left out. Empty: SPX or SPY, else the first
   * of the ranking.
   */
  readonly focus: readonly string[];
  /** Local Parquet file of the market-structure drop of this date; null if none is sealed. */
  readonly marketStructure: string | null;
  /** Local Parquet file of the chain drop of this date, and whether it may lack contracts; null if none is sealed. */
  readonly chain: { readonly path: string; readonly isDegraded?: boolean } | null;
}

type Sides = Readonly<Record<'call_gex' | 'put_gex', EngineNumber>>;
type SideSums = Sides & Readonly<Record<'call_dex' | 'put_dex', EngineNumber>>;
type Counts = Readonly<Record<'contracts' | 'adjusted' | 'unknown', number>>;
type SymbolRow = SideSums &
  Counts & { readonly symbol: string; readonly spot: number } & Readonly<Record<'of_chain' | 'place', number>>;
type TotalRow = SideSums & Counts & { readonly unpriced: number; readonly odd: number; readonly odd_symbols: string[] };
interface Details {
  readonly walls: Readonly<Record<'call_wall' | 'put_wall' | 'absolute_gamma_strike', number | null>> | undefined;
  readonly zeroGamma: number | null;
  readonly strikes: readonly (Sides & { readonly strike: number })[];
  readonly expirations: readonly (Sides & { readonly expiration_date: string | null; readonly expirations: number })[];
}

/** Exposure, and the volatility of the symbols with details. @throws Fault `REPORT_COLUMNS_MISSING`; EngineFault */
export async function queryExposure(
  source: DropSource,
  { date, keepsExpiring, chain, marketStructure, focus: wanted }: ExposureOptions,
): Promise<{ readonly exposure: Exposure; readonly volatility: readonly ExpirationVolatility[] }> {
  const chainTable = chain === null ? null : await openChain(source, chain.path);
  await source.command(`CREATE OR REPLACE TEMPORARY TABLE states AS ${selectStates(source.table, date)}`);
  await source.command(
    `CREATE OR REPLACE TEMPORARY TABLE spots AS SELECT symbol, spot, odd_prices FROM (${SELECT_SPOTS})`,
  );
  await source.command(`CREATE OR REPLACE TEMPORARY TABLE series AS ${selectSeries(chainTable, date)}`);
  await source.command('DROP TABLE states');
  const hasWatchlist = wanted.length > 0;
  const focus = hasWatchlist ? [...new Set(wanted)] : MARKET;
  const rows = await source.rows<SymbolRow>(
    `WITH ${RANKED}\nSELECT * FROM ranked WHERE place <= ${TOP_EXPOSURES} OR has({focus:Array(String)}, symbol) ORDER BY place`,
    { focus },
  );
  const [total] = await source.rows<TotalRow>(
    `WITH ${RANKED}\nSELECT ${['call_gex', 'put_gex', 'call_dex', 'put_dex', 'contracts', 'adjusted', 'unknown'].map((name) => `ifNull(sum(ranked.${name}), 0) AS ${name}`).join(', ')},
       countIf(spot = 0) AS unpriced, sum(left_out_prices) AS odd, arraySlice(arraySort(groupArrayIf(symbol, left_out_prices > 0)), 1, ${ODD_SYMBOLS}) AS odd_symbols
     FROM ranked`,
  );
  const watchedRows = focus.flatMap((symbol) => rows.filter((row) => row.symbol === symbol));
  const top = rows.filter(({ place, spot }) => place <= TOP_EXPOSURES && spot > 0);
  const shown = [...watchedRows, ...top.slice(0, 1)].map(({ symbol }) => symbol);
  const detailsOf = await queryDetails(source, shown, { date, keepsExpiring });
  const structures = marketStructure === null ? undefined : await queryStructures(source, marketStructure, shown);
  const isDegraded = chain?.isDegraded === true;
  const describe = (row: SymbolRow): SymbolExposure => {
    const ranked = rankSymbol(row, isDegraded);
    const structure = structures?.get(row.symbol);
    return {
      ...ranked,
      ...readDetails(detailsOf(row.symbol)),
      marketStructure: structure && row.spot > 0 ? compareStructure(ranked, structure) : null,
    };
  };
  const watched = watchedRows.map(describe);
  const [first] = top.slice(0, 1).map(describe);
  const lead = watched.find(({ callGex, putGex }) => callGex !== 0 || putGex !== 0) ?? first ?? null;
  const exposure = {
    total: readTotal(total),
    unpricedSymbols: total?.unpriced ?? 0,
    // Absent without any.
    oddPrices: total?.odd ? { records: total.odd, symbols: total.odd_symbols } : undefined,
    top: top.map((row) => rankSymbol(row, isDegraded)),
    focus: hasWatchlist ? watched : [lead ?? []].flat(),
    lead,
  };
  const volatility = await queryVolatility(source, exposure, date);
  await source.command('DROP TABLE series');
  await source.command('DROP TABLE spots');
  return { exposure, volatility };
}

/** @returns the chain drop, for a FROM clause @throws Fault `REPORT_COLUMNS_MISSING` (usage): the file is not a chain drop */
async function openChain(source: DropSource, path: string): Promise<string> {
  const table = parquetFile(path);
  await assertPresent(source, table, CHAIN_COLUMNS, {
    what: 'the drop that the report takes the chain from',
    hint: 'Name the dataset of a job whose source is `api: chain` in `chain`, or set it to off.',
  });
  return table;
}

const IS_SHOWN = 'has({shown:Array(String)}, symbol)';

async function queryDetails(
  source: DropSource,
  shown: readonly string[],
  scope: ExposureScope,
): Promise<(symbol: string) => Details> {
  const run = async <Row extends object>(sql: string) =>
    await source.rows<Row & { readonly symbol: string }>(`WITH ${sql}`, { shown });
  const walls = await run<NonNullable<Details['walls']>>(selectWalls(IS_SHOWN));
  const strikes = await run<Details['strikes'][number]>(selectStrikes(IS_SHOWN));
  const expirations = await run<Details['expirations'][number]>(selectExpirations(IS_SHOWN));
  const zeros = await run<{ readonly zero_gamma: number }>(selectZeroGamma(IS_SHOWN, scope));
  return (symbol) => ({
    walls: walls.find((row) => row.symbol === symbol),
    zeroGamma: zeros.find((row) => row.symbol === symbol)?.zero_gamma ?? null,
    strikes: strikes.filter((row) => row.symbol === symbol),
    expirations: expirations.filter((row) => row.symbol === symbol),
  });
}

function readDetails({ walls, zeroGamma, strikes, expirations }: Details) {
  const later = expirations.find(({ expiration_date }) => expiration_date === null);
  return {
    zeroGamma,
    callWall: walls?.call_wall ?? null,
    putWall: walls?.put_wall ?? null,
    absoluteGammaStrike: walls?.absolute_gamma_strike ?? null,
    strikes: strikes.map((row) => ({ strike: row.strike, ...sumGex(row) })),
    expirations: expirations.flatMap(({ expiration_date: expirationDate, ...row }) =>
      expirationDate === null ? [] : [{ expirationDate, ...sumGex(row) }],
    ),
    laterExpirations: { count: later?.expirations ?? 0, netGex: later ? sumGex(later).netGex : 0 },
  };
}

interface VolatilityRow {
  readonly symbol: string;
  readonly expiration_date: string;
  readonly days: number;
  readonly at_the_money: EngineNumber;
  readonly at_strike: EngineNumber;
  readonly skew: EngineNumber;
  readonly expected_move: EngineNumber;
}

async function queryVolatility(
  source: DropSource,
  { focus }: Exposure,
  date: string,
): Promise<readonly ExpirationVolatility[]> {
  const shown = focus.map(({ symbol }) => symbol);
  const rows = await source.rows<VolatilityRow>(`WITH ${selectVolatility(IS_SHOWN, date)}`, { shown });
  return rows.map((row) => ({
    symbol: row.symbol,
    expirationDate: row.expiration_date,
    days: row.days,
    atTheMoney: readNumber(row.at_the_money),
    strike: readNumber(row.at_strike),
    skew: readNumber(row.skew),
    expectedMove: readNumber(row.expected_move),
  }));
}

/** @param isDegraded whether the chain drop may lack contracts */
function rankSymbol(row: SymbolRow, isDegraded: boolean): RankedExposure {
  return {
    symbol: row.symbol,
    spot: row.spot > 0 ? row.spot : null,
    ...readTotal(row),
    isWholeChain: row.of_chain === 1,
    isDegradedChain: row.of_chain === 1 && isDegraded ? true : undefined,
  };
}

/** Without any row, nothing traded. */
function readTotal(row: (SideSums & Counts) | undefined): ExposureSums {
  return {
    ...sumGex(row ?? { call_gex: 0, put_gex: 0 }),
    callDex: add(row?.call_dex ?? 0, 0),
    putDex: add(row?.put_dex ?? 0, 0),
    netDex: add(row?.call_dex ?? 0, row?.put_dex ?? 0),
    contracts: row?.contracts ?? 0,
    adjustedContracts: row?.adjusted ?? 0,
    unknownContracts: row?.unknown ?? 0,
  };
}

function sumGex({ call_gex, put_gex }: Sides): GexSums {
  return { callGex: add(call_gex, 0), putGex: add(put_gex, 0), netGex: add(call_gex, put_gex) };
}

/** Null if either is unknown. Adding 0 turns a negative zero, which the engine's sums may be, into 0. */
function add(a: EngineNumber, b: EngineNumber): Amount {
  const [left, right] = [readNumber(a), readNumber(b)];
  return left === null || right === null ? null : readNumber(left + right + 0);
}
