/** For tests whose days lack no numbers: amounts as plain numbers. */
import type { Amount } from '../../src/report/amount.ts';
import type { SymbolExposure } from '../../src/report/exposure-model.ts';
import type { Premium } from '../../src/report/numbers.ts';

type Sums = 'contracts' | 'callContracts' | 'putContracts' | 'total' | 'calls' | 'puts' | 'netCalls' | 'netPuts';
type Parts = 'bullish' | 'bearish' | 'neutral' | 'zeroDte' | 'multiLeg' | 'sweep';
export type KnownPremium = Premium & Readonly<Record<Sums | Parts, number>>;

type Gex = 'callGex' | 'putGex' | 'netGex';
export type KnownGex = Readonly<Record<Gex, number>>;
export type KnownExposure = SymbolExposure &
  KnownGex &
  Readonly<Record<'callDex' | 'putDex' | 'netDex' | 'netGexAfter' | 'netDexAfter', number>>;

/** @throws when nobody knows it */
export function known(amount: Amount | undefined): number {
  if (amount === null || amount === undefined) throw new TypeError('the amount is not known');
  return amount;
}

/** Every number of an object whose numbers are all known. */
export function knownAll<Key extends string>(amounts: Readonly<Record<Key, Amount>>): Readonly<Record<Key, number>> {
  const entries = Object.entries<Amount>(amounts).map(([key, amount]) => [key, known(amount)]);
  return Object.fromEntries(entries) as Record<Key, number>; // The keys are those of the argument.
}
