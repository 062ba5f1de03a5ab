/**
 * Premium: dollars paid for options, by calls and puts, by sentiment, by how they were traded. Formulas and conventions
 * are those of `wire/premium-sql.ts`, whose columns the summary beside a drop has under the same names. Put/call ratios
 * are puts over calls, as Cboe publishes them.
 */
import { PREMIUM_MEASURES, type PremiumMeasure } from '../../measure/premium.ts';
import type { Premium, PremiumPart } from '../model.ts';

/** A row of `PREMIUM_LIST`; sums over no rows may be null. */
export type PremiumRow = Readonly<Record<PremiumMeasure, number | null>>;

/** The measures as a SELECT list. */
export const PREMIUM_LIST = PREMIUM_MEASURES.map(([name, sql]) => `${sql} AS ${name}`).join(',\n  ');

/** The engine's row as numbers; a sum over nothing is 0. */
export function readPremium(row: PremiumRow | undefined): Premium {
  const value = (name: PremiumMeasure): number => Number(row?.[name] ?? 0);
  return {
    trades: value('trades'),
    contracts: value('contracts'),
    callContracts: value('call_contracts'),
    putContracts: value('put_contracts'),
    total: value('total_premium'),
    calls: value('call_premium'),
    puts: value('put_premium'),
    netCalls: value('net_call_premium'),
    netPuts: value('net_put_premium'),
    bullish: value('bullish_premium'),
    bearish: value('bearish_premium'),
    neutral: value('neutral_premium'),
    putCallByPremium: divide(value('put_premium'), value('call_premium')),
    putCallByVolume: divide(value('put_contracts'), value('call_contracts')),
    zeroDte: value('zero_dte_premium'),
    multiLeg: value('multi_leg_premium'),
    sweep: value('sweep_premium'),
  };
}

export function readPremiumPart(row: PremiumRow | undefined): PremiumPart {
  const { trades, contracts, total, calls, puts } = readPremium(row);
  return { trades, contracts, total, calls, puts };
}

/** Null for a ratio to nothing. */
export function divide(part: number, whole: number): number | null {
  return whole === 0 ? null : part / whole;
}
