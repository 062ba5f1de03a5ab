/** Premium by underlying symbol: the largest of the day, and the symbols somebody asked for. */
import { PREMIUM_MEASURES, type Premium, type PremiumRow, readPremium } from './premium.ts';
import type { DropSource } from './source.ts';

/** Symbols in the table of the largest: what a reader takes in at a glance, and what fits a chart on a phone. */
export const TOP_SYMBOLS = 10;

export interface SymbolFlow extends Premium {
  readonly symbol: string;
  /** 1 is the largest premium of the day; equal premiums are ordered by symbol. */
  readonly place: number;
}

export interface SymbolFlows {
  /** Symbols that traded. */
  readonly count: number;
  readonly top: readonly SymbolFlow[];
  /** Those of the focus list that traded, whatever their place. */
  readonly focus: readonly SymbolFlow[];
}

type SymbolRow = PremiumRow & { readonly symbol: string; readonly place: number; readonly symbols: number };

/** One pass over the file; the result has at most `TOP_SYMBOLS` and the focus list's rows. */
export async function querySymbolFlows(source: DropSource, focus: readonly string[]): Promise<SymbolFlows> {
  const rows = await source.rows<SymbolRow>(
    `SELECT * FROM (
       SELECT symbol, ${PREMIUM_MEASURES},
         row_number() OVER (ORDER BY sum(premium) DESC, symbol) AS place,
         count(*) OVER () AS symbols
       FROM ${source.table} GROUP BY symbol
     ) WHERE place <= ${TOP_SYMBOLS} OR has({focus:Array(String)}, symbol) ORDER BY place`,
    { focus },
  );
  const flows = rows.map((row) => ({ symbol: row.symbol, place: row.place, ...readPremium(row) }));
  const wanted = new Set(focus);
  return {
    count: rows[0]?.symbols ?? 0,
    top: flows.filter((flow) => flow.place <= TOP_SYMBOLS),
    focus: flows.filter((flow) => wanted.has(flow.symbol)),
  };
}
