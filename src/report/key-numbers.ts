/**
 * The key numbers: each number of the date beside the session before and the median of the last sessions, as texts of the
 * mail and as the table in attachments. Pure. The unit decides how a change is shown: dollars and counts as a
 * percentage, net dollars in dollars (a percentage of a number that crosses zero says nothing), shares in percentage
 * points, ratios as a difference.
 */
import { formatDate, formatNearDay } from '../core/date-text.ts';
import { formatCount, formatDecimal, formatDollars, formatPercent, formatSignedDollars, MINUS } from '../core/units.ts';
import type { Amount } from './amount.ts';
import { type Change, FEWEST_IN_MEDIAN, type LevelChange, type LevelName } from './changes.ts';
import type { SymbolExposure } from './exposure-model.ts';
import type { Comparison, FlowReport } from './model.ts';
import { KEY_NUMBERS, type Unit } from './numbers.ts';
import { type AttachedTable, buildTable, type ColumnKind, field, KIND_OF, maybe, shown } from './report-table.ts';
import { formatShortCount, formatSignedPercent, joinWords, NONE } from './text/label.ts';

/** Decimals for values that would look the same with fewer. */
const FINE_DIGITS = 4;
const MILLION = 1e6;

/**
 * The key numbers of the mail; the full report has all. `onPrevious`, `onMedian`: change of the latest against each; `place`:
 * among the sessions before. Empty if there is nothing to compare with.
 */
export function buildChangeRows({ changes }: Pick<Comparison, 'changes'>) {
  return KEY_NUMBERS.flatMap(({ key, mailName: name, unit }) => {
    if (name === null) return [];
    const { latest, previous, median } = changes[key];
    return {
      name,
      // A sum always exists, so null means unknown; a share or ratio may not exist.
      latest: latest === null && !['share', 'ratio'].includes(unit) ? formatDollars(null) : formatReading(latest, unit),
      previous: formatReading(previous, unit),
      median: formatReading(median, unit),
      onPrevious: formatChange(latest, previous, unit),
      onMedian: formatChange(latest, median, unit),
      place: sayPlace(changes[key]),
    };
  });
}

/** Whether there are enough sessions for a median; its column is left out otherwise. */
export function hasMedian({ dates }: Comparison): boolean {
  return dates.length >= FEWEST_IN_MEDIAN;
}

/**
 * Headings of the columns of sessions: `Nov 19`, `Nov 18`, `20-session median`.
 * @param date of the report
 */
export function nameSessions(comparison: Comparison, date: string) {
  const { previousDate, dates } = comparison;
  return {
    latest: formatNearDay(date, date),
    previous: previousDate === null ? 'Previous' : formatNearDay(previousDate, date),
    median: !hasMedian(comparison) ? 'Median' : `${dates.length}-session median`,
    // Short, for a column on a phone.
    medianHead: `Median of ${dates.length}`,
  };
}

/** The change of total premium, for the first screen: `+12% vs Nov 18`, `+6.4% vs 20-session median`. */
export function describeTotalChange(comparison: Comparison, date: string): readonly string[] {
  const { latest, previous, median }: Change = comparison.changes.total;
  const names = nameSessions(comparison, date);
  const { previousDate, degradedDates } = comparison;
  const mark = previousDate !== null && degradedDates.includes(previousDate) ? ' (degraded)' : '';
  const onPrevious = formatChange(latest, previous, 'dollars');
  const onMedian = formatChange(latest, median, 'dollars');
  return [
    ...(onPrevious === '' ? [] : [`${onPrevious} vs ${names.previous}${mark}`]),
    ...(onMedian === '' ? [] : [`${onMedian} vs ${names.median}`]),
  ];
}

/** In the number's own unit. */
export function readChange({ latest, previous }: Change): number | null {
  return latest === null || previous === null ? null : latest - previous;
}

/** Of all that come before the date: `above 17 of 20`, `above all 20`; empty if it cannot be said. */
function sayPlace({ place }: Change): string {
  if (place === null) return '';
  const { above, sessions } = place;
  return above === sessions ? `above all ${sessions}` : `above ${above} of ${sessions}`;
}

/** `−$2.95B`, `−1.2%` of a price, `+0.8 pt`; empty if there is nothing to compare with. */
export function formatLevelChange({ latest, previous, unit }: LevelChange): string {
  if (latest === null || previous === null) return '';
  if (unit === 'price') return previous === 0 ? '' : formatSignedPercent(latest / previous - 1);
  return formatChange(latest, previous, unit === 'dollars' ? 'net' : 'share');
}

/** Absent where no report before has it. */
export function findLevel(
  { levels }: Comparison,
  symbol: string,
  name: LevelName | undefined,
): LevelChange | undefined {
  return levels.find((level) => level.symbol === symbol && level.name === name);
}

/** Dates that a sentence names; of more it says how many. */
const NAMED_DAYS = 4;

function nameDays(dates: readonly string[], date: string): string {
  const named = dates.map((past) => formatNearDay(past, date));
  return dates.length <= NAMED_DAYS ? joinWords(named) : `${dates.length} sessions, ${named.at(-1)} to ${named[0]}`;
}

/** For the first screen: which sessions the comparison lacks, and which of it are degraded. */
export function listPastGaps({ missingDates, degradedDates }: Comparison, date: string): readonly string[] {
  return [
    ...(missingDates.length === 0 ? [] : [`Missing in the comparison: ${nameDays(missingDates, date)}.`]),
    ...(degradedDates.length === 0 ? [] : [`Degraded in the comparison: ${nameDays(degradedDates, date)}.`]),
  ];
}

function formatReading(value: Amount, unit: Unit): string {
  return value === null ? NONE : formatNumber(value, unit);
}

/** Formats a number in its unit, as in the mail. */
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

/** More digits for two values that would look the same: `$1,243.0000M`, short enough for its column. */
export function formatFinely(value: number, unit: Unit): string {
  if (unit === 'share') return formatPercent(value, FINE_DIGITS);
  if (unit === 'ratio') return formatDecimal(value, FINE_DIGITS);
  if (unit === 'count') return formatCount(value);
  const size = Math.abs(value);
  const text = size < MILLION ? formatDecimal(size) : `${formatDecimal(size / MILLION, FINE_DIGITS)}M`;
  return `${value < 0 ? MINUS : ''}$${text}`;
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
  if (Number(value.toFixed(digits)) === 0) return formatDecimal(0, digits);
  return value > 0 ? `+${text}` : text;
}

type NumberKind = Extract<ColumnKind, 'dollars' | 'count' | 'fraction' | 'ratio' | 'price'>;

interface NumberRow extends Change {
  readonly name: string;
  readonly unit: NumberKind;
}

/**
 * The day's key numbers as one table: each beside the session before and the median of the sessions before. The unit has
 * its own column, because a program cannot use a number without one.
 */
export function buildKeyNumberTable(report: FlowReport): AttachedTable {
  const { comparison, drop } = report;
  const { previousDate } = comparison;
  const sessions = hasMedian(comparison) ? comparison.dates.length : 0;
  return buildTable(
    { name: 'key-numbers', title: 'Key numbers', date: drop.date },
    [
      ...KEY_NUMBERS.map(({ key, label, unit }) => {
        const name = unit === 'share' ? `${label} of premium` : label;
        return { name, unit: KIND_OF[unit], ...comparison.changes[key] };
      }),
      ...listOwnNumbers(report),
    ],
    [
      field('Number', 'name', 'text'),
      field(null, 'unit', 'text'),
      maybe(formatDate(drop.date), 'latest', 'measure'),
      maybe(previousDate === null ? 'Session before' : formatDate(previousDate), 'previous', 'measure'),
      shown('Change', 'change', 'change', readChange),
      maybe(sessions === 0 ? 'Median' : `Median of ${sessions} sessions`, 'median', 'measure'),
      shown(null, 'previous_date', 'date', () => previousDate),
      shown(null, 'sessions_above', 'count', ({ place }) => place?.above ?? null),
      shown(null, 'sessions', 'count', ({ place }) => place?.sessions ?? sessions),
    ],
  );
}

/** Numbers of this date that summaries of earlier days do not contain. */
function listOwnNumbers(report: FlowReport): readonly NumberRow[] {
  const { headline, exposure, exclusions, volumeAboveOpenInterest, chainLocation } = report;
  const { cancelMessages, cancelledPrints, lateReports, otherHours, recorded, unmatchedCancels } = exclusions;
  const { overnight, curb } = report.besides;
  const basis = chainLocation === null ? 'traded contracts only' : 'whole chains if known';
  return [
    ofToday('Series where volume is above OI', 'count', volumeAboveOpenInterest.series),
    ofToday('Series that traded', 'count', volumeAboveOpenInterest.ofSeries),
    ofToday(`Net GEX per 1%, ${basis}`, 'dollars', exposure.total.netGex),
    ofToday('Net GEX per 1% after expiration', 'dollars', exposure.total.netGexAfter),
    ofToday(`Call GEX per 1%, ${basis}`, 'dollars', exposure.total.callGex),
    ofToday(`Put GEX per 1%, ${basis}`, 'dollars', exposure.total.putGex),
    ofToday(`Net delta, ${basis}`, 'dollars', exposure.total.netDex),
    ofToday('Net delta after expiration', 'dollars', exposure.total.netDexAfter),
    ...(exposure.lead === null ? [] : listLevels(exposure.lead, report.comparison)),
    ofToday('Records in the file', 'count', recorded.trades),
    ofToday('Left out: cancel messages', 'count', cancelMessages.trades),
    ofToday('Left out: cancelled prints', 'count', cancelledPrints.trades),
    ofToday('Left out: premium of cancelled prints', 'dollars', cancelledPrints.premium),
    ofToday('Cancel messages without a print', 'count', unmatchedCancels),
    ofToday('Left out: late reports', 'count', lateReports.trades),
    ofToday('Left out: premium of late reports', 'dollars', lateReports.premium),
    ofToday('Left out: overnight and curb', 'count', otherHours.trades),
    ofToday('Overnight premium', 'dollars', overnight.premium),
    ofToday('Curb premium', 'dollars', curb.premium),
    ofToday('Left out of premium: no premium', 'count', headline.unpriced),
    ofToday('Left out of contracts: no size', 'count', headline.unsized),
    ...exclusions.unknownCodes.map(({ column, trades }) => ofToday(`Unknown ${column}`, 'count', trades)),
  ];
}

function listLevels(lead: SymbolExposure, comparison: Comparison): readonly NumberRow[] {
  const of = (level: string, value: number | null, compared?: LevelName) => {
    const row = ofToday(`${lead.symbol} ${level}`, 'price', value);
    const found = findLevel(comparison, lead.symbol, compared);
    if (found === undefined) return row;
    const { previous, median, place } = found;
    return { ...row, previous, median, place };
  };
  return [
    of('spot', lead.spot, 'spot'),
    of('zero gamma', lead.zeroGamma, 'zero_gamma'),
    of('call wall', lead.callWall, 'call_wall'),
    of('put wall', lead.putWall, 'put_wall'),
    of('absolute-gamma strike', lead.absoluteGammaStrike),
    of('zero gamma after expiration', lead.zeroGammaAfter),
    of('call wall after expiration', lead.callWallAfter),
    of('put wall after expiration', lead.putWallAfter),
  ];
}

function ofToday(name: string, unit: NumberKind, latest: number | null): NumberRow {
  return { name, unit, latest, previous: null, median: null, place: null };
}
