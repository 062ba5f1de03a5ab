/**
 * Planning of snapshot jobs: one request for each symbol and date. The dates come from the calendar, because nothing can
 * be counted beforehand; how long the API retains snapshots is not specified, so by default those of the lookback are
 * asked for, and any others by name. Dates that were asked for in vain when nothing more was to come are not asked for
 * again, unless they are named.
 */
import { type CalendarOverride, listSessions } from '../../calendar/session.ts';
import { computeLookback, expiresAt } from '../../plan/dates.ts';
import type { SnapshotClient } from '../../source/snapshot.ts';
import type { DateChoice } from '../choice.ts';
import type { Learnt } from '../learnt.ts';
import { assertNotFuture } from '../lookback.ts';
import type { SnapshotJob } from '../opened.ts';
import { type RunPlan, TRUSTED_OFFSET_MS } from '../plan.ts';
import { isAbsent } from './absence.ts';

export interface SnapshotPlanDeps {
  readonly source: SnapshotClient;
  readonly learnt: Learnt;
  readonly calendar?: CalendarOverride | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Costs no request where the clock of the API is known from an earlier run, else one. @throws SourceFault */
export async function planSnapshots(
  { source, learnt, calendar, signal }: SnapshotPlanDeps,
  job: SnapshotJob,
  { range, isWanted, absences }: DateChoice,
): Promise<RunPlan> {
  const [symbol] = job.source.symbols;
  const isKnown = learnt.clock_offset_ms !== 0 && Math.abs(learnt.clock_offset_ms) <= TRUSTED_OFFSET_MS;
  if (symbol !== undefined && !isKnown) await source.greet(symbol, signal);
  const lookback = computeLookback(source.serverNow(), calendar);
  assertNotFuture(range, lookback, source.serverNow());
  const { firstWhole, lastSettled } = lookback;
  const from = range?.from ?? firstWhole;
  const wanted = lastSettled === undefined ? [] : listSessions(from, lastSettled, calendar);
  const question = { url: source.url, symbols: job.source.symbols };
  const empty = new Set(
    wanted.filter((date) => isWanted(date) && isAbsent(absences.get(date), question, date, calendar)),
  );
  const isAsked = (date: string) => isWanted(date) && !empty.has(date);
  const dates = wanted.filter(isAsked).map((date) => ({
    date,
    counts: [],
    rows: undefined,
    pages: job.source.symbols.length,
    expiresAtMs: expiresAt(date),
  }));
  return { lookback, dates, empty };
}
