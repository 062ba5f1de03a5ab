/** The formulas and conventions as printed in every report, so that each number can be recomputed and disputed. */
import { formatDollars } from '../core/units.ts';
import type { FlowReport } from './flow.ts';
import { countOf } from './label.ts';
import { CANCEL_TYPE } from './premium.ts';

export interface Convention {
  readonly term: string;
  readonly text: string;
}

export function listConventions(report: FlowReport): readonly Convention[] {
  return [
    {
      term: 'Premium',
      text: 'price x size x 100 dollars, as each trade record carries it; the sum over all records of the day.',
    },
    {
      term: 'Sentiment',
      text: 'the record’s own field, an estimate from whether the trade executed at the bid or the ask. Neutral is the rest: at the midpoint, or unknown. Legs of spreads count by their own side.',
    },
    { term: 'Put/call', text: 'put premium over call premium, and put contracts over call contracts.' },
    {
      term: 'GEX',
      text: 'gamma x open interest x 100 x spot² x 0.01: dollars per 1 % move; calls +, puts −, which assumes that dealers are long calls and short puts. Gamma and open interest of each contract’s latest record of the day; spot is the symbol’s last price in the records.',
    },
    { term: 'Left out of GEX', text: describeGexGaps(report) },
    { term: 'Cancels', text: describeCancels(report) },
    { term: 'Trade times', text: 'the exchange’s wall clock (New York).' },
  ];
}

function describeGexGaps(report: FlowReport): string {
  const { total, unpricedSymbols } = report.gex;
  if (total.contracts === 0) return 'everything: no contract traded this day.';
  const unpriced =
    unpricedSymbols === 0 ? '' : `; ${countOf(unpricedSymbols, 'symbol')} without a price of the underlying`;
  return `every contract that did not trade this day (${countOf(total.contracts, 'contract')} did)${unpriced}.`;
}

function describeCancels(report: FlowReport): string {
  const { cancels, cancelled } = report.headline;
  if (cancels === 0) return 'no cancel message came in this day.';
  return `${countOf(cancels, 'cancel message')} (type ${CANCEL_TYPE}, ${formatDollars(cancelled)} of premium) came in; they and the prints they cancel are in all sums.`;
}
