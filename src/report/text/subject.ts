/**
 * Subject and preview line, which a reader sees before opening the mail. Invariant: the subject is one line of ASCII,
 * and no text of a trade record gets here.
 */

import { formatCount, formatDollars } from '../../core/units.ts';
import { clearLeanOf, shareOf } from '../amount.ts';
import type { FlowReport } from '../model.ts';
import type { Premium } from '../numbers.ts';
import { countOf, formatPart, isSameDollars } from './label.ts';
import { describeGap } from './lacking.ts';

/** Facts about the delivery, shown in the subject because they change how to read the numbers. */
export interface Occasion {
  readonly late: boolean;
  readonly corrected: boolean;
}

/**
 * `Options flow 2026-11-19: $1.24B premium, 62% calls, bullish by $120M`, with marks such as `[late]` if they apply.
 */
export function buildSubject(report: FlowReport, occasion: Occasion): string {
  const { headline, drop, exclusions } = report;
  const marks = [...listMarks(drop), ...(occasion.late ? ['[late]'] : [])];
  const says =
    headline.trades === 0
      ? exclusions.recorded.trades === 0
        ? 'no trades'
        : 'no trade that counts'
      : describeHeadline(headline);
  const lead = occasion.corrected ? 'Correction: options flow' : 'Options flow';
  return toAscii(`${[lead, drop.date, ...marks].join(' ')}: ${says}`);
}

/** What a reader must know before the numbers: that they are of a part of the market, or of an incomplete day. */
export function listMarks({ filter, condition }: FlowReport['drop']): readonly string[] {
  return [...(filter === undefined ? [] : ['[filtered]']), ...(condition === 'degraded' ? ['[degraded]'] : [])];
}

/** Datasets of a digest whose premium its subject has. */
const MAX_NAMED = 3;

/** `Options flow digest 2026-11-19: 3 datasets, trades $1.24B, index $262M, 1 pending`. */
export function buildDigestSubject(
  date: string,
  reports: readonly FlowReport[],
  pending: number,
  { late, corrected }: Occasion,
): string {
  const degraded = reports.some((report) => report.drop.condition === 'degraded') ? ' [degraded]' : '';
  const says = [
    countOf(reports.length + pending, 'dataset'),
    // Datasets may overlap, so their premium is not added.
    ...(reports.length > MAX_NAMED ? [] : reports.map(nameDigestPart)),
    ...(pending > 0 ? [`${pending} pending`] : []),
  ];
  const lead = corrected ? 'Correction: options flow digest' : 'Options flow digest';
  return toAscii(`${lead} ${date}${degraded}${late ? ' [late]' : ''}: ${says.join(', ')}`);
}

function nameDigestPart({ drop, headline }: FlowReport): string {
  const premium = headline.total === null ? 'premium cannot be computed' : formatDollars(headline.total);
  return `${drop.dataset} ${premium}`;
}

/** The line that mail programs show after the subject. */
export function buildPreview(report: FlowReport): string {
  const { headline, exclusions } = report;
  const { trades } = exclusions.recorded;
  if (headline.trades === 0) {
    return trades === 0
      ? 'The sealed drop of this date holds no trades.'
      : `None of the ${countOf(trades, 'record')} of this date counts.`;
  }
  const gap = describeGap(headline);
  return [
    `${formatCount(headline.trades)} trades`,
    ...(gap === '' ? [] : [gap]),
    `bullish ${formatDollars(headline.bullish)}`,
    `bearish ${formatDollars(headline.bearish)}`,
    `neutral ${formatDollars(headline.neutral)}`,
  ].join(', ');
}

/** `$1.24B premium, 62% calls, bullish by $120M`; if a number cannot be computed, says so with the reason. */
function describeHeadline(headline: Premium): string {
  const gap = describeGap(headline);
  if (headline.total === null) return `premium cannot be computed (${gap})`;
  const without = gap === '' ? '' : ` (${gap})`;
  const parts = [`${formatDollars(headline.total)} premium${without}`, describeCalls(headline), describeLean(headline)];
  return parts.filter((part) => part !== '').join(', ');
}

/** Which of bullish and bearish premium is larger, and by how much: `bullish by $120M`; `balanced` if that is noise. */
export function describeLean(premium: Premium): string {
  const lean = clearLeanOf(premium);
  if (lean === null) return 'sentiment cannot be computed';
  if (isSameDollars(lean, 0)) return 'balanced';
  return lean > 0 ? `bullish by ${formatDollars(lean)}` : `bearish by ${formatDollars(-lean)}`;
}

/** `59% calls`; empty if there is no premium. */
export function describeCalls({ calls, total }: Premium): string {
  return total !== null && total > 0 ? `${formatPart(shareOf(calls, total))} calls` : '';
}

function toAscii(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, '');
}
