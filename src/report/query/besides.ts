/**
 * What a session has beside the hours of its report: the night before it, which starts when the session before has ended, and
 * the curb. A source may date the evening by its own day: then it is in the drops since the session before, whose summaries
 * have it. No other number of the report contains these records.
 */
import { type CalendarOverride, previousSessions } from '../../calendar/session.ts';
import { addDays } from '../../calendar/wall-clock.ts';
import { parquetFile } from '../../engine/literal.ts';
import type { DropSource } from '../drop-source.ts';
import type { Exclusions, FlowReport, Tally } from '../model.ts';
import { writePlace } from '../records.ts';
import type { PastSession } from './past-sessions.ts';

type Row = Tally & { readonly session: string; readonly segment: string };

const SUMMARY = 'symbol String, session_date String, segment String, trades Float64, total_premium Nullable(Float64)';
const NOTHING: Tally = { trades: 0, premium: 0 };

/**
 * @param others the counted records of the drop in other hours
 * @param of `isWhole`: there are no such records
 */
export async function queryBesides(
  others: DropSource,
  of: { readonly date: string; readonly calendar: CalendarOverride | undefined; readonly isWhole: boolean },
  before: readonly PastSession[],
): Promise<Pick<Exclusions, 'otherHours'> & Pick<FlowReport, 'besides'>> {
  const { date, calendar, isWhole } = of;
  const [previous = date] = previousSessions(addDays(date, -1), 1, calendar);
  const own = isWhole
    ? []
    : await others.known<Row>(
        `SELECT place.1 AS session, place.2 AS segment, count() AS trades, sum(premium) AS premium FROM (SELECT ${writePlace(date, calendar, (session, segment) => `('${session}', '${segment}')`)} AS place, premium FROM ${others.table}) GROUP BY place`,
      );
  const evening = before
    .filter((past) => past.date >= previous)
    .map(
      ({ path }) =>
        `SELECT * FROM ${parquetFile(path, SUMMARY)} WHERE symbol = '' AND segment = 'overnight' AND session_date = '${date}'`,
    );
  const earlier =
    evening.length === 0
      ? []
      : await others.known<Row>(
          `SELECT session_date AS session, segment, trades, total_premium AS premium FROM (${evening.join(' UNION ALL ')})`,
        );
  const rows = [...own, ...earlier];
  const ofSession = (name: string) =>
    rows.filter((row) => row.segment === name && row.session === date).reduce<Tally>(add, NOTHING);
  return {
    otherHours: own.reduce<Tally>(add, NOTHING),
    besides: { overnight: ofSession('overnight'), curb: ofSession('curb') },
  };
}

/** A premium that is not known adds nothing. */
function add(sum: Tally, { trades, premium }: Tally): Tally {
  return { trades: sum.trades + trades, premium: (sum.premium ?? 0) + (premium ?? 0) };
}
