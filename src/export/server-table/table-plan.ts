/**
 * Planning of jobs that read a ClickHouse server: the dates that the table has. A server of one's own forgets nothing, so
 * any date may be asked for by name; a run goes for the last sessions only, so that a new job does not copy years unasked.
 */
import { type CalendarOverride, previousSessions } from '../../calendar/session.ts';
import { formatWallDate } from '../../calendar/wall-clock.ts';
import { settledAt } from '../../plan/dates.ts';
import { assertNotFuture, lookbackOf } from '../../plan/lookback.ts';
import { agreeOnDates } from '../../plan/witness.ts';
import type { ServerTable } from '../../source/server-table.ts';
import { type ClockDeps, earliestNow, latestNow, readWitnesses } from '../clocks.ts';
import type { DateSelection } from '../date-selection.ts';
import type { RunPlan } from '../export-plan.ts';
import type { TableJob } from '../job-source.ts';
import { buildTableCounts } from './table-statement.ts';

export interface TablePlanDeps extends ClockDeps {
  readonly source: ServerTable;
  readonly calendar?: CalendarOverride | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Sessions that a run without dates goes for. */
export const RUN_SESSIONS = 15;

/** Count before, file, checksum. */
export const STATEMENTS_A_DATE = 3;

/** @throws EngineFault; Fault `SERVER_TOO_OLD`, `TABLE_UNFIT` */
export async function planTable(
  deps: TablePlanDeps,
  job: TableJob,
  { range, isWanted }: DateSelection,
): Promise<RunPlan> {
  const { source, calendar, signal } = deps;
  const { types } = await source.describe(signal);
  const nowMs = earliestNow(deps);
  const lookback = lookbackOf(job.source, nowMs, calendar);
  const { contested } = agreeOnDates(readWitnesses(deps), calendar, false);
  assertNotFuture(range, lookback, latestNow(deps));
  const sessions = previousSessions(lookback.lastSettled ?? formatWallDate(nowMs), RUN_SESSIONS, calendar);
  const { from, to } = range ?? { from: sessions[0] ?? '', to: lookback.lastSettled ?? '' };
  const counting = buildTableCounts(job.source, types, from, to);
  const counted = await source.rows<{ d: string; n: number; u: number }>(counting, { signal });
  const found = counted.filter(({ d }) => isWanted(d) && nowMs >= settledAt(d, 0, calendar));
  return {
    lookback,
    dates: found.map(({ d, n }) => ({
      date: d,
      counts: [],
      rows: Number(n),
      pages: STATEMENTS_A_DATE,
      expiresAtMs: Number.POSITIVE_INFINITY,
    })),
    held: contested.filter(({ date }) => isWanted(date)),
    empty: range
      ? new Set()
      : new Set(sessions.filter((date) => !counted.some(({ d }) => d === date) && isWanted(date))),
  };
}
