/**
 * The plan of a run: the dates to export with their counts. One request counts all dates where the API allows it;
 * otherwise only the first date is counted now, and each other date before its export. The first answer of an unknown API
 * sets its clock; if its day differs from ours, the plan is made again. Dates on which the clocks disagree are held back.
 */

import { type CalendarOverride, isSession } from '../calendar/session.ts';
import { type DateRange, formatWallDate } from '../calendar/wall-clock.ts';
import { Fault, isFault } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import type { SqlJob } from '../job/job.ts';
import { type DayCounts, sumCounts } from '../plan/counts.ts';
import { expiresAt, type LookbackRange, type SettleRule, settledAt } from '../plan/dates.ts';
import { assertNotFuture } from '../plan/lookback.ts';
import { lastTradeSecond } from '../plan/session-end.ts';
import { type AgreedDates, agreeOnDates, type HeldDate } from '../plan/witness.ts';
import { type Source, SourceFault } from '../source/source.ts';
import type { ApiLimits } from '../state/limits.ts';
import { type ClockDeps, doClocksAgree, earliestNow, latestNow, readWitnesses } from './clocks.ts';
import type { DateSelection } from './date-selection.ts';
import type { LikeSessions } from './trades/like-sessions.ts';
import { probeDates, probeJoined, probeRows } from './trades/probe.ts';
import { createSessionEnds, type SessionEnds } from './trades/session-ends.ts';

export interface PlannedDate {
  readonly date: string;
  /** `undefined`: not counted yet, or cannot be counted beforehand. */
  readonly counts: DayCounts | undefined;
  /** Groups by cell of an aggregating job; `undefined`: counted before the export. */
  readonly groups?: DayCounts | undefined;
  /** As counted, or else as many as the last date had; `undefined` if neither is known. */
  readonly rows: number | undefined;
  /** Fewest page requests at the current row limit. */
  readonly pages: number;
  readonly expiresAtMs: number;
}

export interface RunPlan {
  /** If clocks differ, the slowest: no date expires that any clock calls complete. */
  readonly lookback: LookbackRange;
  /** Unsealed, settled dates with rows, soonest expiry first; dates that are no session by the calendar included. */
  readonly dates: readonly PlannedDate[];
  /** Settled, unsealed session dates without rows of the job in the source. */
  readonly empty: ReadonlySet<string>;
  /** Of these, the dates of which the source has other rows; absent: not asked. */
  readonly unmatched?: ReadonlySet<string> | undefined;
  /** Unsealed dates that may be due but are held back, because the clocks disagree. */
  readonly held: readonly HeldDate[];
  /** Of these, the ones that have rows at the source: if they expire, they are lost. */
  readonly heldRows?: readonly PlannedDate[] | undefined;
  /** Dates whose last rows are so recent that more may follow, and when each will have settled. */
  readonly open?: ReadonlyMap<string, number> | undefined;
  /** When each session ended in the source; only for sources whose rows can be counted by time. */
  readonly ends?: SessionEnds | undefined;
}

/** The plan with the held-back dates that have rows: a loss of theirs must not go unnoticed. */
export function withHeld(plan: RunPlan): RunPlan {
  return { ...plan, dates: [...plan.dates, ...(plan.heldRows ?? [])] };
}

interface PlanDeps extends ClockDeps {
  readonly source: Source;
  readonly limits: ApiLimits;
  /** Without one, nothing is logged. */
  readonly log?: Log | undefined;
  readonly calendar?: CalendarOverride | undefined;
  /** Without them, only the last rows of a session tell whether it is over. */
  readonly like?: LikeSessions | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** A clock that is off by more belongs to a simulation or a broken machine: the server is asked again. */
export const TRUSTED_OFFSET_MS = 5 * 60_000;

/** Whole seconds of the server's clock, and the way of its answer. */
const CLOCK_GRAIN_MS = 3000;

/** One answer corrects a wrong clock; the day may change once more between two answers. */
const MAX_CLOCK_ROUNDS = 4;

/**
 * @throws SourceFault; Fault `DATE_EXPIRED` with the earliest date that is still complete, `DATE_FUTURE` with the last
 */
export async function planRun(deps: PlanDeps, job: SqlJob, selection: DateSelection): Promise<RunPlan> {
  const { source, limits } = deps;
  const { range, isWanted } = selection;
  const rule = { settleSeconds: job.settleSeconds, calendar: deps.calendar };
  const ends = createSessionEnds(job, selection.newestSealed, deps.calendar, deps.like);
  const agree = () => {
    const agreed = agreeOnDates(readWitnesses(deps, ends.rowMs()), rule);
    return { ...agreed, dates: agreed.dates.filter(isWanted) };
  };
  await awaitSettling(deps, rule);
  let agreed = agree();
  const offsetMs = Math.abs(limits.clockOffsetMs);
  // A named date is refused only by the source's own clock.
  const isDoubtful =
    offsetMs > TRUSTED_OFFSET_MS || (range !== undefined && offsetMs === 0) || deps.clock.now() < selection.notBeforeMs;
  const isOutside = range !== undefined && range.from < agreed.lookback.firstWhole;
  const isContested = !source.tellsTime() && agreed.contested.some(({ date }) => isWanted(date));
  if (isOutside || ((isDoubtful || isContested) && agreed.dates.length === 0)) {
    await source.ask(`SELECT id FROM ${job.source.table} LIMIT 1`, {
      testMode: true,
      signal: deps.signal,
    });
    agreed = agree();
  }
  if (range) assertInsideLookback(range, agreed.lookback);
  for (let round = 0; round < MAX_CLOCK_ROUNDS; round += 1) {
    const wanted = agreed.dates;
    const asked = await countDates(deps, job, wanted);
    for (const [date, counts] of asked.counted) ends.note(date, counts);
    const now = agree();
    assertNotFuture(range, now.lookback, latestNow(deps));
    if (now.dates.join() === wanted.join()) {
      const { firstWhole } = now.lookback;
      const found = [...asked.counted].filter(([date]) => isWanted(date) && date >= firstWhole);
      const counted = { ...asked, wanted, counted: new Map(found) };
      const contested = now.contested.filter(({ date }) => isWanted(date));
      return await buildPlan(deps, { ...now, contested }, counted, { ends, rule });
    }
    agreed = now;
  }
  throw new Fault('CLOCK_UNSTEADY', `the clock of the API at ${source.url} jumps from answer to answer`, {
    hint: 'Lookback and delay are measured by it, so nothing can be planned. Tell the provider.',
  });
}

/**
 * A schedule may begin a run in the second in which today settles. The source's clock is known from a header of whole
 * seconds, so it may still show the second before: without this wait the date would be left to the next run.
 */
async function awaitSettling(deps: PlanDeps, rule: SettleRule): Promise<void> {
  const nowMs = earliestNow(deps);
  const today = formatWallDate(nowMs);
  if (!isSession(today, rule.calendar)) return;
  const waitMs = settledAt(today, rule) - nowMs;
  if (waitMs > 0 && waitMs <= CLOCK_GRAIN_MS) await deps.clock.sleep(waitMs, deps.signal);
}

/** Expired dates cannot be fetched: a named one is an error, not skipped. */
function assertInsideLookback(range: DateRange, { firstWhole, edge }: LookbackRange): void {
  if (range.from >= firstWhole) return;
  throw new Fault(
    'DATE_EXPIRED',
    `${range.from} is outside the API's lookback, which begins at ${edge} (exchange time)`,
    {
      kind: 'usage',
      hint: `The earliest date that can still be exported completely is ${firstWhole}.`,
    },
  );
}

interface Counted {
  readonly counted: ReadonlyMap<string, DayCounts>;
  /** Groups of the counted dates of an aggregating job, if they were counted with the rows. */
  readonly groups?: ReadonlyMap<string, DayCounts> | undefined;
  /** Dates that are counted later, each before its export. */
  readonly left: readonly string[];
}

async function countDates(deps: PlanDeps, job: SqlJob, wanted: readonly string[]): Promise<Counted> {
  const joined = await probeJoined(deps, job, wanted);
  if (joined !== undefined) return { counted: joined.rows, groups: joined.groups, left: [] };
  const counted = await probeDates(deps, job, wanted);
  if (counted !== undefined) return { counted, left: [] };
  const [first = '', ...left] = wanted;
  try {
    const counts = await probeRows(deps, job, first);
    return { counted: new Map(counts.length > 0 ? [[first, counts]] : []), left };
  } catch (error) {
    // The date's own export will fail again with this error; later dates are not affected.
    if (!isFault(error) || error instanceof SourceFault || error.code !== 'ANSWER_MALFORMED') throw error;
    return { counted: new Map(), left: wanted };
  }
}

/** A run waits this long for a date to settle: rows that were stamped a moment after the close must not cost a retry. */
export const MAX_SETTLE_WAIT_MS = 2 * 60_000;

/** When a date is over: some contracts trade later than others, and the last rows may be very recent. */
export function settlesAt(date: string, counts: DayCounts, rule: SettleRule): number {
  // Counts by symbol have no times: assume the latest possible last row.
  const bySymbol = counts[0]?.symbol !== undefined;
  const latest = lastTradeSecond(date, rule.calendar);
  // A row after all trading hours has a wrong time and must not delay its date.
  const lastSecond = bySymbol ? latest : counts.findLast(({ second }) => second <= latest)?.second;
  return settledAt(date, rule, lastSecond);
}

async function buildPlan(
  deps: PlanDeps,
  { lookback, contested }: AgreedDates,
  { wanted, counted, groups, left }: Counted & { readonly wanted: readonly string[] },
  { ends, rule }: { readonly ends: SessionEnds; readonly rule: SettleRule },
): Promise<RunPlan> {
  const { limits } = deps;
  const planned = (date: string, counts: DayCounts | undefined): PlannedDate => {
    const rows = counts === undefined ? (limits.dateRows ?? 0) : sumCounts(counts).rows;
    const own = groups?.get(date);
    const pages = Math.ceil((own === undefined ? rows : sumCounts(own).rows) / limits.rowLimit);
    return { date, counts, groups: own, rows, pages, expiresAtMs: expiresAt(date) };
  };
  const nowMs = earliestNow(deps);
  const settling = new Map([...counted].map(([date, counts]) => [date, settlesAt(date, counts, rule)]));
  const open = new Map([...settling].filter(([, atMs]) => atMs > nowMs + MAX_SETTLE_WAIT_MS));
  const known = [...counted].filter(([date]) => !open.has(date));
  const unseen = new Map<string, string>();
  for (const [date] of deps.clockRule === 'source' ? [] : known) {
    const reason = await ends.explain(deps, date, left.at(-1) ?? known.at(-1)?.[0] ?? date, doClocksAgree(deps));
    if (reason !== undefined) unseen.set(date, reason);
  }
  const dates = [
    ...known.filter(([date]) => !unseen.has(date)).map(([date, counts]) => planned(date, counts)),
    ...left.map((date) => planned(date, undefined)),
  ];
  return {
    lookback,
    dates,
    empty: new Set(wanted.filter((date) => !counted.has(date) && !left.includes(date))),
    held: [...contested, ...[...unseen].map(([date, reason]) => ({ date, reason }))].sort((a, b) =>
      a.date < b.date ? -1 : 1,
    ),
    heldRows: known.filter(([date]) => unseen.has(date)).map(([date, counts]) => planned(date, counts)),
    open,
    ends,
  };
}
