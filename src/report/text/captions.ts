/** The finding of a chart or table in a sentence: its caption, and the text for readers who cannot see it. Pure. */

import { formatNearDay } from '../../core/date-text.ts';
import { formatCount, formatDollars } from '../../core/units.ts';
import { type Amount, clearLeanOf, leanOf, shareOf } from '../amount.ts';
import type { Earnings, HalfHour, SymbolFlow, VolumeAboveOpenInterest } from '../model.ts';
import { cleanLabel, formatPart, nameSymbol } from './label.ts';
import { describeLean } from './subject.ts';

const UNKNOWN = 'The premium cannot be computed.';

/** Describes the busiest half hour, and how often bullish premium outweighed bearish. */
export function describeSession(halfHours: readonly HalfHour[], total: Amount): string {
  const busiest = pickLargest(halfHours);
  if (busiest === undefined) return halfHours.length === 0 ? 'No trades.' : UNKNOWN;
  const bullish = halfHours.filter((slot) => (leanOf(slot) ?? 0) > 0).length;
  const share = total !== null && total > 0 ? `, ${formatPart(shareOf(busiest.total, total))} of the day` : '';
  const lead = `Busiest half hour: ${cleanLabel(busiest.start)} with ${formatDollars(busiest.total)}${share}.`;
  if (halfHours.length === 1) return lead;
  const balance = `Bullish premium outweighed bearish in ${bullish} of ${halfHours.length} half hours.`;
  return [lead, ...sayMostOneSided(halfHours, busiest), balance].join(' ');
}

/** The half hour with at least half of the day's difference between bullish and bearish, unless it is the busiest. */
function sayMostOneSided(halfHours: readonly HalfHour[], busiest: HalfHour): readonly string[] {
  const leans = halfHours.map((slot) => ({ slot, lean: leanOf(slot) ?? 0 }));
  const [most] = leans.toSorted((a, b) => Math.abs(b.lean) - Math.abs(a.lean));
  const day = leans.reduce((sum, { lean }) => sum + lean, 0);
  if (most === undefined || most.slot === busiest || Math.abs(most.lean) < Math.abs(day) / 2) return [];
  if (clearLeanOf(most.slot) === 0) return [];
  return [`Most one-sided: ${cleanLabel(most.slot.start)}, ${describeLean(most.slot)}.`];
}

/** Describes the leading symbol and the share of the shown symbols in total premium. */
export function describeSymbols(top: readonly SymbolFlow[], symbolCount: number, total: Amount): string {
  const [first] = top;
  if (first === undefined) return 'No trades.';
  const name = nameSymbol(first.symbol);
  if (symbolCount === 1) return `${name} is the only symbol in this report: ${formatDollars(first.total)}.`;
  if (total === null || first.total === null) return UNKNOWN;
  if (total <= 0) return `${formatCount(symbolCount)} symbols traded, without premium.`;
  const shown = top.reduce((sum, flow) => sum + (flow.total ?? 0), 0);
  const rest = symbolCount > top.length ? ` The ${top.length} largest carry ${formatPart(shown / total)}.` : '';
  return `${name} leads with ${formatDollars(first.total)}, ${formatPart(first.total / total)} of all premium.${rest}`;
}

/** `Earnings within ten days: TSLA Nov 25, NVDA Dec 1.`; empty without any. */
export function describeEarnings(earnings: readonly Earnings[], date: string): string {
  if (earnings.length === 0) return '';
  const named = earnings.map(({ symbol, day }) => `${nameSymbol(symbol)} ${formatNearDay(day, date)}`);
  return `Earnings within ten days: ${named.join(', ')}.`;
}

/** Describes the largest part of a day: `0DTE: 38% of premium, the largest part.` */
export function describeParts(
  parts: readonly { readonly title: string; readonly total: Amount }[],
  total: Amount,
): string {
  const largest = pickLargest(parts);
  if (total === null) return UNKNOWN;
  if (largest === undefined || total <= 0) return 'No premium.';
  return `${largest.title}: ${formatPart(shareOf(largest.total, total))} of premium, the largest part.`;
}

/** Describes the series that traded more than their open interest. */
export function describeVolumeAboveOpenInterest(above: VolumeAboveOpenInterest, total: Amount): string {
  const { series, ofSeries, unknownSeries, premium } = above;
  const unknown =
    unknownSeries === 0 ? '' : ` For ${formatCount(unknownSeries)} series, volume or open interest is unknown.`;
  if (series === 0) return `No series traded more than its open interest.${unknown}`;
  const share = total !== null && total > 0 ? `, ${formatPart(shareOf(premium, total))} of premium` : '';
  return `${formatCount(series)} of ${formatCount(ofSeries)} series traded more than their open interest: ${formatDollars(premium)}${share}.${unknown}`;
}

/** `undefined` if no part is known. */
function pickLargest<Part extends { readonly total: Amount }>(parts: readonly Part[]): Part | undefined {
  return parts.reduce<Part | undefined>(
    (best, part) => (part.total !== null && (best === undefined || part.total > (best.total ?? 0)) ? part : best),
    undefined,
  );
}
