/**
 * A number of the date beside the session before and the mean of the last sessions, as texts. Pure. A change is said in
 * the unit in which the number is read: dollars as a share of what they were, net dollars as dollars (a share of a
 * number that crosses zero says nothing), shares in points, ratios as they are.
 */
import { formatDecimal, formatDollars, formatPercent, formatSignedDollars } from '../../core/units.ts';
import type { Change, Compared, Comparison } from '../model.ts';
import { formatPastDay, formatShortCount, formatSignedPercent, joinWords } from './label.ts';

/** Shown where there is no number. */
export const NONE = '–';

type Unit = 'dollars' | 'net' | 'share' | 'ratio' | 'count';

const SUMS: readonly Unit[] = ['dollars', 'net', 'count'];

interface Reading {
  readonly key: Compared;
  readonly name: string;
  readonly unit: Unit;
}

/** The rows of the key numbers, in the order shown. */
const READINGS: readonly Reading[] = [
  { key: 'total', name: 'Premium', unit: 'dollars' },
  { key: 'calls', name: 'Calls', unit: 'dollars' },
  { key: 'puts', name: 'Puts', unit: 'dollars' },
  { key: 'callShare', name: 'Call share', unit: 'share' },
  { key: 'putShare', name: 'Put share', unit: 'share' },
  { key: 'netCalls', name: 'Net call premium', unit: 'net' },
  { key: 'netPuts', name: 'Net put premium', unit: 'net' },
  { key: 'bullish', name: 'Bullish', unit: 'dollars' },
  { key: 'neutral', name: 'Neutral', unit: 'dollars' },
  { key: 'bearish', name: 'Bearish', unit: 'dollars' },
  { key: 'putCallByPremium', name: 'Put/call, premium', unit: 'ratio' },
  { key: 'putCallByVolume', name: 'Put/call, volume', unit: 'ratio' },
  { key: 'zeroDteShare', name: '0DTE share', unit: 'share' },
  { key: 'multiLegShare', name: 'Multi-leg share', unit: 'share' },
  { key: 'sweepShare', name: 'Sweep share', unit: 'share' },
  { key: 'volumeAboveOpenInterest', name: 'Volume above OI', unit: 'dollars' },
  { key: 'trades', name: 'Trades', unit: 'count' },
  { key: 'contracts', name: 'Contracts', unit: 'count' },
];

export interface ChangeRow {
  readonly name: string;
  readonly latest: string;
  readonly previous: string;
  readonly mean: string;
  /** Latest against each; empty when there is nothing to compare with. */
  readonly onPrevious: string;
  readonly onMean: string;
}

export function buildChangeRows(comparison: Comparison): readonly ChangeRow[] {
  return READINGS.map(({ key, name, unit }) => {
    const { latest, previous, mean } = comparison.changes[key];
    return {
      name,
      // A sum always is; a share or ratio may have nothing to be of.
      latest: latest === null && SUMS.includes(unit) ? formatDollars(null) : formatReading(latest, unit),
      previous: formatReading(previous, unit),
      mean: formatReading(mean, unit),
      onPrevious: formatChange(latest, previous, unit),
      onMean: formatChange(latest, mean, unit),
    };
  });
}

/**
 * Names of the two columns of the past: `18 Nov`, `5-session mean`.
 * @param date of the report
 */
export function nameSessions(
  comparison: Comparison,
  date: string,
): {
  readonly previous: string;
  readonly mean: string;
} {
  const { previousDate, meanDates } = comparison;
  return {
    previous: previousDate === null ? 'Previous' : formatPastDay(previousDate, date),
    mean: meanDates.length === 0 ? 'Mean' : `${meanDates.length}-session mean`,
  };
}

/** The total's change, for the first screen: `+12 % vs 18 Nov`, `+6.4 % vs 5-session mean`. */
export function describeTotalChange(comparison: Comparison, date: string): readonly string[] {
  const { latest, previous, mean }: Change = comparison.changes.total;
  const names = nameSessions(comparison, date);
  const { previousDate, degradedDates } = comparison;
  const mark = previousDate !== null && degradedDates.includes(previousDate) ? ' (degraded)' : '';
  const onPrevious = formatChange(latest, previous, 'dollars');
  const onMean = formatChange(latest, mean, 'dollars');
  return [
    ...(onPrevious === '' ? [] : [`${onPrevious} vs ${names.previous}${mark}`]),
    // The mean of one session is that session.
    ...(onMean === '' || comparison.meanDates.length < 2 ? [] : [`${onMean} vs ${names.mean}`]),
  ];
}

/** What is known against the past numbers; empty when nothing is. */
export function describePast({ degradedDates }: Comparison, date: string): string {
  if (degradedDates.length === 0) return '';
  return `Degraded, so perhaps without some of its trades: ${joinWords(degradedDates.map((past) => formatPastDay(past, date)))}.`;
}

function formatReading(value: number | null, unit: Unit): string {
  if (value === null) return NONE;
  switch (unit) {
    case 'dollars':
      return formatDollars(value);
    case 'net':
      return formatSignedDollars(value);
    case 'share':
      return formatPercent(value);
    case 'ratio':
      return formatDecimal(value);
    case 'count':
      return formatShortCount(value);
    default:
      return unit satisfies never;
  }
}

function formatChange(latest: number | null, before: number | null, unit: Unit): string {
  if (latest === null || before === null) return '';
  switch (unit) {
    case 'dollars':
    case 'count':
      return before === 0 ? '' : formatSignedPercent(latest / before - 1);
    case 'net':
      return formatSignedDollars(latest - before);
    case 'share':
      return `${formatSigned((latest - before) * 100, 1)} pt`;
    case 'ratio':
      return formatSigned(latest - before, 2);
    default:
      return unit satisfies never;
  }
}

function formatSigned(value: number, digits: number): string {
  const text = formatDecimal(value, digits);
  if (Number(text) === 0) return formatDecimal(0, digits);
  return value > 0 ? `+${text}` : text;
}
