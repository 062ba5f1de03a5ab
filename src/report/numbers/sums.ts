/**
 * The one pass over the counted records that most tables come from: cells of symbol, half hour, expiry and moneyness are
 * summed once and then added up along each of the four, and in all. A pass for each table would read the file five times.
 * Invariant: the result is bounded, however many symbols trade: of symbols only those come that a table shows.
 */

import type { DropSource } from '../source.ts';
import { EXPIRY_BUCKET, MONEYNESS_BUCKET } from './bucket.ts';
import { buildSymbolHistory, type History } from './history.ts';
import { buildPremiumList, listPremiumMeasures, type PremiumRow } from './premium.ts';
import { HALF_HOUR } from './session.ts';
import { LEANING_SYMBOLS, type SymbolRow, TOP_SYMBOLS } from './symbol.ts';
import { UNUSUAL_ORDER, UNUSUAL_SYMBOLS, type UnusualRow } from './unusual.ts';

/** Which of the four a row is a sum along: `grouping` sets a bit for each that it is not. */
const ALONG = { all: 15, symbol: 7, slot: 11, expiry: 13, moneyness: 14 } as const;
type Along = keyof typeof ALONG;

type SumRow = SymbolRow &
  UnusualRow & {
    readonly along: number;
    readonly slot: number;
    readonly expiry: string;
    readonly money: string;
    /** Rows along the same. */
    readonly members: number;
  };

export interface Sums {
  readonly headline: PremiumRow | undefined;
  readonly slots: readonly (PremiumRow & { readonly slot: number })[];
  readonly expiries: readonly (PremiumRow & { readonly bucket: string })[];
  readonly moneyness: readonly (PremiumRow & { readonly bucket: string })[];
  /** Those that a table shows. */
  readonly symbols: readonly (SymbolRow & UnusualRow)[];
  /** Symbols that traded. */
  readonly symbolCount: number;
}

/**
 * @param focus symbols that come whatever their place
 * @param hasGaps whether records lack numbers that the others have
 */
export async function querySums(
  source: DropSource,
  focus: readonly string[],
  history: History,
  hasGaps: boolean,
): Promise<Sums> {
  const rows = await source.rows<SumRow>(buildQuery(source.table, history, hasGaps), { focus });
  const along = (which: Along) => rows.filter((row) => row.along === ALONG[which]);
  const symbols = along('symbol');
  return {
    headline: along('all')[0],
    slots: along('slot'),
    expiries: along('expiry').map((row) => ({ ...row, bucket: row.expiry })),
    moneyness: along('moneyness').map((row) => ({ ...row, bucket: row.money })),
    symbols,
    symbolCount: symbols[0]?.members ?? 0,
  };
}

function buildQuery(table: string, history: History, hasGaps: boolean): string {
  const names = listPremiumMeasures(hasGaps).map(([name]) => name);
  const lean = 'ifNull(bullish_premium, 0) - ifNull(bearish_premium, 0)';
  const place = (order: string) => `row_number() OVER (PARTITION BY along ORDER BY ${order}, symbol)`;
  return `
WITH
  cells AS (
    SELECT symbol, ${HALF_HOUR} AS slot, ${EXPIRY_BUCKET} AS expiry, ${MONEYNESS_BUCKET} AS money, ${buildPremiumList(hasGaps)}
    FROM ${table} GROUP BY symbol, slot, expiry, money
  ),
  sums AS (
    SELECT symbol, slot, expiry, money, grouping(symbol, slot, expiry, money) AS along,
      ${names.map((name) => `sum(cells.${name}) AS ${name}`).join(', ')}
    FROM cells GROUP BY GROUPING SETS ((), (symbol), (slot), (expiry), (money))
  ),
  past AS (${buildSymbolHistory(history)}),
  placed AS (
    SELECT sums.*, past.mean AS mean, past.previous AS previous, past.sessions AS sessions,
      ${place('total_premium DESC')} AS place,
      ${place(`${lean} DESC`)} AS bullish_place,
      ${place(lean)} AS bearish_place,
      ${place(UNUSUAL_ORDER)} AS unusual_place,
      count(*) OVER (PARTITION BY along) AS members
    FROM sums LEFT JOIN past ON sums.symbol = past.symbol AND sums.along = ${ALONG.symbol}
  )
SELECT * FROM placed
WHERE along != ${ALONG.symbol} OR place <= ${TOP_SYMBOLS} OR least(bullish_place, bearish_place) <= ${LEANING_SYMBOLS}
  OR unusual_place <= ${UNUSUAL_SYMBOLS} OR has({focus:Array(String)}, symbol)
ORDER BY along, place`;
}
