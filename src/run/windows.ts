/** From counts to the windows that a date is fetched in, with the requests that the planning itself may take. */
import type { Log } from '../core/log.ts';
import type { Job } from '../job/job.ts';
import type { DayCounts } from '../plan/counts.ts';
import { type CutIds, type PackedWindow, packToTheRow, planPacking } from '../plan/pack.ts';
import { buildCut, buildMiddle } from '../plan/statement.ts';
import { type Page, type Source, SourceFault } from '../source/source.ts';
import type { Stage } from '../stage/stage.ts';
import type { Learnt } from './learnt.ts';

export interface WindowDeps {
  readonly source: Source;
  readonly learnt: Learnt;
  readonly log: Log;
  readonly signal?: AbortSignal | undefined;
}

/** Ranks asked in one cut request, so that its text stays far below the server's limit for a query. */
const MAX_CUTS_PER_REQUEST = 1000;
/** Asking for cuts costs a request; it must save more than it costs. */
const MIN_PAGES_SAVED = 2;

/** The windows of a date at the present row limit, without what is staged. */
export async function planWindows(
  deps: WindowDeps,
  job: Job,
  stage: Stage,
  counts: DayCounts,
): Promise<readonly PackedWindow[]> {
  const covered = (await stage.windows()).map(({ window }) => window);
  const limit = deps.learnt.row_limit;
  const packing = planPacking(stage.date, counts, covered, limit);
  if (job.source.kind === 'aggregate') return packing.windows;
  const saved = packing.windows.length - packing.fewest;
  if (packing.overfull === 0 && saved < MIN_PAGES_SAVED) return packing.windows;
  const ids = new Map<number, readonly string[]>();
  for (let at = 0; at < packing.cuts.length; at += MAX_CUTS_PER_REQUEST) {
    const cuts = packing.cuts.slice(at, at + MAX_CUTS_PER_REQUEST);
    const page = await askCuts(deps, buildCut(job, stage.date, cuts, limit));
    // Without the ids the windows between seconds serve; what is too much splits itself.
    if (page === undefined) return packing.windows;
    for (const [second, found] of page) ids.set(second, found);
  }
  return packToTheRow(stage.date, counts, covered, limit, ids);
}

async function askCuts(deps: WindowDeps, sql: string): Promise<CutIds | undefined> {
  try {
    const page = await deps.source.ask(sql, deps.signal ? { signal: deps.signal } : {});
    const [row] = parseRows<{ seconds: readonly number[]; ids: readonly (readonly string[])[] }>(page);
    return new Map(row?.seconds.map((second, at) => [Number(second), (row.ids[at] ?? []).map(String)]));
  } catch (error) {
    // Too broad, or a server that refuses this kind of SQL: the day can be had without the cuts.
    const optional = error instanceof SourceFault && (error.action === 'split' || error.code.startsWith('INVALID_'));
    if (!optional) throw error;
    deps.log.warn({ event: 'cuts-refused', reason: error.message });
    return undefined;
  }
}

/** The id in the middle of a window inside one second; `undefined` when it has one row or none. */
export async function askMiddle(deps: WindowDeps, job: Job, window: PackedWindow): Promise<string | undefined> {
  const page = await deps.source.ask(buildMiddle(job, window), deps.signal ? { signal: deps.signal } : {});
  const [row] = parseRows<{ rows: number; middle: string }>(page);
  return row && Number(row.rows) > 1 ? row.middle : undefined;
}

function parseRows<Row>(page: Page): readonly Row[] {
  return JSON.parse(Buffer.from(page.data).toString('utf8')) as readonly Row[];
}
