/**
 * A number of the date beside the session before and the mean of the last sessions, as texts. Pure. A change is said in
 * the unit in which the number is read: dollars as a share of what they were, net dollars as dollars (a share of a
 * number that crosses zero says nothing), shares in points, ratios as they are.
 */
import { formatCount, formatDecimal, formatDollars, formatPercent, formatSignedDollars } from '../../core/units.ts';
import type { Amount } from '../amount.ts';
import type { Change, Comparison } from '../model.ts';
import { KEY_NUMBERS, type Unit } from '../numbers.ts';
import { formatPastDay, formatShortCount, formatSignedPercent, joinWords, NONE } from './label.ts';

/** Decimals of what would read the same with fewer. */
const FINE_DIGITS = 4;
const MILLION = 1e6;

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
  return KEY_NUMBERS.toSorted((a, b) => a.mail[0] - b.mail[0]).map(({ key, mail: [, name], unit }) => {
    const { latest, previous, mean } = comparison.changes[key];
    return {
      name,
      // A sum always is; a share or ratio may have nothing to be of.
      latest: latest === null && !['share', 'ratio'].includes(unit) ? formatDollars(null) : formatReading(latest, unit),
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

function formatReading(value: Amount, unit: Unit): string {
  return value === null ? NONE : formatNumber(value, unit);
}

/** A number in its unit, as the mail has it. */
export function formatNumber(value: Amount, unit: Unit): string {
  if (value === null) return 'unknown';
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

/** With more digits, for two values that read the same without: `$1,243.0000M`, short enough for its column. */
export function formatFinely(value: number, unit: Unit): string {
  if (unit === 'share') return formatPercent(value, FINE_DIGITS);
  if (unit === 'ratio') return formatDecimal(value, FINE_DIGITS);
  if (unit === 'count') return formatCount(value);
  const size = Math.abs(value);
  const text = size < MILLION ? formatDecimal(size) : `${formatDecimal(size / MILLION, FINE_DIGITS)}M`;
  return `${value < 0 ? '-' : ''}$${text}`;
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
