/**
 * The numbers of a report that conditions ask about and corrections compare: how each is read, written, and judged to
 * have changed. Pure. A table of data with its few functions.
 */

import { formatCount, formatDecimal, formatDollars, formatPercent, formatSignedDollars } from '../core/units.ts';
import type { ReportNumber } from '../job/job.ts';
import type { Amount } from '../report/amount.ts';
import type { FlowReport } from '../report/model.ts';

interface NumberKind {
  /** For readers of a correction. */
  readonly label: string;
  /** Null when it is not known, which is never 0. */
  read(report: FlowReport): Amount;
  /** What it is made of. One that is null cannot be computed, and the number neither; otherwise a null says that there is none. */
  parts(report: FlowReport): readonly Amount[];
  format(value: number): string;
  /** With more digits, for two values that read the same without. */
  formatFinely(value: number): string;
  /**
   * Size against which a change is judged. A net of large sums, or a share, may change by a multiple of itself and mean
   * nothing. Null: it compares with other days, and its change is no correction of this one.
   */
  scale(before: FlowReport, after: FlowReport): number | null;
}

/** Decimals of what would read the same before and after. */
const FINE_DIGITS = 4;
const MILLION = 1e6;

const premiumOf = ({ headline }: FlowReport) => headline.total;
const grossGex = ({ exposure }: FlowReport) =>
  Math.abs(exposure.total.callGex ?? 0) + Math.abs(exposure.total.putGex ?? 0);
const divide = (part: Amount, whole: Amount) => (part === null || whole === null || whole === 0 ? null : part / whole);
const larger = (read: (report: FlowReport) => Amount) => (before: FlowReport, after: FlowReport) =>
  Math.max(Math.abs(read(before) ?? 0), Math.abs(read(after) ?? 0));

const dollars = (label: string, read: (report: FlowReport) => Amount): NumberKind => ({
  parts: (report) => [read(report)],
  ...{ label, read, format: formatDollars, formatFinely: formatFineDollars, scale: larger(read) },
});
const net = (label: string, read: (report: FlowReport) => Amount): NumberKind => ({
  parts: (report) => [read(report)],
  ...{ label, read, format: formatSignedDollars, formatFinely: formatFineDollars, scale: larger(premiumOf) },
});
const share = (label: string, read: (report: FlowReport) => Amount): NumberKind => ({
  label,
  parts: (report) => [read(report), premiumOf(report)],
  read: (report) => divide(read(report), premiumOf(report)),
  format: formatPercent,
  formatFinely: (value) => formatPercent(value, FINE_DIGITS),
  scale: () => 1,
});
const ratio = (
  label: string,
  read: (report: FlowReport) => Amount,
  parts: (report: FlowReport) => readonly Amount[],
): NumberKind => ({
  ...{ label, read, parts, format: formatDecimal, scale: larger(read) },
  formatFinely: (value) => formatDecimal(value, FINE_DIGITS),
});

const premiumOnly = (report: FlowReport) => [premiumOf(report)];

const NUMBERS: Readonly<Record<ReportNumber, NumberKind>> = {
  premium: dollars('Premium', premiumOf),
  call_premium: dollars('Call premium', ({ headline }) => headline.calls),
  put_premium: dollars('Put premium', ({ headline }) => headline.puts),
  net_call_premium: net('Net call premium', ({ headline }) => headline.netCalls),
  net_put_premium: net('Net put premium', ({ headline }) => headline.netPuts),
  bullish_share: share('Bullish share', ({ headline }) => headline.bullish),
  bearish_share: share('Bearish share', ({ headline }) => headline.bearish),
  neutral_share: share('Neutral share', ({ headline }) => headline.neutral),
  put_call_by_premium: ratio(
    'Put/call by premium',
    ({ headline }) => headline.putCallByPremium,
    ({ headline }) => [headline.puts, headline.calls],
  ),
  put_call_by_volume: ratio(
    'Put/call by volume',
    ({ headline }) => headline.putCallByVolume,
    ({ headline }) => [headline.putContracts, headline.callContracts],
  ),
  zero_dte_share: share('0DTE share', ({ headline }) => headline.zeroDte),
  multi_leg_share: share('Multi-leg share', ({ headline }) => headline.multiLeg),
  sweep_share: share('Sweep share', ({ headline }) => headline.sweep),
  net_gex: {
    label: 'Net GEX',
    // Sums over no contract are 0 and mean nothing.
    read: ({ exposure }) => (exposure.total.contracts === 0 ? null : exposure.total.netGex),
    parts: ({ exposure }) => [exposure.total.netGex],
    ...{ format: formatSignedDollars, formatFinely: formatFineDollars },
    scale: larger(grossGex),
  },
  unusual_symbols: {
    ...{ label: 'Unusual symbols', format: formatCount, formatFinely: formatCount },
    read: ({ unusual }) => unusual.length,
    // A symbol whose premium is not known may be one.
    parts: premiumOnly,
    scale: () => null,
  },
  premium_change: {
    ...{ label: 'Change of premium', format: formatPercent, formatFinely: formatPercent },
    read({ comparison }) {
      const { latest, previous } = comparison.changes.total;
      return latest === null || previous === null ? null : divide(latest - previous, previous);
    },
    parts: premiumOnly,
    scale: () => null,
  },
};

export function readReportNumber(report: FlowReport, number: ReportNumber): number | null {
  return NUMBERS[number].read(report);
}

/** Whether the records of the day do not give the number, although it would be one: they lack values, or a sum overflows. */
export function isUncomputable(report: FlowReport, number: ReportNumber): boolean {
  return NUMBERS[number].parts(report).includes(null);
}

/** A number as people read it, `unknown` when it is not known. */
export function formatReportNumber(number: ReportNumber, value: number | null): string {
  return value === null ? 'unknown' : NUMBERS[number].format(value);
}

export interface ChangedNumber {
  /** For readers. */
  readonly name: string;
  readonly before: string;
  readonly after: string;
}

/**
 * What a restatement changed of the numbers.
 * @param threshold fraction of a number's scale; a change of exactly that much is none
 */
export function listChanges(before: FlowReport, after: FlowReport, threshold: number): readonly ChangedNumber[] {
  const names = Object.keys(NUMBERS) as ReportNumber[]; // The keys of the table are the type's.
  return names
    .filter((name) => isChanged(NUMBERS[name], before, after, threshold))
    .map((name) => describeChange(name, readReportNumber(before, name), readReportNumber(after, name)));
}

/** `0.30` and `0.30` is no correction: such a pair is told with the digits in which it differs. */
function describeChange(name: ReportNumber, before: number | null, after: number | null): ChangedNumber {
  const { label, formatFinely } = NUMBERS[name];
  const texts = { before: formatReportNumber(name, before), after: formatReportNumber(name, after) };
  if (texts.before !== texts.after || before === null || after === null) return { name: label, ...texts };
  return { name: label, before: formatFinely(before), after: formatFinely(after) };
}

/** `$1,243.0000M`: short enough for its column. */
function formatFineDollars(value: number): string {
  const size = Math.abs(value);
  const text = size < MILLION ? formatDecimal(size) : `${formatDecimal(size / MILLION, FINE_DIGITS)}M`;
  return `${value < 0 ? '-' : ''}$${text}`;
}

function isChanged(kind: NumberKind, before: FlowReport, after: FlowReport, threshold: number): boolean {
  const scale = kind.scale(before, after);
  if (scale === null) return false;
  const [a, b] = [kind.read(before), kind.read(after)];
  if (a === null || b === null) return a !== b;
  return Math.abs(b - a) > threshold * scale;
}
