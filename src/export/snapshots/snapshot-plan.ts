/**
 * Plans snapshot jobs: one request for each symbol and date. Dates come from the calendar, because nothing can be counted
 * beforehand. The API does not say how long it retains snapshots: a run asks for the dates of the lookback, and others by
 * name. Dates answered with nothing, long after their session, are not asked again unless they are named.
 */
import { type CalendarOverride, listSessions } from '../../calendar/session.ts';
import { expiresAt } from '../../plan/dates.ts';
import { assertNotFuture } from '../../plan/lookback.ts';
import { agreeOnDates } from '../../plan/witness.ts';
import type { SnapshotJob } from '../../run/open-source.ts';
import type { SnapshotClient } from '../../source/snapshot.ts';
import { isUnavailable } from '../../state/job-state.ts';
import type { ApiLimits } from '../../state/limits.ts';
import { type ClockDeps, latestNow, readWitnesses } from '../clocks.ts';
import type { DateSelection } from '../date-selection.ts';
import { type RunPlan, TRUSTED_OFFSET_MS } from '../export-plan.ts';

interface SnapshotPlanDeps extends ClockDeps {
  readonly source: SnapshotClient;
  readonly limits: ApiLimits;
  readonly calendar?: CalendarOverride | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Costs no request where the clock of the API is known from an earlier run, else one. @throws SourceFault */
export async function planSnapshots(
  deps: SnapshotPlanDeps,
  job: SnapshotJob,
  { range, isWanted, unavailable, notBeforeMs }: DateSelection,
): Promise<RunPlan> {
  const { source, limits, calendar, signal } = deps;
  const { settleSeconds } = job;
  const [symbol] = job.source.symbols;
  const isKnown =
    limits.clockOffsetMs !== 0 &&
    Math.abs(limits.clockOffsetMs) <= TRUSTED_OFFSET_MS &&
    deps.clock.now() >= notBeforeMs;
  if (symbol !== undefined && !isKnown) await source.greet(symbol, signal);
  const { dates: agreed, contested, lookback } = agreeOnDates(readWitnesses(deps), { settleSeconds, calendar });
  assertNotFuture(range, lookback, latestNow(deps));
  const last = lookback.lastSettled;
  // Older dates may still be available and can be named.
  const older = range === undefined || last === undefined ? [] : listSessions(range.from, last, calendar);
  const wanted = older.length > 0 ? older.filter((date) => !contested.some((held) => held.date === date)) : agreed;
  const question = { url: source.url, symbols: job.source.symbols };
  const empty = new Set(
    wanted.filter((date) => isWanted(date) && isUnavailable(unavailable[date], question, date, calendar)),
  );
  const isAsked = (date: string) => isWanted(date) && !empty.has(date);
  const dates = wanted.filter(isAsked).map((date) => ({
    date,
    counts: [],
    rows: undefined,
    pages: job.source.symbols.length,
    expiresAtMs: expiresAt(date),
  }));
  return { lookback, dates, empty, held: contested.filter(({ date }) => isWanted(date)) };
}
