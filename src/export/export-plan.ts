/**
 * What a run would do: the dates it goes for with their counts. Costs one request where the API allows it; where all
 * dates at once are too much, only the first is counted now, the others when their turn comes. The clock of an API that
 * was never asked before is learnt from the first answer; if it is another day there, the plan is made again. What the
 * witnesses of the time do not agree on is held back and named.
 */

import type { DateRange } from '../calendar/date-range.ts';
import type { CalendarOverride } from '../calendar/session.ts';
import { Fault, isFault } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import type { SqlJob } from '../job/job.ts';
import { type DayCounts, sumCounts } from '../plan/counts.ts';
import { expiresAt, type LookbackRange, settledAt } from '../plan/dates.ts';
import { assertNotFuture } from '../plan/lookback.ts';
import { lastTradeSecond } from '../plan/session-end.ts';
import { type AgreedDates, agreeOnDates, type HeldDate } from '../plan/witness.ts';
import { type Source, SourceFault } from '../source/source.ts';
import type { ApiLimits } from '../state/limits.ts';
import { type ClockDeps, doClocksAgree, earliestNow, latestNow, readWitnesses } from './clocks.ts';
import type { DateSelection } from './date-selection.ts';
import { probeDates, probeRows } from './trades/probe.ts';
import { createSessionEnds, type SessionEnds } from './trades/session-ends.ts';

export interface PlannedDate {
  readonly date: string;
  /** `undefined`: not counted yet, or cannot be counted beforehand. */
  readonly counts: DayCounts | undefined;
  /** As counted, or as many as the last date had; `undefined` where nothing can be said. */
  readonly rows: number | undefined;
  /** Fewest requests for pages, at the present row limit. */
  readonly pages: number;
  readonly expiresAtMs: number;
}

export interface RunPlan {
  /** Where witnesses differ, the one in which nothing has expired that any of them sees whole. */
  readonly lookback: LookbackRange;
  /** Unsealed, settled dates with rows, soonest expiry first; also such that the calendar knows no session of. */
  readonly dates: readonly PlannedDate[];
  /** Settled, unsealed session dates that the source has no rows of. */
  readonly empty: ReadonlySet<string>;
  /** Unsealed dates that may be due and are not exported, because not every witness of the time agrees. */
  readonly held: readonly HeldDate[];
  /** What the source shows of the ends of sessions; only of sources whose rows can be counted by their time. */
  readonly ends?: SessionEnds | undefined;
}

export interface PlanDeps extends ClockDeps {
  readonly source: Source;
  readonly limits: ApiLimits;
  /** Without one nothing is told. */
  readonly log?: Log | undefined;
  readonly calendar?: CalendarOverride | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** A clock that is off by more than this belongs to a simulation or a broken machine: it is asked for again. */
export const TRUSTED_OFFSET_MS = 5 * 60_000;

/** A clock that was wrong is right after one answer; a day may end between two more. */
const MAX_CLOCK_ROUNDS = 4;

/**
 * @throws SourceFault; Fault `DATE_EXPIRED` naming the earliest date that can still be had, `DATE_FUTURE` the last
 */
export async function planRun(deps: PlanDeps, job: SqlJob, selection: DateSelection): Promise<RunPlan> {
  const { source, limits } = deps;
  const { range, isWanted } = selection;
  const ends = createSessionEnds(job, selection.newestSealed, deps.calendar);
  const agree = () => {
    const agreed = agreeOnDates(readWitnesses(deps, ends.rowMs()), deps.calendar);
    return { ...agreed, dates: agreed.dates.filter(isWanted) };
  };
  let agreed = agree();
  const offsetMs = Math.abs(limits.clockOffsetMs);
  // Whoever names dates is told what is wrong with them, and that is known by the source's clock only.
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
      return await buildPlan(deps, { ...now, contested }, counted, ends);
    }
    agreed = now;
  }
  throw new Fault('CLOCK_UNSTEADY', `the clock of the API at ${source.url} jumps from answer to answer`, {
    hint: 'Lookback and delay are measured by it, so nothing can be planned. Tell the provider.',
  });
}

/** What has left the lookback cannot be fetched: it is refused by name rather than left out. */
function assertInsideLookback(range: DateRange, { firstWhole, edge }: LookbackRange): void {
  if (range.from >= firstWhole) return;
  throw new Fault(
    'DATE_EXPIRED',
    `${range.from} is outside the API's lookback, which begins at ${edge} (exchange time)`,
    {
      kind: 'usage',
      hint: `The earliest date that can still be exported whole is ${firstWhole}.`,
    },
  );
}

interface Counted {
  readonly counted: ReadonlyMap<string, DayCounts>;
  /** Dates whose turn to be counted comes later. */
  readonly left: readonly string[];
}

async function countDates(deps: PlanDeps, job: SqlJob, wanted: readonly string[]): Promise<Counted> {
  const counted = await probeDates(deps, job, wanted);
  if (counted !== undefined) return { counted, left: [] };
  const [first = '', ...left] = wanted;
  try {
    const counts = await probeRows(deps, job, first);
    return { counted: new Map(counts.length > 0 ? [[first, counts]] : []), left };
  } catch (error) {
    // Its own export fails with it once more; the dates after it are none the worse.
    if (!isFault(error) || error instanceof SourceFault || error.code !== 'ANSWER_MALFORMED') throw error;
    return { counted: new Map(), left: wanted };
  }
}

/** Whether a date is over: some contracts trade after the others have closed, and its last rows may be fresh. */
export function isOver(
  date: string,
  counts: DayCounts,
  nowMs: number,
  calendar: CalendarOverride | undefined,
): boolean {
  // Counted by symbol nobody knows when its last row is: then it is as late as it can be.
  const bySymbol = counts[0]?.symbol !== undefined;
  const latest = lastTradeSecond(date, calendar);
  // A row after all trading has a wrong time: it must not keep its date from being sealed.
  const lastSecond = bySymbol ? latest : counts.findLast(({ second }) => second <= latest)?.second;
  return nowMs >= settledAt(date, lastSecond, calendar);
}

async function buildPlan(
  deps: PlanDeps,
  { lookback, contested }: AgreedDates,
  { wanted, counted, left }: Counted & { readonly wanted: readonly string[] },
  ends: SessionEnds,
): Promise<RunPlan> {
  const { limits } = deps;
  const planned = (date: string, counts: DayCounts | undefined): PlannedDate => {
    const rows = counts === undefined ? (limits.dateRows ?? 0) : sumCounts(counts).rows;
    return { date, counts, rows, pages: Math.ceil(rows / limits.rowLimit), expiresAtMs: expiresAt(date) };
  };
  const nowMs = earliestNow(deps);
  const known = [...counted].filter(([date, counts]) => isOver(date, counts, nowMs, lookback.calendar));
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
    ends,
  };
}
