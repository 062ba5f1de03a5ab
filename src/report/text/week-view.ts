/** What a mail says of a week in place of a day: totals, an average session beside the weeks before, and each day with its state. Pure. */
import { mondayOf } from '../../calendar/wall-clock.ts';
import { formatDate, formatNearDay, formatWeekDate } from '../../core/date-text.ts';
import { countOf, formatCount, formatDollars, formatSignedDollars } from '../../core/units.ts';
import { divide, leanOf, shareOf } from '../amount.ts';
import { buildChangeRows } from '../key-numbers.ts';
import type { FlowReport } from '../model.ts';
import { DAY_STATES, isWarned, type Week, type WeekDay, type WeekExpired } from '../week-model.ts';
import { cleanLine, formatPart, formatRatio, joinWords, NONE, nameContract, nameSymbol } from './label.ts';
import { sayFilter } from './sentences.ts';

/** The report with the sums and the state of its week, for texts that read a day's. */
export function asWeek(report: FlowReport, { sums, days }: Week): FlowReport {
  const { drop, headline } = report;
  const warned = days.filter(isWarned);
  const isWhole = warned.every(({ state }) => state === 'unusual');
  return {
    ...report,
    drop: {
      ...drop,
      condition: isWhole ? 'available' : 'degraded',
      doubts: warned.map((day) => `${nameDay(day)}: ${sayState(day)}`),
    },
    headline: {
      ...{ ...headline, ...sums, trades: sums.trades ?? 0, unpriced: 0, unsized: 0 },
      putCallByPremium: divide(sums.puts, sums.calls),
    },
  };
}

/** `Fri, Nov 20`. */
function nameDay({ date }: Pick<WeekDay, 'date'>): string {
  return formatWeekDate(date).replace(/, \d{4}$/, '');
}

function sayState({ state, reason }: WeekDay): string {
  return [DAY_STATES[state].toLowerCase(), cleanLine(reason)].filter(Boolean).join(', ');
}

/** `week of Nov 16`. @param date of the report */
function nameWeek([first]: readonly WeekDay[], date: string): string {
  return `week of ${formatNearDay(mondayOf(first?.date ?? date), date)}`;
}

/** The largest day, and how many were bullish. */
export function describeDays({ days, sums: { total } }: Week): string {
  const known = days.flatMap((day) => (day.numbers === null ? [] : [{ day, ...day.numbers }]));
  const [largest] = known.toSorted((a, b) => (b.total ?? 0) - (a.total ?? 0));
  if (largest === undefined || total === null || total <= 0) return 'No premium in this week.';
  const bullish = known.filter((day) => (leanOf(day) ?? 0) > 0).length;
  const share = formatPart(shareOf(largest.total, total));
  const most = `The largest day was ${nameDay(largest.day)}: ${formatDollars(largest.total)}, ${share} of the week.`;
  return `${most} Bullish premium outweighed bearish on ${bullish} of ${countOf(known.length, 'day')}.`;
}

/** The fields of a mail in which a week differs from its last day. */
export function describeWeek(report: FlowReport, week: Week) {
  const { date } = report.drop;
  const { days, before, changes, expired, sums } = week;
  const sessions = days.filter(({ state }) => state !== 'closed');
  const counted = sessions.filter(({ numbers }) => numbers !== null);
  const warned = days.filter(isWarned);
  const isWhole = warned.every(({ state }) => state === 'unusual');
  const lacking = before.flat().filter(isWarned);
  const [previous] = before;
  const keyNumbers = buildChangeRows({ changes });
  const [premium] = keyNumbers;
  const median = `${before.length}-week median`;
  return {
    day: `Week of ${formatDate(mondayOf(date))}`,
    lead: null,
    contracts: countOf(sums.contracts, 'contract'),
    symbolCount: `put/call ${formatRatio(divide(sums.puts, sums.calls))}`,
    premiumChanges: [
      `${premium?.latest ?? NONE} an average session`,
      ...(premium?.onPrevious && previous ? [`${premium.onPrevious} vs ${nameWeek(previous, date)}`] : []),
      ...(premium?.onMedian ? [`${premium.onMedian} vs ${median}`] : []),
    ],
    stamp: {
      label:
        warned.length === 0 ? 'Complete' : `${countOf(warned.length, 'day')} ${isWhole ? 'unusual' : 'incomplete'}`,
      notice:
        warned.length === 0
          ? null
          : {
              title: isWhole ? 'Complete at the source, but unusual.' : 'This week is not verified as complete.',
              text: warned.map((day) => `${nameDay(day)}: ${sayState(day)}.`).join(' '),
            },
      ...{ done: 'last sealed', isRevised: false, from: '', until: '' },
      rows: `${counted.length} of ${countOf(sessions.length, 'session')}`,
    },
    sentences: [
      ...sayFilter(report),
      describeDays(week),
      ...sayExpired(week),
      ...(lacking.length === 0
        ? []
        : [`Incomplete or unusual in the weeks before: ${joinWords(lacking.map(nameDay))}.`]),
    ],
    keyNumbers,
    hasHistory: before.length > 0,
    hasMedian: before.length > 2,
    sessions: {
      latest: 'This week',
      previous: previous === undefined ? '' : nameWeek(previous, date).replace('w', 'W'),
      ...{ median, medianHead: `Median of ${before.length}` },
    },
    days: days.map((day) => ({
      day: nameDay(day),
      note: day.length > 0 && day.length < 1 ? 'half day' : '',
      ...{ state: DAY_STATES[day.state], isWarned: isWarned(day) },
      premium: day.numbers === null ? NONE : formatDollars(day.numbers.total),
      netCalls: day.numbers === null ? NONE : formatSignedDollars(day.numbers.netCalls),
      netPuts: day.numbers === null ? NONE : formatSignedDollars(day.numbers.netPuts),
      putCall: formatRatio(day.numbers?.putCallByPremium ?? null),
    })),
    daysFinding: describeDays(week),
    expired: week.expiredSymbols.map(printExpired),
    expiredAll: expired.series === 0 ? null : printExpired({ symbol: 'All symbols', ...expired }),
    opened: week.opened.map(({ contract, before: held, after, premium: spent }) => ({
      ...{ contract: nameContract(contract), opened: `+${formatCount(after - held)}`, held: formatCount(after) },
      premium: formatDollars(spent),
    })),
    openedSeries: formatCount(week.openedSeries),
  };
}

function sayExpired({ expired: { premium, openInterest, series }, sums: { total } }: Week): readonly string[] {
  if (series === 0 || premium === null || total === null || total <= 0) return [];
  const part = `${formatPart(shareOf(premium, total))} of the premium, ${formatDollars(premium)}`;
  return [
    `${part}, was in contracts that expired in the week; they had an open interest of ${formatCount(openInterest)}.`,
  ];
}

function printExpired({ symbol, premium, openInterest }: WeekExpired) {
  return { symbol: nameSymbol(symbol), premium: formatDollars(premium), openInterest: formatCount(openInterest) };
}
