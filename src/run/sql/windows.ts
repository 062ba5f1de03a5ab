/** From counts to the windows that a date is fetched in, with the requests that the planning itself may take. */
import type { Bound } from '../../calendar/window.ts';
import type { Log } from '../../core/log.ts';
import type { SqlJob } from '../../job/job.ts';
import { type DayCounts, keyOf } from '../../plan/counts.ts';
import { groupCuts } from '../../plan/cut-groups.ts';
import { type CutPlaces, type CutRequest, type PackedWindow, packToTheRow, planPacking } from '../../plan/pack.ts';
import { buildCut, buildMiddle, parseMiddle, parsePlace } from '../../plan/statement.ts';
import { type Page, type Source, SourceFault } from '../../source/source.ts';
import type { Stage } from '../../stage/stage.ts';
import type { Learnt } from '../learnt.ts';

export interface WindowDeps {
  readonly source: Source;
  readonly learnt: Learnt;
  readonly log: Log;
  readonly signal?: AbortSignal | undefined;
}

/** The windows of a date at the present row limit, without what is staged. */
export async function planWindows(
  deps: WindowDeps,
  job: SqlJob,
  stage: Pick<Stage, 'date' | 'windows'>,
  counts: DayCounts,
): Promise<readonly PackedWindow[]> {
  const covered = (await stage.windows()).map(({ window }) => window);
  const limit = deps.learnt.row_limit;
  const packing = planPacking(stage.date, counts, covered, limit);
  if (job.source.kind === 'aggregate') return packing.windows;
  const { refused_rows: refused, passed_rows: passed } = deps.learnt;
  const most = refused === null ? Number.POSITIVE_INFINITY : Math.max(1, passed);
  const requests = groupCuts(packing.cuts, counts, most);
  const saved = packing.windows.length - packing.fewest;
  // It must save more than it costs.
  if (packing.overfull === 0 && saved <= requests.length) return packing.windows;
  const places = new Map<string, readonly Bound[]>();
  for (const cuts of requests) {
    const found = await askCuts(deps, job, stage.date, cuts);
    // Without the places the windows between cells serve; what is too much splits itself.
    if (found === undefined) return packing.windows;
    for (const [key, bounds] of found) places.set(key, bounds);
  }
  return packToTheRow(stage.date, counts, covered, limit, places);
}

/** @returns `undefined` where the server refuses this kind of SQL, or even one cell is too much */
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
      const page = await deps.source.ask(
        buildCut(job, date, next, deps.learnt.row_limit, deps.learnt.day_edges),
        deps.signal ? { signal: deps.signal } : {},
      );
      for (const [key, bounds] of readPlaces(page, next)) places.set(key, bounds);
    } catch (error) {
      const isTooBroad = error instanceof SourceFault && error.action === 'split';
      if (isTooBroad && next.length > 1) {
        const middle = Math.ceil(next.length / 2);
        queue.unshift(next.slice(0, middle), next.slice(middle));
        continue;
      }
      // The day can be had without the cuts.
      const isOptional = isTooBroad || (error instanceof SourceFault && error.code.startsWith('INVALID_'));
      if (!isOptional) throw error;
      deps.log.warn(
        { event: 'cuts-refused', reason: error.message },
        `the day is fetched without cuts: ${error.message}`,
      );
      return undefined;
    }
  }
  return places;
}

function readPlaces(page: Page, cuts: readonly CutRequest[]): CutPlaces {
  const [row] = parseRows<{ cells: readonly (string | number)[]; places: readonly (readonly string[])[] }>(page);
  const byName = new Map(row?.cells.map((cell, at) => [String(cell), row.places[at] ?? []]));
  return new Map(
    cuts.map(({ cell, ranks }) => {
      const found = byName.get(cell.symbol ?? String(cell.second)) ?? [];
      // Of a part of a symbol's day, what follows it was ranked too.
      return [keyOf(cell), found.slice(0, ranks.length).map((place) => parsePlace(cell, String(place)))];
    }),
  );
}

/** The place in the middle of a window's rows; `undefined` when there is none. */
export async function askMiddle(deps: WindowDeps, job: SqlJob, window: PackedWindow): Promise<Bound | undefined> {
  const { source, learnt, signal } = deps;
  const page = await source.ask(buildMiddle(job, window, learnt.day_edges), signal ? { signal } : {});
  const [row] = parseRows<{ rows: number; middle: string }>(page);
  if (row === undefined || Number(row.rows) < 2) return undefined;
  return parseMiddle(window, row.middle);
}

function parseRows<Row>(page: Page): readonly Row[] {
  return JSON.parse(Buffer.from(page.data).toString('utf8')) as readonly Row[];
}
