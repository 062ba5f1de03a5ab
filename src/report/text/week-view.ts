/** What a mail says of a week in place of a day: totals, an average session beside the weeks before, and each day with its state. Pure. */
import { mondayOf } from '../../calendar/wall-clock.ts';
import { formatDate, formatNearDay, formatWeekDate } from '../../core/date-text.ts';
import { countOf, formatCount, formatDollars, formatSignedDollars } from '../../core/units.ts';
import { type Amount, divide, leanOf, shareOf } from '../amount.ts';
import { FEWEST_IN_MEDIAN } from '../changes.ts';
import { buildChangeRows } from '../key-numbers.ts';
import type { FlowReport } from '../model.ts';
import type { Compared } from '../numbers.ts';
import { DAY_STATES, isWarned, type Week, type WeekDay } from '../week-model.ts';
import { cleanLine, formatPart, formatRatio, joinWords, NONE, nameContract, nameSymbol } from './label.ts';
import { sayFilter } from './sentences.ts';

/**
 * The report with the sums and the state of its week, for texts that read a day's: `doubts` says of each day that is not usual
 * what its state is.
 */
export function asWeek(report: FlowReport, { sums, days }: Week): FlowReport {
  const { drop, headline } = report;
  const warned = days.filter(isWarned);
  const doubts = warned.map(
    (day) => `${nameDay(day)}: ${DAY_STATES[day.state].toLowerCase()}, ${cleanLine(day.reason)}`,
  );
  const condition = warned.every(({ state }) => state === 'unusual') ? 'available' : 'degraded';
  const counts = { trades: sums.trades ?? 0, unpriced: 0, unsized: 0 };
  const putCallByPremium = divide(sums.puts, sums.calls);
  return {
    ...report,
    drop: { ...drop, condition, doubts },
    headline: { ...headline, ...sums, ...counts, putCallByPremium },
  };
}

/** `Fri, Nov 20`. */
function nameDay({ date }: WeekDay): string {
  return formatWeekDate(date).replace(/, \d{4}$/, '');
}

/** The largest day, and how many were bullish. */
export function describeDays({ days, sums: { total } }: Week): string {
  const known = days.flatMap((day) => (day.numbers === null ? [] : [{ day, ...day.numbers }]));
  const [largest] = known.toSorted((a, b) => (b.total ?? 0) - (a.total ?? 0));
  if (total === null) return 'The premium of the week cannot be computed.';
  if (largest === undefined || total <= 0) return 'No premium in this week.';
  const bullish = known.filter((day) => (leanOf(day) ?? 0) > 0).length;
  const share = formatPart(shareOf(largest.total, total));
  const most = `The largest day was ${nameDay(largest.day)}: ${formatDollars(largest.total)}, ${share} of the week.`;
  return `${most} Bullish premium outweighed bearish on ${bullish} of ${countOf(known.length, 'day')}.`;
}

function sayIncomplete(days: Week['days']): string {
  return `${countOf(days.filter((day) => isWarned(day) && day.state !== 'unusual').length, 'day')} incomplete`;
}

/** The fields of a mail in which a week differs from a day. @param report as `asWeek` has it */
export function describeWeek({ drop, headline }: FlowReport, week: Week) {
  const { days, before, changes, expired } = week;
  const { doubts = [], condition, date } = drop;
  const isWhole = condition === 'available';
  const sessions = days.filter(({ state }) => state !== 'closed');
  const counted = sessions.filter(({ numbers }) => numbers !== null);
  const lacking = before.flat().filter(isWarned).map(nameDay);
  const keyNumbers = buildChangeRows({ changes });
  const daysFinding = describeDays(week);
  const { latest = NONE, onPrevious = '', onMedian = '' } = keyNumbers[0] ?? {};
  const previous = `eek of ${formatNearDay(mondayOf(before[0]?.[0]?.date ?? date), date)}`;
  const median = `${before.length}-week median`;
  const { total } = headline;
  return {
    day: `Week of ${formatDate(mondayOf(date))}`,
    lead: null,
    symbolCount: `put/call ${formatRatio(headline.putCallByPremium)}`,
    premiumChanges: [
      `${latest} an average session`,
      ...(onPrevious === '' ? [] : [`${onPrevious} vs w${previous}`]),
      ...(onMedian === '' ? [] : [`${onMedian} vs ${median}`]),
    ],
    stamp: {
      ...{ rows: `${counted.length} of ${countOf(sessions.length, 'session')}`, done: 'last sealed', from: '' },
      isRevised: false,
      label:
        doubts.length === 0 ? 'Complete' : isWhole ? `${countOf(doubts.length, 'day')} unusual` : sayIncomplete(days),
      notice:
        doubts.length === 0
          ? null
          : {
              title: isWhole
                ? 'Complete at the source, but unlike other days:'
                : 'This week is not verified as complete.',
              text: `${doubts.join('. ')}.`,
            },
    },
    sentences: [
      ...sayFilter({ drop }),
      daysFinding,
      ...(expired.series === 0 || total === null || total <= 0
        ? []
        : [
            `${formatPart(shareOf(expired.premium, total))} of the premium, ${formatDollars(expired.premium)}, was in contracts that expired in the week; they had an open interest of ${formatCount(expired.openInterest)}.`,
          ]),
      ...(lacking.length === 0 ? [] : [`Incomplete or unusual in the weeks before: ${joinWords(lacking)}.`]),
    ],
    keyNumbers,
    ...{ hasHistory: before.length > 0, hasMedian: before.length >= FEWEST_IN_MEDIAN },
    sessions: { latest: 'This week', previous: `W${previous}`, median, medianHead: `Median of ${before.length}` },
    days: days.map((day) => {
      const print = (format: (value: Amount) => string, key: Compared) =>
        day.numbers === null ? NONE : format(day.numbers[key]);
      return {
        ...{ day: nameDay(day), note: day.length > 0 && day.length < 1 ? 'half day' : '' },
        ...{ premium: print(formatDollars, 'total'), putCall: print(formatRatio, 'putCallByPremium') },
        ...{ netCalls: print(formatSignedDollars, 'netCalls'), netPuts: print(formatSignedDollars, 'netPuts') },
        ...{ state: DAY_STATES[day.state], isWarned: isWarned(day) },
      };
    }),
    daysFinding,
    // Of all symbols first.
    expired: (expired.series === 0 ? [] : [{ symbol: 'All symbols', ...expired }, ...week.expiredSymbols]).map(
      (row) => ({
        symbol: nameSymbol(row.symbol),
        ...{ premium: formatDollars(row.premium), openInterest: formatCount(row.openInterest) },
      }),
    ),
    opened: week.opened.map(({ contract, before: held, after, premium }) => ({
      ...{ contract: nameContract(contract), opened: `+${formatCount(after - held)}`, held: formatCount(after) },
      premium: formatDollars(premium),
    })),
    openedSeries: countOf(week.openedSeries, 'contract'),
  };
}
