/**
 * Premium by underlying symbol: the largest of the day, the most bullish and bearish by net sentiment (bullish less
 * bearish premium, dollars). Equal numbers are ordered by symbol. Pure.
 */
import { leanOf } from '../amount.ts';
import type { SymbolFlow } from '../model.ts';
import { type PremiumRow, readPremium } from './premium.ts';

/** Symbols in the table of the largest: what a reader takes in at a glance, and what fits a chart on a phone. */
export const TOP_SYMBOLS = 10;
/** Of each sign. */
export const LEANING_SYMBOLS = 5;

/** A symbol with its places of the day: by premium, by net sentiment, and by net sentiment the other way round. */
export type SymbolRow = PremiumRow & {
  readonly symbol: string;
  readonly place: number;
  readonly bullish_place: number;
  readonly bearish_place: number;
};

export interface SymbolFlows {
  readonly top: readonly SymbolFlow[];
  readonly mostBullish: readonly SymbolFlow[];
  readonly mostBearish: readonly SymbolFlow[];
}

/** @param rows at least every symbol that has one of the places shown */
export function readSymbolFlows(rows: readonly SymbolRow[]): SymbolFlows {
  const flows = rows.map((row) => ({ row, flow: readSymbolFlow(row) }));
  const first = (count: number, placeOf: (row: SymbolRow) => number) =>
    flows
      .filter(({ row }) => placeOf(row) <= count)
      .sort((a, b) => placeOf(a.row) - placeOf(b.row))
      .map(({ flow }) => flow);
  return {
    top: first(TOP_SYMBOLS, ({ place }) => place),
    mostBullish: first(LEANING_SYMBOLS, (row) => row.bullish_place).filter((flow) => (leanOf(flow) ?? 0) > 0),
    mostBearish: first(LEANING_SYMBOLS, (row) => row.bearish_place).filter((flow) => (leanOf(flow) ?? 0) < 0),
  };
}

export function readSymbolFlow(row: SymbolRow): SymbolFlow {
  return { symbol: row.symbol, place: row.place, ...readPremium(row) };
}
