/** From counts to the windows of a date, and the requests that say more about one window: its rows now, its middle. */
import { z } from 'zod';
import type { Bound } from '../../calendar/window.ts';
import { Fault } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import { formatCount } from '../../core/units.ts';
import type { SqlJob } from '../../job/job.ts';
import { type DayCounts, readCount, sumCounts } from '../../plan/counts.ts';
import { buildGroupMiddle, readGroupPlace } from '../../plan/group-statement.ts';
import { MAX_DATE_PAGES, type PackedWindow, packWindows } from '../../plan/pack.ts';
import { buildMiddle, buildWindowCount, parseMiddle } from '../../plan/statement.ts';
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
  { rowLimit: limit }: Pick<ApiLimits, 'rowLimit'>,
  stage: Pick<Stage, 'date' | 'windows'>,
  counts: DayCounts,
): Promise<readonly PackedWindow[]> {
  const covered = (await stage.windows()).map(({ window }) => window);
  assertFewPages(stage.date, sumCounts(counts).rows, limit);
  return packWindows(stage.date, counts, covered, limit);
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
