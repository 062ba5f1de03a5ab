/**
 * What a run would do: the dates it goes for with their counts. Costs one request where the API allows it; where all
 * dates at once are too much, only the first is counted now, the others when their turn comes. The clock of an API that
 * was never asked before is learnt from the first answer; if it is another day there, the plan is made again.
 */
import { type CalendarOverride, sessionCloseSecond } from '../calendar/session.ts';
import { Fault } from '../core/errors.ts';
import type { SqlJob } from '../job/job.ts';
import { type DayCounts, sumCounts } from '../plan/counts.ts';
import { computeLookback, expiresAt, type LookbackRange, listSettled, settledAt } from '../plan/dates.ts';
import type { Source } from '../source/source.ts';
import type { DateChoice, DateRange } from './choice.ts';
import type { Learnt } from './learnt.ts';
import { assertNotFuture } from './lookback.ts';
import { probeDates, probeRows } from './sql/probe.ts';

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
  readonly lookback: LookbackRange;
  /** Unsealed, settled dates with rows, soonest expiry first; also such that the calendar knows no session of. */
  readonly dates: readonly PlannedDate[];
  /** Settled, unsealed session dates that the source has no rows of. */
  readonly empty: ReadonlySet<string>;
}

export interface PlanDeps {
  readonly source: Source;
  readonly learnt: Learnt;
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
export async function planRun(deps: PlanDeps, job: SqlJob, { range, isWanted }: DateChoice): Promise<RunPlan> {
  const { source, learnt } = deps;
  const list = (lookback: LookbackRange) => listSettled(lookback).filter(isWanted);
  let lookback = computeLookback(source.serverNow(), deps.calendar);
  const offsetMs = Math.abs(learnt.clock_offset_ms);
  // Whoever names dates is told what is wrong with them, and that is known by the source's clock only.
  const isDoubtful = offsetMs > TRUSTED_OFFSET_MS || (range !== undefined && offsetMs === 0);
  const isOutside = range !== undefined && range.from < lookback.firstWhole;
  if (isOutside || (isDoubtful && list(lookback).length === 0)) {
    await source.ask(`SELECT id FROM ${job.source.table} LIMIT 1`, {
      testMode: true,
      ...(deps.signal ? { signal: deps.signal } : {}),
    });
    lookback = computeLookback(source.serverNow(), deps.calendar);
  }
  if (range) assertInsideLookback(range, lookback);
  for (let round = 0; round < MAX_CLOCK_ROUNDS; round += 1) {
    const wanted = list(lookback);
    const asked = await countDates(deps, job, wanted);
    const now = computeLookback(source.serverNow(), deps.calendar);
    assertNotFuture(range, now, source.serverNow());
    if (now.firstWhole === lookback.firstWhole && now.lastSettled === lookback.lastSettled) {
      const found = [...asked.counted].filter(([date]) => isWanted(date) && date >= now.firstWhole);
      return buildPlan(now, source.serverNow(), { ...asked, wanted, counted: new Map(found) }, learnt);
    }
    lookback = now;
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
  const counts = await probeRows(deps, job, first);
  return { counted: new Map(counts.length > 0 ? [[first, counts]] : []), left };
}

/** Seconds after the session's close until which anything was ever seen to trade: the indices' curb session. */
const CURB_SECONDS = 45 * 60;

/** Whether a date is over: some contracts trade after the others have closed, and its last rows may be fresh. */
export function isOver(
  date: string,
  counts: DayCounts,
  serverNowMs: number,
  calendar: CalendarOverride | undefined,
): boolean {
  // Counted by symbol nobody knows when its last row is: then it is as late as it can be.
  const bySymbol = counts[0]?.symbol !== undefined;
  const lastSecond = bySymbol ? sessionCloseSecond(date, calendar) + CURB_SECONDS : counts.at(-1)?.second;
  return serverNowMs >= settledAt(date, lastSecond, calendar);
}

function buildPlan(
  lookback: LookbackRange,
  serverNowMs: number,
  { wanted, counted, left }: Counted & { readonly wanted: readonly string[] },
  learnt: Learnt,
): RunPlan {
  const planned = (date: string, counts: DayCounts | undefined): PlannedDate => {
    const rows = counts === undefined ? (learnt.date_rows ?? 0) : sumCounts(counts).rows;
    return { date, counts, rows, pages: Math.ceil(rows / learnt.row_limit), expiresAtMs: expiresAt(date) };
  };
  const known = [...counted].filter(([date, counts]) => isOver(date, counts, serverNowMs, lookback.calendar));
  const dates = [
    ...known.map(([date, counts]) => planned(date, counts)),
    ...left.map((date) => planned(date, undefined)),
  ];
  return { lookback, dates, empty: new Set(wanted.filter((date) => !counted.has(date) && !left.includes(date))) };
}
