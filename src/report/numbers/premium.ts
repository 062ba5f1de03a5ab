/**
 * Premium: dollars paid for options, by calls and puts, by sentiment, by how they were traded. Formulas and conventions
 * are those of `report/sums/premium-sums.ts`, whose columns the summary beside a drop has under the same names. Put/call ratios
 * are puts over calls, as Cboe publishes them.
 */

import type { Amount } from '../amount.ts';
import type { Premium, PremiumPart } from '../model.ts';
import {
  GAP_MEASURES,
  LACK_MEASURES,
  PREMIUM_MEASURES,
  type PremiumMeasure,
  type PremiumPartName,
} from '../sums/premium-sums.ts';

/** A number as the engine writes it: `inf`, `-inf` and `nan` are texts. */
export type EngineNumber = number | string | null;

/** A row of `buildPremiumList`; what the list does not have is missing. */
export type PremiumRow = Readonly<Partial<Record<PremiumMeasure, EngineNumber>>>;

/** @param hasGaps whether records lack numbers that the others have */
export function listPremiumMeasures(hasGaps: boolean): readonly (readonly [PremiumMeasure, string])[] {
  return hasGaps ? [...GAP_MEASURES, ...LACK_MEASURES] : PREMIUM_MEASURES;
}

/** The measures as a SELECT list. */
export function buildPremiumList(hasGaps: boolean): string {
  return listPremiumMeasures(hasGaps)
    .map(([name, sql]) => `${sql} AS ${name}`)
    .join(',\n  ');
}

/** The engine's row as numbers. A sum over no records is 0, one over records without a number is not known. */
export function readPremium(row: PremiumRow | undefined): Premium {
  const trades = Number(row?.trades ?? 0);
  const unpriced = Number(row?.unpriced_trades ?? 0);
  const unsized = Number(row?.unsized_trades ?? 0);
  const value = (name: PremiumPartName): Amount => readAmount(row?.[name], Number(row?.[`${name}_lacks`] ?? 0) === 0);
  const [calls, puts] = [value('call_premium'), value('put_premium')];
  const [callContracts, putContracts] = [value('call_contracts'), value('put_contracts')];
  return {
    ...{ trades, unpriced, unsized, contracts: value('contracts'), callContracts, putContracts },
    ...{ total: value('total_premium'), calls, puts },
    netCalls: value('net_call_premium'),
    netPuts: value('net_put_premium'),
    bullish: value('bullish_premium'),
    bearish: value('bearish_premium'),
    neutral: value('neutral_premium'),
    putCallByPremium: divide(puts, calls),
    putCallByVolume: divide(putContracts, callContracts),
    zeroDte: value('zero_dte_premium'),
    multiLeg: value('multi_leg_premium'),
    sweep: value('sweep_premium'),
  };
}

export function readPremiumPart(row: PremiumRow | undefined): PremiumPart {
  const { trades, contracts, total, calls, puts } = readPremium(row);
  return { trades, contracts, total, calls, puts };
}

/**
 * A sum as the engine gives it: a text for NaN and infinities, null for a sum over nothing.
 * @param isWhole whether no record lacks the number, so that a sum over nothing is 0
 */
export function readAmount(sum: EngineNumber | undefined, isWhole: boolean): Amount {
  if (sum === null || sum === undefined) return isWhole ? 0 : null;
  return readNumber(sum);
}

/** Null for what is no finite number. */
export function readNumber(value: EngineNumber): Amount {
  return value === null || !Number.isFinite(Number(value)) ? null : Number(value);
}

/** Null for a ratio to nothing, and where one of the two is not known. */
export function divide(part: Amount, whole: Amount): number | null {
  if (part === null || whole === null || whole === 0) return null;
  const ratio = part / whole;
  return Number.isFinite(ratio) ? ratio : null;
}
