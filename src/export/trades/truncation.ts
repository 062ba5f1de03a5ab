/**
 * Whether an answer is the whole page of its window. With `meta` the server says so, and what was counted does not matter:
 * rows come and go meanwhile, and the recount finds them. The portal says nothing. There a page with fewer rows than were
 * counted, or as full as can be, is a reason to count its window again, and only rows that are missing then were cut off.
 */
import type { SqlJob } from '../../job/job.ts';
import type { DayCounts } from '../../plan/counts.ts';
import { countWhole, type PackedWindow } from '../../plan/pack.ts';
import type { Page } from '../../source/source.ts';
import { MAX_PAGE_ROWS } from '../../state/limits.ts';
import { countWindow, type WindowDeps } from './windows.ts';

/** What the pages of a date show of a row limit that nobody tells. */
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
export type PageVerdict = 'whole' | 'truncated' | 'smaller-limit' | 'outgrown';

export interface JudgeDeps extends WindowDeps {
  readonly job: SqlJob;
  /** What the window was planned by. */
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
  return page.rows >= limits.rowLimit ? 'outgrown' : 'truncated';
}

async function isCut(deps: JudgeDeps, window: PackedWindow, { rows }: Page, sizes: PageSizes): Promise<boolean> {
  const isShort = rows > 0 && rows < (window.exact ? window.rows : countWhole(deps.counts, window));
  const isFull = rows >= deps.limits.rowLimit && !(window.exact && rows === window.rows);
  if (!isShort && !isFull) return false;
  // What was found by counting once need not be counted again: this is the limit.
  if (isShort && isLimit(rows, sizes)) return true;
  return (await countWindow(deps, deps.job, window)) > rows;
}

/**
 * The portal tells no limit. One short page may have lost a row to the source; when two windows stop at the same count,
 * and none ever brought more, that count is the limit.
 */
function guessLimit(rows: number, sizes: PageSizes): number | undefined {
  if (isLimit(rows, sizes)) return rows;
  sizes.short.add(rows);
  return undefined;
}

function isLimit(rows: number, { short, largest }: PageSizes): boolean {
  return short.has(rows) && rows >= largest;
}
