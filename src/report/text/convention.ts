/** The formulas and conventions printed in every report, so that readers can recompute and dispute each number. */
import type { FlowReport } from '../model.ts';
import { countOf, nameSymbol } from './label.ts';

interface Convention {
  readonly term: string;
  readonly text: string;
}

/** Short forms: `docs/formulas.md` has each in full, with its source. */
export function listConventions(report: FlowReport): readonly Convention[] {
  return [
    {
      term: 'Premium',
      text: 'price x size x 100 dollars, as each trade record carries it; the sum over the counted records.',
    },
    {
      term: 'Sentiment',
      text: 'the record’s own field, an estimate from whether the trade executed at the bid or the ask; neutral is between the two, or without quotes. A trade without a known sentiment is in none of the three. Legs of spreads count by their own side.',
    },
    {
      term: 'Net call, net put premium',
      text: 'premium at or above the ask less premium at or below the bid, of calls and of puts.',
    },
    { term: 'Put/call', text: 'put premium over call premium, and put contracts over call contracts.' },
    {
      term: 'Volume above OI',
      text: 'premium of the series whose volume of the day is above their open interest: positions that must be new, at least in part.',
    },
    {
      term: 'GEX',
      text: 'gamma x open interest x 100 x spot² x 0.01: dollars per 1% move; calls +, puts −, which assumes that dealers are long calls and short puts. Gamma and open interest are those of every contract of the symbol’s option chain if the store has the chain of that date, else the last known ones of each traded contract; spot is the median price of the symbol’s last records.',
    },
    {
      term: 'DEX',
      text: 'delta x open interest x 100 x spot: dollars of the underlying, a put’s delta being negative.',
    },
    {
      term: 'Zero gamma, walls',
      text: 'zero gamma is the spot at which net GEX would be 0; the call wall is the strike with the largest call GEX, the put wall the one with the most negative put GEX. Both are computed for the watchlist; without one, for the largest symbol.',
    },
    { term: 'Left out of GEX and DEX', text: describeGexGaps(report) },
    { term: 'Trade times', text: 'the exchange’s wall clock (New York).' },
  ];
}

function describeGexGaps({ exposure }: FlowReport): string {
  const { total, unpricedSymbols, oddPrices } = exposure;
  if (total.contracts === 0) return 'everything: no contract traded this day.';
  const unpriced =
    unpricedSymbols === 0 ? '' : `; ${countOf(unpricedSymbols, 'symbol')} without a price of the underlying`;
  const odd =
    oddPrices === undefined
      ? ''
      : `; the prices of the underlying of ${countOf(oddPrices.records, 'record')}, which are odd beside those before and after (${oddPrices.symbols.map(nameSymbol).join(', ')})`;
  const unknown =
    total.unknownContracts === 0
      ? ''
      : `; ${countOf(total.unknownContracts, 'contract')} without a gamma or an open interest`;
  const adjusted =
    total.adjustedContracts === 0
      ? ''
      : `; ${countOf(total.adjustedContracts, 'adjusted or mini contract')}, which ${total.adjustedContracts === 1 ? 'is' : 'are'} not 100 shares`;
  return `every contract that did not trade this day, of symbols without a chain drop (counted: ${countOf(total.contracts, 'contract')})${unpriced}${adjusted}${unknown}${odd}.`;
}
