/**
 * Describes what the numbers lack: trades without a premium or a size, sums that overflow, unknown codes. Invariant:
 * wherever a number is printed without them, the report says so, and it never prints such a number as 0. Pure.
 */
import { formatCount } from '../../core/units.ts';
import type { FlowReport, UnknownCodes } from '../model.ts';
import type { Premium } from '../numbers.ts';
import { cleanCode, countOf, joinWords, nameSymbol } from './label.ts';

/** Limit of named symbols. */
const MAX_SYMBOLS = 5;

/** How an unknown code in the column affects the trade, for readers. */
const DECIDES: Readonly<Record<UnknownCodes['column'], string>> = {
  put_call: 'neither calls nor puts',
  sentiment: 'neither bullish, bearish nor neutral',
  side: 'in no net premium',
  option_activity_type: 'taken for trades of a single option',
};

/** Why the premium does not cover all trades: `3 of 2,295 trades have no premium`; empty if it does. */
export function describeGap({ trades, total, unpriced }: Premium): string {
  if (unpriced > 0) return `${formatCount(unpriced)} of ${countOf(trades, 'trade')} ${haveOf(unpriced)} no premium`;
  return total === null ? 'the sum is too large' : '';
}

/** Sentences about what the day's numbers lack; none if they are complete. */
export function describeGaps({ headline, exclusions, topSymbols }: FlowReport): readonly string[] {
  const { trades, unpriced, unsized, total, contracts } = headline;
  const lacking = topSymbols.filter((flow) => flow.unpriced > 0);
  const named = lacking.slice(0, MAX_SYMBOLS).map((flow) => `${nameSymbol(flow.symbol)} ${formatCount(flow.unpriced)}`);
  const symbols = named.length === 0 || unpriced === trades ? '' : ` Of the largest symbols: ${named.join(', ')}.`;
  const of = countOf(trades, 'trade');
  return [
    ...(unpriced === 0
      ? []
      : [`${formatCount(unpriced)} of ${of} ${haveOf(unpriced)} no premium: ${describeSum(total)}.${symbols}`]),
    ...(unpriced === 0 && total === null
      ? ['The premium cannot be computed: the sum is beyond what a number can hold.']
      : []),
    ...(unsized === 0
      ? []
      : [`${formatCount(unsized)} of ${of} ${haveOf(unsized)} no size: ${describeSum(contracts)}.`]),
    ...(unsized === 0 && contracts === null
      ? ['The contracts cannot be computed: the sum is beyond what a number can hold.']
      : []),
    ...exclusions.unknownCodes.map(describeCodes),
  ];
}

function describeSum(sum: number | null): string {
  return sum === null ? 'the sums cannot be computed' : 'the sums leave them out';
}

/** `3 trades have an unknown side ("X" 2, none 1): in no net premium.` */
function describeCodes({ column, trades, values }: UnknownCodes): string {
  const named = values.map(({ value, trades: count }) => `${nameCode(value)} ${formatCount(count)}`);
  const rest = trades - values.reduce((sum, { trades: count }) => sum + count, 0);
  const all = [...named, ...(rest > 0 ? [`others ${formatCount(rest)}`] : [])];
  return `${countOf(trades, 'trade')} ${haveOf(trades)} an unknown ${column} (${joinWords(all)}): ${DECIDES[column]}.`;
}

function nameCode(value: string | null): string {
  if (value === null) return 'none';
  return `"${cleanCode(value)}"`;
}

function haveOf(count: number): string {
  return count === 1 ? 'has' : 'have';
}
