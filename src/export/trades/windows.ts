/** From counts to the windows of a date, with the requests that planning itself needs. */
import { z } from 'zod';
import { SECONDS_PER_DAY } from '../../calendar/wall-clock.ts';
import type { Bound } from '../../calendar/window.ts';
import { Fault } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import { formatCount } from '../../core/units.ts';
import type { SqlJob } from '../../job/job.ts';
import { type DayCounts, keyOf, readCount, sumCounts } from '../../plan/counts.ts';
import { groupCuts } from '../../plan/cut-groups.ts';
import { buildGroupMiddle, readGroupPlace } from '../../plan/group-statement.ts';
import {
  type CutPlaces,
  type CutRequest,
  MAX_DATE_PAGES,
  type PackedWindow,
  packToTheRow,
  planPacking,
} from '../../plan/pack.ts';
import { packGroups } from '../../plan/pack-groups.ts';
import { cutStretch } from '../../plan/profile.ts';
import { buildCut, buildMiddle, buildWindowCount, parseMiddle, parsePlace } from '../../plan/statement.ts';
import { type Page, type Source, SourceFault } from '../../source/source.ts';
import type { Stage } from '../../stage/stage.ts';
import type { ApiLimits } from '../../state/limits.ts';

export interface WindowDeps {
  readonly source: Source;
  readonly limits: ApiLimits;
  readonly log: Log;
  readonly signal?: AbortSignal | undefined;
}

/** The windows of a date at the current row limit, without staged ones. */
export async function planWindows(
  deps: WindowDeps,
  job: SqlJob,
  stage: Pick<Stage, 'date' | 'windows'>,
  counts: DayCounts,
): Promise<readonly PackedWindow[]> {
  const covered = (await stage.windows()).map(({ window }) => window);
  const limit = deps.limits.rowLimit;
  assertFewPages(stage.date, sumCounts(counts).rows, limit);
  if (job.source.kind === 'aggregate') return packGroups(stage.date, counts, covered, limit);
  const packing = planPacking(stage.date, counts, covered, limit);
  const { refusedRows: refused, passedRows: passed } = deps.limits;
  const most = refused === null ? Number.POSITIVE_INFINITY : Math.max(1, passed);
  const requests = groupCuts(packing.cuts, counts, most);
  const saved = packing.windows.length - packing.fewest;
  // The request for cuts must save more than it costs.
  if (packing.overfull === 0 && saved <= requests.length) return packing.windows;
  const places = new Map<string, readonly Bound[]>();
  for (const cuts of requests) {
    const found = await askCuts(deps, job, stage.date, cuts);
    // Without cuts, windows end between cells; those that are too large are split later.
    if (found === undefined) return packing.windows;
    for (const [key, bounds] of found) places.set(key, bounds);
  }
  return packToTheRow(stage.date, counts, covered, limit, places);
}

/** Below this many rows in a page, only a small date is worth fetching: a session of the market would take days. */
export const FEW_PAGE_ROWS = 100;
const FEW_PAGES = 1_000;

/**
 * Fails before the first page of a date that cannot be fetched in time.
 * @throws Fault `ROW_LIMIT_UNUSABLE`, `DATE_TOO_LARGE`
 */
export function assertFewPages(date: string, rows: number, limit: number): void {
  if (rows > limit && (limit === 1 || (limit < FEW_PAGE_ROWS && rows / limit > FEW_PAGES))) {
    const needed = `${formatCount(rows)} rows of ${date} need ${formatCount(Math.ceil(rows / limit))} requests`;
    throw new Fault('ROW_LIMIT_UNUSABLE', `the API's row limit is ${limit}, which is unusable: ${needed}`, {
      hint: 'Nothing was fetched. `flowdrop doctor` shows the row limit. The key may be a capped trial, or the server set up wrong: ask the provider.',
    });
  }
  if (rows / limit <= MAX_DATE_PAGES) return;
  const pages = `${formatCount(rows)} rows of ${date} at ${formatCount(limit)} per page need ${formatCount(Math.ceil(rows / limit))} requests`;
  throw new Fault('DATE_TOO_LARGE', `${pages}; ${formatCount(MAX_DATE_PAGES)} at most`, {
    hint: 'Check the row limit with `flowdrop doctor`. If both numbers are right, narrow the job with `where`.',
  });
}

/** @returns `undefined` where the server refuses this SQL, or even one cell is too broad */
async function askCuts(
  deps: WindowDeps,
  job: SqlJob,
  date: string,
  cuts: readonly CutRequest[],
): Promise<CutPlaces | undefined> {
  const places = new Map<string, readonly Bound[]>();
  const queue: (readonly CutRequest[])[] = [cuts];
  for (let next = queue.shift(); next; next = queue.shift()) {
    try {
      const page = await deps.source.ask(buildCut(job, date, next, deps.limits.rowLimit, deps.limits.dayEdges), {
        signal: deps.signal,
      });
      const found = readPlaces(page, next);
      if (found === undefined)
        throw new SourceFault('INVALID_ANSWER', `the API sent no valid window boundaries: ${headOf(page)}`, {
          action: 'fail',
        });
      for (const [key, bounds] of found) places.set(key, bounds);
    } catch (error) {
      const isTooBroad = error instanceof SourceFault && error.action === 'split';
      if (isTooBroad && next.length > 1) {
        const middle = Math.ceil(next.length / 2);
        queue.unshift(next.slice(0, middle), next.slice(middle));
        continue;
      }
      // The day can be fetched without cuts.
      const isOptional = isTooBroad || (error instanceof SourceFault && error.code.startsWith('INVALID_'));
      if (!isOptional) throw error;
      deps.log.warn(
        { event: 'cuts-refused', reason: error.message },
        `the day is fetched without exact window boundaries: ${error.message}`,
      );
      return undefined;
    }
  }
  return places;
}

const placesSchema = z.object({
  cells: z.array(z.union([z.string(), z.number()])),
  places: z.array(z.array(z.string())),
});

/** @returns `undefined` when the answer is malformed */
function readPlaces(page: Page, cuts: readonly CutRequest[]): CutPlaces | undefined {
  const row = placesSchema.safeParse(page.firstRow).data;
  if (row === undefined) return undefined;
  const byName = new Map(row.cells.map((cell, at) => [String(cell), row.places[at] ?? []]));
  const found = cuts.map(({ cell, ranks }): [string, readonly Bound[]] => {
    const places = byName.get(cell.symbol ?? String(cell.second)) ?? [];
    // The rows after this part of the symbol's day were ranked too.
    return [keyOf(cell), places.slice(0, ranks.length).map((place) => parsePlace(cell, place))];
  });
  const isInDay = ({ second }: Bound) => Number.isInteger(second) && second >= 0 && second <= SECONDS_PER_DAY;
  return found.every(([, bounds]) => bounds.every(isInDay)) ? new Map(found) : undefined;
}

const middleSchema = z.object({ rows: z.unknown(), middle: z.unknown() });

/** The place in the middle of a window's rows, `undefined` without one, and the number of its rows now. */
export async function askMiddle(
  deps: WindowDeps,
  job: SqlJob,
  window: PackedWindow,
): Promise<{ readonly rows: number; readonly at: Bound | undefined }> {
  const { source, limits, signal } = deps;
  const isGrouped = job.source.kind === 'aggregate';
  const build = isGrouped ? buildGroupMiddle : buildMiddle;
  const page = await source.ask(build(job, window, limits.dayEdges), { signal });
  const row = middleSchema.safeParse(page.firstRow).data;
  const rows = readCount(row?.rows) ?? 0;
  if (rows < 2) return { rows, at: undefined };
  if (isGrouped) return { rows, at: readMiddle(window, row?.middle) };
  const middle = typeof row?.middle === 'string' ? parseMiddle(window, row.middle) : undefined;
  return { rows, at: middle && Number.isInteger(middle.second) ? middle : undefined };
}

/** By time a window lies in one grain when its middle is asked for, whatever the time of its groups. */
function readMiddle({ from }: PackedWindow, middle: unknown): Bound | undefined {
  const at = readGroupPlace(from.symbol, middle);
  return at === undefined || from.symbol !== undefined ? at : { ...at, second: from.second };
}

/** The approximate middle of a window of one symbol, by the usual spread of a day's rows; else `undefined`. */
export function middleOfSymbol({ from, to }: PackedWindow, limits: ApiLimits): Bound | undefined {
  const { symbol } = from;
  if (symbol === undefined || symbol !== to.symbol) return undefined;
  const [half] = cutStretch(limits.profile('time'), { from: { second: from.second }, to: { second: to.second } }, 2, 1);
  const second = half?.to.second ?? to.second;
  return second > from.second && second < to.second ? { symbol, second } : undefined;
}

/** Rows of a window now; more than any page has if even the count is too broad. */
export async function countWindow(deps: WindowDeps, job: SqlJob, window: PackedWindow): Promise<number> {
  const { source, limits, signal } = deps;
  try {
    const page = await source.ask(buildWindowCount(job, window, limits.dayEdges), { signal });
    const rows = readCount(page.firstRow?.['rows']);
    if (rows !== undefined) return rows;
    throw new SourceFault('INVALID_ANSWER', `the API sent no valid count of a window: ${headOf(page)}`, {
      action: 'fail',
    });
  } catch (error) {
    if (error instanceof SourceFault && error.action === 'split') return Number.POSITIVE_INFINITY;
    throw error;
  }
}

function headOf(page: Page): string {
  return Buffer.from(page.data.subarray(0, 200)).toString('utf8');
}
