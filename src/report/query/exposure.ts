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
 * The market-structure endpoint's exposure is of the full chain and intraday. If it differs from ours by much, an explanation says
 * of which contracts, when, and at which prices.
 *
 * Left out: series that did not trade (of symbols without a chain), adjusted contracts, and symbols without a price.
 * Invariant: rows never reach this module, only bounded results of the queries that readers get too (`exposure-sql.ts`).
 */
import { formatCount, formatDecimal } from '../../core/units.ts';
import { parquetFile } from '../../engine/literal.ts';
import type { Amount } from '../amount.ts';
import { assertPresent, type DropSource } from '../drop-source.ts';
import type {
  ExpirationGex,
  ExpirationPain,
  ExpirationVolatility,
  Exposure,
  ExposureLevels,
  ExposureSums,
  MarketStructureGex,
  RankedExposure,
  StrikeGex,
  SymbolExposure,
  ZeroGamma,
} from '../exposure-model.ts';
import {
  CHAIN_COLUMNS,
  type DETAILS,
  type ExposureScope,
  IS_SHOWN,
  nameChain,
  selectDetails,
  selectSeries,
} from './exposure-sql.ts';
import { SELECT_SPOTS, selectStates } from './series-state.ts';
import { fillSql } from './sql.ts';

/** Symbols of the ranking: few enough to read at a glance. */
const TOP_EXPOSURES = 10;
/** Symbols with odd prices that are named. */
const ODD_SYMBOLS = 5;

const NO_SUM = {
  ...{ callGex: null, putGex: null, netGex: null, callDex: null, putDex: null, netDex: null },
  ...{ netGexAfter: null, netDexAfter: null },
} as const;

/** Of a drop that lacks trades by its job's condition: a sum over the rest would look like the market's. */
export const NO_EXPOSURE: Exposure = {
  total: { ...NO_SUM, endedContracts: 0, contracts: 0, adjustedContracts: 0, unknownContracts: 0 },
  unpricedSymbols: 0,
  top: [],
  focus: [],
  lead: null,
};

export interface ExposureOptions extends ExposureScope {
  /** Symbols to show with details, in this order, behind the one with most premium; those that did not trade are left out. */
  readonly focus: readonly string[];
  /** Local Parquet file of the market-structure drop of this date; null if none is sealed. */
  readonly marketStructure: string | null;
  /** Local Parquet file of the chain drop of this date, and whether it may lack contracts; null if none is sealed. */
  readonly chain: { readonly path: string; readonly isDegraded?: boolean } | null;
}

type RankedRow = RankedExposure & { readonly place: number };

interface TotalRow extends ExposureSums {
  readonly unpriced: number;
  readonly odd: number;
  readonly oddSymbols: readonly string[];
}

const SUMS = [
  ...['call_gex', 'put_gex', 'call_dex', 'put_dex', 'net_gex_after', 'net_dex_after'],
  ...['ended_contracts', 'contracts', 'adjusted_contracts', 'unknown_contracts'],
].map((name) => `ifNull(sum(ranked.${name}), 0) AS ${name}`);

/** Computes `act` over the table `states` of the counted records; no table is left, however it ends. @throws EngineFault */
export async function withStates<Result>(
  source: DropSource,
  date: string,
  act: () => Promise<Result>,
): Promise<Result> {
  try {
    await source.command(`CREATE OR REPLACE TEMPORARY TABLE states AS ${selectStates(source.table, date)}`);
    return await act();
  } finally {
    for (const table of ['states', 'spots', 'series']) {
      // An engine that is gone has no tables.
      await source.cleanUp(`DROP TEMPORARY TABLE IF EXISTS ${table}`).catch(() => {});
    }
  }
}

/**
 * Exposure, and the volatility of the symbols with details, from `states`, which it drops.
 * @throws Fault `REPORT_COLUMNS_MISSING`; EngineFault
 */
export async function queryExposure(
  source: DropSource,
  { chain, marketStructure, focus: wanted, ...scope }: ExposureOptions,
): Promise<{ readonly exposure: Exposure; readonly volatility: readonly ExpirationVolatility[] }> {
  const chainTable = chain === null ? null : nameChain(await openChain(source, chain.path), scope.families);
  await source.command(
    `CREATE OR REPLACE TEMPORARY TABLE spots AS SELECT symbol, spot, odd_prices FROM (${SELECT_SPOTS})`,
  );
  await source.command(`CREATE OR REPLACE TEMPORARY TABLE series AS ${selectSeries(chainTable, scope)}`);
  const largest = await source.rows<{ readonly symbol: string }>(
    'SELECT symbol FROM states WHERE symbol IN (SELECT symbol FROM spots) GROUP BY symbol ORDER BY sum(total_premium) DESC, symbol LIMIT 1',
  );
  await source.command('DROP TEMPORARY TABLE states');
  const focus = [...new Set([...largest.map(({ symbol }) => symbol), ...wanted])];
  const ranked = fillSql('ranked', { date: scope.date });
  const rows = await source.known<RankedRow>(
    `WITH ${ranked}\nSELECT * EXCEPT (left_out_prices, is_whole_chain) REPLACE (nullIf(spot, 0) AS spot), toBool(is_whole_chain) AS is_whole_chain FROM ranked WHERE place <= ${TOP_EXPOSURES} OR has({focus:Array(String)}, symbol) ORDER BY place`,
    { focus },
  );
  const [totals] = await source.known<TotalRow>(
    `WITH ${ranked}
     SELECT *, call_gex + put_gex AS net_gex, call_dex + put_dex AS net_dex FROM (
       SELECT ${SUMS.join(', ')}, countIf(spot = 0) AS unpriced, sum(left_out_prices) AS odd, arraySlice(arraySort(groupArrayIf(symbol, left_out_prices > 0)), 1, ${ODD_SYMBOLS}) AS odd_symbols FROM ranked)`,
  );
  const top = rows.filter(({ place, spot }) => place <= TOP_EXPOSURES && spot !== null);
  const wantedRows = focus.flatMap((symbol) => rows.filter((row) => row.symbol === symbol));
  // One of them has exposure if any symbol has.
  const shownRows = wantedRows.some(hasExposure) ? wantedRows : [...new Set([...top.slice(0, 1), ...wantedRows])];
  const shown = shownRows.map(({ symbol }) => symbol);
  const detailsOf = await queryDetails(source, shown, scope);
  const structures = marketStructure === null ? [] : await queryStructures(source, marketStructure, scope, shown);
  const rank = ({ place: _, ...row }: RankedRow): RankedExposure => ({
    ...row,
    isDegradedChain: row.isWholeChain && chain?.isDegraded ? true : undefined,
  });
  const describe = (row: RankedRow): SymbolExposure => {
    const own = rank(row);
    const structure = structures.find(({ symbol }) => symbol === row.symbol);
    return {
      ...own,
      ...detailsOf(row.symbol),
      marketStructure: structure === undefined ? null : compareStructure(own, structure),
    };
  };
  const described = shownRows.map(describe);
  const { unpriced, odd, oddSymbols, ...total } = totals ?? {
    ...NO_EXPOSURE.total,
    unpriced: 0,
    odd: 0,
    oddSymbols: [],
  };
  const exposure = {
    total,
    unpricedSymbols: unpriced,
    // Absent without any.
    oddPrices: odd > 0 ? { records: odd, symbols: oddSymbols } : undefined,
    top: top.map(rank),
    focus: described,
    lead: described.find(hasExposure) ?? described.find(({ spot }) => spot !== null) ?? null,
  };
  const volatility = await source.known<ExpirationVolatility>(
    `SELECT * EXCEPT (at_strike), at_strike AS strike FROM (WITH ${selectDetails('volatility', IS_SHOWN, scope)})`,
    { shown: exposure.focus.map(({ symbol }) => symbol) },
  );
  return { exposure, volatility };
}

function hasExposure({ callGex, putGex }: ExposureSums): boolean {
  return callGex !== 0 || putGex !== 0;
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

async function queryDetails(source: DropSource, shown: readonly string[], scope: ExposureScope) {
  const run = async <Row extends object>(file: keyof typeof DETAILS, columns: string) => {
    const sql = `SELECT symbol AS of, ${columns} FROM (WITH ${selectDetails(file, IS_SHOWN, scope)})`;
    const rows = await source.known<Row & { readonly of: string }>(sql, { shown });
    return (symbol: string) => rows.filter((row) => row.of === symbol).map(({ of: _, ...row }) => row);
  };
  const gex = 'call_gex, put_gex, net_gex';
  const walls = await run<Omit<ExposureLevels, 'zeroGamma' | 'zeroGammaAfter'>>(
    'walls',
    'call_wall, put_wall, absolute_gamma_strike, call_wall_after, put_wall_after',
  );
  const strikes = await run<StrikeGex>('gex-by-strike', `strike, ${gex}, net_gex_after`);
  const expirations = await run<ExpirationGex>('gex-by-expiration', `expiration_date, ${gex}, share_of_gamma AS share`);
  const pains = await run<ExpirationPain>('max-pain', 'expiration_date, max_pain, vanna, charm');
  const zeros = await run<ZeroGamma>('zero-gamma', 'toBool(is_after) AS is_after, zero_gamma, place');
  return (symbol: string) => {
    const zeroGammas = zeros(symbol);
    const nearest = (isAfter: boolean) =>
      zeroGammas.find((zero) => zero.isAfter === isAfter && zero.place === 1)?.zeroGamma ?? null;
    return {
      ...NO_LEVELS,
      ...walls(symbol)[0],
      ...{ zeroGamma: nearest(false), zeroGammaAfter: nearest(true), zeroGammas },
      strikes: strikes(symbol),
      expirations: expirations(symbol),
      pains: pains(symbol),
    };
  };
}

const NO_LEVELS: ExposureLevels = {
  ...{ zeroGamma: null, callWall: null, putWall: null, absoluteGammaStrike: null },
  ...{ zeroGammaAfter: null, callWallAfter: null, putWallAfter: null },
};

/** A difference above this, as a fraction of the larger absolute value, is explained. */
const LARGE_DIFFERENCE = 0.25;
/** Prices of the underlying that differ by more than this are mentioned: exposure grows with the price squared. */
const OTHER_SPOT = 0.01;

/** Ours and theirs, of a symbol with a price of the underlying. */
interface StructureRow {
  readonly symbol: string;
  /** Null if ours cannot be computed. */
  readonly difference: Amount;
  readonly intradayGex: number;
  /** Price of the underlying for their exposure; null if missing. */
  readonly theirSpot: Amount;
  /** UTC, `HH:MM`; null if missing. */
  readonly clock: string | null;
}

const NEEDED = ['symbol', 'spot', 'call_gex', 'put_gex', 'intraday_gex_as_of'];

/**
 * The newest intraday summary of each symbol of `shown`; a symbol without one is left out.
 * @throws Fault `REPORT_COLUMNS_MISSING` (kind `usage`): the file is not a market-structure drop; EngineFault
 */
async function queryStructures(
  source: DropSource,
  path: string,
  scope: ExposureScope,
  shown: readonly string[],
): Promise<readonly StructureRow[]> {
  const table = parquetFile(path);
  await assertPresent(source, table, NEEDED, {
    what: 'the drop that the report takes market structure from',
    hint: 'Name the dataset of a job whose source is `api: market-structure` in `market_structure`.',
  });
  return await source.known<StructureRow>(
    `SELECT *, formatDateTime(as_of, '%H:%i', 'UTC') AS clock FROM (WITH ${selectDetails('market-structure', IS_SHOWN, scope, table)})`,
    { shown },
  );
}

/** @param ours with a price of the underlying */
export function compareStructure(ours: RankedExposure, theirs: StructureRow): MarketStructureGex {
  const { intradayGex, difference } = theirs;
  if (difference === null) return { intradayGex, difference, explanation: 'Ours cannot be computed.' };
  const explanation = Math.abs(difference) > LARGE_DIFFERENCE ? explainDifference(ours, theirs) : '';
  return { intradayGex, difference, explanation };
}

function explainDifference({ spot, contracts, ...ours }: RankedExposure, { theirSpot, clock }: StructureRow): string {
  const isOther = theirSpot !== null && spot !== null && Math.abs(theirSpot / spot - 1) > OTHER_SPOT;
  const who = isOther
    ? `Theirs is at a price of ${formatDecimal(theirSpot)}, ours at ${formatDecimal(spot)}; ours`
    : 'Ours';
  const scope = ours.isWholeChain
    ? `is of the ${ours.isDegradedChain ? 'degraded ' : ''}chain at the session's last price, theirs of the full chain`
    : `has only the ${formatCount(contracts)} series that traded and the session's last values, theirs the full chain`;
  return `${who} ${scope}${clock === null ? '' : ` as of ${clock} UTC`}.`;
}
