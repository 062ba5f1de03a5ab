/**
 * Subject and title in a job's own words, with placeholders for facts of the day. Pure. Invariant: an own subject hides
 * nothing: what its readers must know before the numbers (a correction, a part of the market, an incomplete or a late day,
 * datasets without numbers) stands before it as a mark.
 */
import { formatDay } from '../../core/date-text.ts';
import { formatCount, formatDollars } from '../../core/units.ts';
import type { FlowReport } from '../model.ts';
import { cleanLine } from './label.ts';
import { describeGap } from './lacking.ts';
import { describeLean, listMarks, type Occasion } from './subject.ts';

/** How each is read; of a digest's datasets, one after the other. */
const PLACEHOLDERS: Readonly<Record<string, (report: FlowReport) => string>> = {
  date: ({ drop }) => drop.date,
  day: ({ drop }) => formatDay(drop.date),
  job: ({ job }) => job,
  dataset: ({ drop }) => drop.dataset,
  revision: ({ drop }) => String(drop.revision),
  premium: describePremium,
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

/** With the reason if trades are without a premium. */
function describePremium({ headline }: FlowReport): string {
  if (headline.trades === 0) return 'no trades';
  const gap = describeGap(headline);
  const premium = headline.total === null ? 'premium cannot be computed' : formatDollars(headline.total);
  return gap === '' ? premium : `${premium} (${gap})`;
}
