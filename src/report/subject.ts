/**
 * Subject and preview line: what a reader sees before opening. Invariant: ASCII on one line, and only what the data
 * says; no text of a trade record gets here.
 */
import { formatCount, formatDollars, formatPercent } from '../core/units.ts';
import type { FlowReport } from './flow.ts';
import type { Premium } from './premium.ts';

/** `Options flow 2026-11-19: $1.24B premium, 62 % calls, bullish +$120M`. */
export function buildSubject(report: FlowReport): string {
  const { headline, drop } = report;
  const degraded = drop.condition === 'degraded' ? ' [degraded]' : '';
  const says =
    headline.trades === 0
      ? 'no trades'
      : `${formatDollars(headline.total)} premium, ${formatPercent(headline.calls / headline.total, 0)} calls, ${describeLean(headline)}`;
  return toAscii(`Options flow ${drop.date}${degraded}: ${says}`);
}

/** The line that mail programs show behind the subject. */
export function buildPreview(report: FlowReport): string {
  const { headline } = report;
  if (headline.trades === 0) return 'The sealed drop of this date holds no trades.';
  return [
    `${formatCount(headline.trades)} trades`,
    `bullish ${formatDollars(headline.bullish)}`,
    `bearish ${formatDollars(headline.bearish)}`,
    `neutral ${formatDollars(headline.neutral)}`,
  ].join(', ');
}

/** Which of bullish and bearish premium is larger, and by how much: `bullish +$120M`. */
export function describeLean(premium: Premium): string {
  const lean = premium.bullish - premium.bearish;
  if (lean === 0) return 'balanced';
  return lean > 0 ? `bullish +${formatDollars(lean)}` : `bearish +${formatDollars(-lean)}`;
}

function toAscii(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, '');
}
