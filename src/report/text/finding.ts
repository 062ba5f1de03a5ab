/** What a chart or a table shows, said in a sentence: its caption, and the text for those who do not see it. Pure. */
import { formatCount, formatDollars } from '../../core/units.ts';
import type { HalfHour, SymbolFlow, VolumeAboveOpenInterest } from '../model.ts';
import { cleanLabel, formatPart, nameSymbol } from './label.ts';

/** The busiest half hour, and how often bullish premium outweighed bearish. */
export function describeSession(halfHours: readonly HalfHour[], total: number): string {
  const busiest = pickLargest(halfHours);
  if (busiest === undefined) return 'No trades.';
  const bullish = halfHours.filter((slot) => slot.bullish > slot.bearish).length;
  const share = total > 0 ? `, ${formatPart(busiest.total / total)} of the day` : '';
  const lead = `Busiest half hour: ${cleanLabel(busiest.start)} with ${formatDollars(busiest.total)}${share}.`;
  return halfHours.length === 1
    ? lead
    : `${lead} Bullish premium outweighed bearish in ${bullish} of ${halfHours.length} half hours.`;
}

/** The leading symbol and the share of those shown in all premium. */
export function describeSymbols(top: readonly SymbolFlow[], symbolCount: number, total: number): string {
  const [first] = top;
  if (first === undefined) return 'No trades.';
  const name = nameSymbol(first.symbol);
  if (symbolCount === 1) return `${name} is the only symbol of the day: ${formatDollars(first.total)}.`;
  if (total <= 0) return `${formatCount(symbolCount)} symbols traded, without premium.`;
  const shown = top.reduce((sum, flow) => sum + flow.total, 0);
  const rest = symbolCount > top.length ? ` The ${top.length} largest carry ${formatPart(shown / total)}.` : '';
  return `${name} leads with ${formatDollars(first.total)}, ${formatPart(first.total / total)} of all premium.${rest}`;
}

/** The largest of the parts of a day: `0DTE took the largest part, 38 %.` */
export function describeParts(
  parts: readonly { readonly name: string; readonly total: number }[],
  total: number,
): string {
  const largest = pickLargest(parts);
  if (largest === undefined || total <= 0) return 'No premium.';
  return `${largest.name} took the largest part, ${formatPart(largest.total / total)} of premium.`;
}

/** Series that traded more than their open interest. */
export function describeVolumeAboveOpenInterest(above: VolumeAboveOpenInterest, total: number): string {
  if (above.series === 0) return 'No series traded more than its open interest.';
  const share = total > 0 ? `, ${formatPart(above.premium / total)} of premium` : '';
  return `${formatCount(above.series)} of ${formatCount(above.ofSeries)} series traded more than their open interest: ${formatDollars(above.premium)}${share}.`;
}

function pickLargest<Part extends { readonly total: number }>(parts: readonly Part[]): Part | undefined {
  return parts.reduce<Part | undefined>(
    (best, part) => (best === undefined || part.total > best.total ? part : best),
    undefined,
  );
}
