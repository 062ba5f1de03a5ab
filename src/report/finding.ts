/** What a chart shows, said in one sentence: its caption, and the text for those who do not see the picture. Pure. */
import { formatDollars, formatPercent } from '../core/units.ts';
import { cleanLabel } from './label.ts';
import type { HalfHour } from './session.ts';
import type { SymbolFlow } from './symbol.ts';

/** The busiest half hour, and how often bullish premium outweighed bearish. */
export function describeSession(halfHours: readonly HalfHour[], total: number): string {
  const busiest = halfHours.reduce<HalfHour | undefined>(
    (best, slot) => (best === undefined || slot.total > best.total ? slot : best),
    undefined,
  );
  if (busiest === undefined) return 'No trades.';
  const bullish = halfHours.filter((slot) => slot.bullish > slot.bearish).length;
  const lead = `Busiest half hour: ${busiest.start} with ${formatDollars(busiest.total)}, ${formatPercent(busiest.total / total, 0)} of the day.`;
  return halfHours.length === 1
    ? lead
    : `${lead} Bullish premium outweighed bearish in ${bullish} of ${halfHours.length} half hours.`;
}

/** The leading symbol and the share of those shown in all premium. */
export function describeSymbols(top: readonly SymbolFlow[], symbolCount: number, total: number): string {
  const [first] = top;
  if (first === undefined) return 'No trades.';
  const name = cleanLabel(first.symbol);
  if (symbolCount === 1) return `${name} is the only symbol of the day: ${formatDollars(first.total)}.`;
  const shown = top.reduce((sum, flow) => sum + flow.total, 0);
  const rest = symbolCount > top.length ? ` The ${top.length} largest carry ${formatPercent(shown / total, 0)}.` : '';
  return `${name} leads with ${formatDollars(first.total)}, ${formatPercent(first.total / total, 0)} of all premium.${rest}`;
}
