/**
 * Subject and preview line, which a reader sees before opening the mail. Invariant: the subject is one line of ASCII,
 * and no text of a trade record gets here.
 */

import { formatDay } from '../../core/date-text.ts';
import { countOf, formatCount, formatDollars } from '../../core/units.ts';
import { clearLeanOf, shareOf } from '../amount.ts';
import type { FlowReport, UnknownCodes } from '../model.ts';
import type { Premium } from '../numbers.ts';
import { cleanCode, cleanLine, formatPart, isSameDollars, joinWords, nameSymbol } from './label.ts';

/** Facts about the delivery, shown in the subject because they change how to read the numbers. */
export interface Occasion {
  readonly late: boolean;
  readonly corrected: boolean;
}

/**
 * `Flow 2026-11-19: $1.24B premium, 62% calls, bullish by $120M`, with marks such as `[late]` if they apply: a phone shows some
 * thirty characters.
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
  const lead = occasion.corrected ? 'Correction: flow' : report.week ? 'Flow, week to' : 'Flow';
  return toAscii(`${[lead, drop.date, ...marks].join(' ')}: ${says}`);
}

/** What a reader must know before the numbers: that they are of a part of the market, or of an incomplete day. */
function listMarks({ filter, condition, doubts }: FlowReport['drop']): readonly string[] {
  return [
    ...(filter === undefined ? [] : ['[filtered]']),
    ...(condition === 'degraded' ? ['[degraded]'] : doubts?.length ? ['[check]'] : []),
  ];
}

/** Datasets of a digest whose premium its subject has. */
const MAX_NAMED = 3;

/** `Flow digest 2026-11-19: 3 datasets, trades $1.24B, index $262M, 1 pending`. */
export function buildDigestSubject(
  date: string,
  reports: readonly FlowReport[],
  pending: number,
  { late, corrected }: Occasion,
): string {
  const marks = new Set(reports.flatMap(({ drop }) => listMarks(drop)));
  const mark = ['[degraded]', '[check]'].find((one) => marks.has(one));
  const says = [
    countOf(reports.length + pending, 'dataset'),
    // Datasets may overlap, so their premium is not added.
    ...(reports.length > MAX_NAMED ? [] : reports.map(nameDigestPart)),
    ...(pending > 0 ? [`${pending} pending`] : []),
  ];
  const lead = corrected ? 'Correction: flow digest' : 'Flow digest';
  return toAscii(`${lead} ${date}${mark === undefined ? '' : ` ${mark}`}${late ? ' [late]' : ''}: ${says.join(', ')}`);
}

function nameDigestPart({ drop, headline }: FlowReport): string {
  const premium = headline.total === null ? 'premium cannot be computed' : formatDollars(headline.total);
  return `${drop.dataset} ${premium}`;
}

/** `$1.24B premium, 62% calls, bullish by $120M`; if a number cannot be computed, says so with the reason. */
function describeHeadline(headline: Premium): string {
  if (headline.total === null) return describeTotal(headline);
  const parts = [describeTotal(headline, ' premium'), describeCalls(headline), describeLean(headline)];
  return parts.filter((part) => part !== '').join(', ');
}

/** With the reason if trades are without a premium. */
function describeTotal(headline: Premium, noun = ''): string {
  const gap = describeGap(headline);
  const sum = headline.total === null ? 'premium cannot be computed' : `${formatDollars(headline.total)}${noun}`;
  return gap === '' ? sum : `${sum} (${gap})`;
}

/**
 * Which of bullish and bearish premium is larger, and by how much: `bullish by $120M`; `balanced` if that is noise; `no direction
 * known` if there is neither.
 */
export function describeLean(premium: Pick<Premium, 'bullish' | 'bearish'>): string {
  const lean = clearLeanOf(premium);
  if (lean === null) return 'sentiment cannot be computed';
  if (premium.bullish === 0 && premium.bearish === 0) return 'no direction known';
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

/** How each is read; of a digest's datasets, one after the other. */
const PLACEHOLDERS: Readonly<Record<string, (report: FlowReport) => string>> = {
  date: ({ drop }) => drop.date,
  day: ({ drop }) => formatDay(drop.date),
  job: ({ job }) => job,
  dataset: ({ drop }) => drop.dataset,
  revision: ({ drop }) => String(drop.revision),
  premium: ({ headline }) => (headline.trades === 0 ? 'no trades' : describeTotal(headline)),
  sentiment: ({ headline }) => (headline.trades === 0 ? 'no trades' : describeLean(headline)),
  trades: ({ headline }) => formatCount(headline.trades),
};

/** Facts of the report as a whole: a digest has one date, and names no dataset beside it. */
const SHARED: readonly string[] = ['date', 'day', 'job', 'dataset'];

export const PLACEHOLDER_NAMES: readonly string[] = Object.keys(PLACEHOLDERS);

const PLACEHOLDER = /\{([^{}]*)\}/g;

/** Names in braces that are no placeholder. */
export function listUnknownPlaceholders(words: string): readonly string[] {
  const names = [...words.matchAll(PLACEHOLDER)].map(([, name = '']) => name);
  return names.filter((name) => !Object.hasOwn(PLACEHOLDERS, name));
}

/** @param reports at least one, unless every dataset of a digest is pending: then numbers read `pending` */
export function fillWords(words: string, reports: readonly FlowReport[], date: string): string {
  const filled = words.replace(PLACEHOLDER, (whole, name: string) => {
    const read = PLACEHOLDERS[name];
    if (read === undefined) return whole;
    if (name === 'date') return date;
    if (name === 'day') return formatDay(date);
    const values = reports.map((report) => (SHARED.includes(name) ? read(report) : nameValue(reports, report, read)));
    return values.length === 0 ? 'pending' : [...new Set(values)].join(', ');
  });
  return cleanLine(filled);
}

/** The own subject, on one line, behind its marks. */
export function buildOwnSubject(
  words: string,
  reports: readonly FlowReport[],
  { date, pending, occasion }: { readonly date: string; readonly pending: number; readonly occasion: Occasion },
): string {
  const marks = [
    ...(occasion.corrected ? ['Correction:'] : []),
    ...new Set(reports.flatMap(({ drop }) => listMarks(drop))),
    ...(occasion.late ? ['[late]'] : []),
    ...(pending > 0 ? [`[${pending} pending]`] : []),
  ];
  return [...marks, fillWords(words, reports, date)].join(' ');
}

function nameValue(reports: readonly FlowReport[], report: FlowReport, read: (report: FlowReport) => string): string {
  return reports.length < 2 ? read(report) : `${report.drop.dataset} ${read(report)}`;
}
