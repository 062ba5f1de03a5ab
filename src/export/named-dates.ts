/**
 * Why named dates were not exported: sealed before, no session, no rows, not over yet. Invariant: every named date is
 * reported. Pure.
 */

import { isSession, listSessions } from '../calendar/session.ts';
import { addDays, type DateRange } from '../calendar/wall-clock.ts';
import type { NamedDates } from '../state/run-result.ts';
import type { DateSelection } from './date-selection.ts';
import type { RunPlan } from './export-plan.ts';

/**
 * @param plan as it turned out: dates without rows are no longer in it
 * @param sealed dates that were sealed before
 */
export function describeNamed(
  range: DateRange,
  { dates, empty, lookback, held }: RunPlan,
  { isWanted }: DateSelection,
  sealed: ReadonlySet<string>,
): NamedDates {
  const { lastSettled = '', calendar } = lookback;
  const planned = new Set([...dates, ...held].map(({ date }) => date));
  const sessions = listSessions(range.from, range.to, calendar);
  // A sealed date that was exported again is already among the results.
  const left = sessions.filter((date) => isWanted(date) && !planned.has(date));
  // A table lists all of its dates in one answer.
  const isEmpty = (date: string) => empty.has(date) || (lookback.edge === '' && date <= lastSettled);
  return {
    sealed: [...sealed].filter((date) => date >= range.from && date <= range.to && !planned.has(date)).sort(),
    no_session: listDays(range).filter((date) => !isSession(date, calendar) && !planned.has(date) && !sealed.has(date)),
    no_rows: left.filter(isEmpty),
    not_over: left.filter((date) => !isEmpty(date)),
  };
}

function listDays({ from, to }: DateRange): readonly string[] {
  const days: string[] = [];
  for (let date = from; date <= to; date = addDays(date, 1)) days.push(date);
  return days;
}
