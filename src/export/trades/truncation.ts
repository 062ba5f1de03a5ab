/**
 * Whether an answer is the whole page of its window. With `meta` the server says so, and the counts do not matter: rows
 * come and go, and the recount finds them. The portal does not say. There a page with fewer rows than counted, or a full
 * page, has its window counted again, and only rows missing then were cut off.
 */
import type { SqlJob } from '../../job/job.ts';
import type { DayCounts } from '../../plan/counts.ts';
import { countWhole, type PackedWindow } from '../../plan/pack.ts';
import { MAX_PAGE_ROWS, type Page } from '../../source/source.ts';
import { countWindow, type WindowDeps } from './windows.ts';

/** What the pages of a date show about an unknown row limit. */
export interface PageSizes {
  /** Row counts at which pages came up short, each once: a second page that stops there shows a row limit. */
  readonly short: Set<number>;
  /** Rows of the largest page: the limit is no smaller, however many pages stop short of it. */
  largest: number;
}

/**
 * - `smaller-limit`: truncated, by a row limit that is now learnt
 * - `outgrown`: truncated by the limit that its window was planned for, so rows came since they were counted
 */
type PageVerdict = 'whole' | 'truncated' | 'smaller-limit' | 'outgrown';

interface JudgeDeps extends WindowDeps {
  readonly job: SqlJob;
  /** The plan of the window. */
  readonly counts: DayCounts;
}

/** @param sizes of the date's pages so far; this one is added */
export async function judgePage(
  deps: JudgeDeps,
  window: PackedWindow,
  page: Page,
  sizes: PageSizes,
): Promise<PageVerdict> {
  const { limits } = deps;
  sizes.largest = Math.max(sizes.largest, page.rows);
  const isTruncated = page.meta ? page.meta.truncated : await isCut(deps, window, page, sizes);
  if (!isTruncated) return 'whole';
  const limit = page.meta ? Math.min(page.meta.row_limit, MAX_PAGE_ROWS) : guessLimit(page.rows, sizes);
  if (limit !== undefined && limit < limits.rowLimit) {
    limits.rowLimit = limit;
    return 'smaller-limit';
  }
  return window.rows <= limits.rowLimit && page.rows >= limits.rowLimit ? 'outgrown' : 'truncated';
}

async function isCut(deps: JudgeDeps, window: PackedWindow, { rows }: Page, sizes: PageSizes): Promise<boolean> {
  const isShort = rows > 0 && rows < (window.exact ? window.rows : countWhole(deps.counts, window));
  const isFull = rows >= deps.limits.rowLimit && !(window.exact && rows === window.rows);
  if (!isShort && !isFull) return false;
  // A second page that stops at the same size shows the limit: no count is needed.
  if (isShort && isLimit(rows, sizes)) return true;
  return (await countWindow(deps, deps.job, window)) > rows;
}

/**
 * The portal does not name its limit. One short page may have lost a row at the source; if two windows stop at the same
 * count, and none ever brought more, that count is the limit.
 */
function guessLimit(rows: number, sizes: PageSizes): number | undefined {
  if (isLimit(rows, sizes)) return rows;
  sizes.short.add(rows);
  return undefined;
}

function isLimit(rows: number, { short, largest }: PageSizes): boolean {
  return short.has(rows) && rows >= largest;
}
