/**
 * What a run would do: the dates it goes for with their counts. Costs one request where the API allows it. The clock of
 * an API that was never asked before is learnt from the first answer; if it is another day there, the plan is made again.
 */
import { Fault } from '../core/errors.ts';
import type { Job } from '../job/job.ts';
import { type DayCounts, sumCounts } from '../plan/counts.ts';
import { computeLookback, expiresAt, type LookbackRange, listUnsealed, settledAt } from '../plan/dates.ts';
import type { Source } from '../source/source.ts';
import type { Learnt } from './learnt.ts';
import { probeRows } from './probe.ts';

export interface PlannedDate {
  readonly date: string;
  readonly counts: DayCounts;
  readonly rows: number;
  /** Fewest pages at the present row limit. */
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
  readonly signal?: AbortSignal | undefined;
}

/** Restricts a plan to `[from, to]`, both included. */
export interface DateRange {
  readonly from: string;
  readonly to: string;
}

/** A clock that is off by more than this belongs to a simulation or a broken machine: it is asked for again. */
const TRUSTED_OFFSET_MS = 5 * 60_000;

/** A clock that was wrong is right after one answer; a day may end between two more. */
const MAX_CLOCK_ROUNDS = 4;

/**
 * @param sealed dates that have a manifest
 * @throws SourceFault; Fault `DATE_EXPIRED` naming the earliest date that can still be had
 */
export async function planRun(
  deps: PlanDeps,
  job: Job,
  sealed: ReadonlySet<string>,
  range?: DateRange,
): Promise<RunPlan> {
  const { source, learnt } = deps;
  const list = (lookback: LookbackRange) =>
    listUnsealed(lookback, sealed).filter((date) => !range || (date >= range.from && date <= range.to));
  let lookback = computeLookback(source.serverNow());
  const outside = range !== undefined && range.from < lookback.firstWhole;
  if (outside || (list(lookback).length === 0 && Math.abs(learnt.clock_offset_ms) > TRUSTED_OFFSET_MS)) {
    await source.ask(`SELECT id FROM ${job.source.table} LIMIT 1`, {
      testMode: true,
      ...(deps.signal ? { signal: deps.signal } : {}),
    });
    lookback = computeLookback(source.serverNow());
  }
  if (range) assertInsideLookback(range, lookback);
  for (let round = 0; round < MAX_CLOCK_ROUNDS; round += 1) {
    const wanted = list(lookback);
    const asked = wanted.length > 0 ? await probeRows(deps, job, wanted) : new Map<string, DayCounts>();
    const now = computeLookback(source.serverNow());
    if (now.firstWhole === lookback.firstWhole && now.lastSettled === lookback.lastSettled) {
      const found = [...asked].filter(([date]) => !sealed.has(date) && date >= now.firstWhole);
      return buildPlan(now, source.serverNow(), wanted, new Map(found), learnt.row_limit);
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

function buildPlan(
  lookback: LookbackRange,
  serverNowMs: number,
  wanted: readonly string[],
  asked: ReadonlyMap<string, DayCounts>,
  rowLimit: number,
): RunPlan {
  const dates = [...asked].flatMap(([date, counts]): PlannedDate[] => {
    // Some contracts trade after the others have closed: a date whose last rows are that fresh is not over.
    if (serverNowMs < settledAt(date, counts.at(-1)?.second)) return [];
    const { rows } = sumCounts(counts);
    return [{ date, counts, rows, pages: Math.ceil(rows / rowLimit), expiresAtMs: expiresAt(date) }];
  });
  return { lookback, dates, empty: new Set(wanted.filter((date) => !asked.has(date))) };
}
