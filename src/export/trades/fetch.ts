/**
 * Fetching one date: its counts -> windows -> pages in the stage. Several requests are in flight, their starts paced by
 * the source. A window that is too large is split; a smaller row limit replans what is left. Staged windows are never
 * requested again.
 */
import { z } from 'zod';
import { type Bound, compareBounds, formatWindow, isEmptyWindow } from '../../calendar/window.ts';
import { assertNotAborted, Fault } from '../../core/errors.ts';
import { formatCount } from '../../core/units.ts';
import { axisOf, type DayCounts, readCount, sumCounts } from '../../plan/counts.ts';
import { buildGroupMiddle, readGroupPlace } from '../../plan/group-statement.ts';
import { countWhole, MAX_DATE_PAGES, type PackedWindow, packWindows, planSplit, splitWindow } from '../../plan/pack.ts';
import { buildMiddle, buildPage, buildWindowCount, parseMiddle } from '../../plan/statement.ts';
import type { OpenedSql } from '../../run/open-source.ts';
import type { Run } from '../../run/run.ts';
import { MAX_PAGE_ROWS, type Page, SourceFault } from '../../source/source.ts';
import type { Stage } from '../../stage/stage.ts';
import { WorkQueue } from '../work-queue.ts';

/** The source of a run, and who hears how far it is. */
export type Fetching = OpenedSql & Pick<Run, 'onEvent'>;

/** Retries of a window that is sometimes too large and sometimes not. */
const MAX_REPEATS = 2;

/** So many windows may outgrow their page and be split; with one more, the counts are out of date. */
const MAX_OUTGROWN = 2;
/** Most recounts for that reason; after them windows are split, however many. */
const MAX_RECOUNTS = 3;

/** Below this many rows in a page, only a small date is worth fetching: a session of the market would take days. */
export const FEW_PAGE_ROWS = 100;
const FEW_PAGES = 1_000;

/**
 * Stages every row that the counts promise.
 * @param countAgain counts the date anew, the same way
 * @returns the counts that the last windows were planned by
 * @throws Fault when a window finally fails, after the others are staged
 */
export async function fetchDate(
  run: Fetching,
  stage: Stage,
  given: DayCounts,
  countAgain: () => Promise<DayCounts>,
): Promise<DayCounts> {
  const sizes: PageSizes = { short: new Set(), largest: 0 };
  let counts = given;
  for (let recounts = 0; ; ) {
    const windows = await planWindows(run.limits.rowLimit, stage, counts);
    if (windows.length === 0) return counts;
    const fetch = new WindowFetch(run, stage, counts, sizes, recounts < MAX_RECOUNTS);
    await fetch.run(windows);
    if (!fetch.mustReplan) return counts;
    if (!fetch.isOutdated) continue;
    recounts += 1;
    const fresh = await countAgain();
    // Windows along the other axis would not tile the date together with the staged ones.
    if (axisOf(fresh) === axisOf(counts)) counts = fresh;
  }
}

/** Stages windows of counted rows. @throws Fault when one finally fails, after the others are staged */
export async function fetchWindows(
  run: Fetching,
  stage: Stage,
  windows: readonly PackedWindow[],
  counts: DayCounts,
): Promise<void> {
  await new WindowFetch(run, stage, counts, { short: new Set(), largest: 0 }, false).run(windows);
}

/** The windows of a date at a row limit, without staged ones. */
export async function planWindows(
  limit: number,
  stage: Pick<Stage, 'date' | 'windows'>,
  counts: DayCounts,
): Promise<readonly PackedWindow[]> {
  const covered = (await stage.windows()).map(({ window }) => window);
  assertFewPages(stage.date, sumCounts(counts).rows, limit);
  return packWindows(stage.date, counts, covered, limit);
}

/**
 * Fails before the first page of a date that cannot be fetched in time.
 * @throws Fault `ROW_LIMIT_UNUSABLE`, `DATE_TOO_LARGE`
 */
export function assertFewPages(date: string, rows: number, limit: number): void {
  const requests = `${formatCount(Math.ceil(rows / limit))} requests`;
  if (rows > limit && (limit === 1 || (limit < FEW_PAGE_ROWS && rows / limit > FEW_PAGES))) {
    const needed = `${formatCount(rows)} rows of ${date} need ${requests}`;
    throw new Fault('ROW_LIMIT_UNUSABLE', `the API's row limit is ${limit}, which is unusable: ${needed}`, {
      hint: 'Nothing was fetched. `flowdrop doctor` shows the row limit. The key may be a capped trial, or the server set up wrong: ask the provider.',
    });
  }
  if (rows / limit <= MAX_DATE_PAGES) return;
  const pages = `${formatCount(rows)} rows of ${date} at ${formatCount(limit)} per page need ${requests}`;
  throw new Fault('DATE_TOO_LARGE', `${pages}; ${formatCount(MAX_DATE_PAGES)} at most`, {
    hint: 'Check the row limit with `flowdrop doctor`. If both numbers are right, narrow the job with `where`.',
  });
}

/** What the pages of a date show about an unknown row limit. */
interface PageSizes {
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

/** Fetches and stages the windows of one plan. */
class WindowFetch {
  /** A smaller row limit was found, or the counts are out of date: the rest is planned again. */
  mustReplan = false;
  isOutdated = false;
  readonly #run: Fetching;
  readonly #stage: Stage;
  readonly #counts: DayCounts;
  readonly #sizes: PageSizes;
  readonly #mayRecount: boolean;
  #outgrown = 0;
  /** Windows that were retried unchanged, and how often. */
  readonly #repeated = new Map<string, number>();

  /**
   * @param sizes of the pages of the whole date
   * @param mayRecount whether the date is counted again when many windows outgrow their pages
   */
  constructor(run: Fetching, stage: Stage, counts: DayCounts, sizes: PageSizes, mayRecount: boolean) {
    this.#run = run;
    this.#stage = stage;
    this.#counts = counts;
    this.#sizes = sizes;
    this.#mayRecount = mayRecount;
  }

  async run(windows: readonly PackedWindow[]): Promise<void> {
    const { source, limits, log } = this.#run;
    const queue = new WorkQueue<PackedWindow>(windows, {
      date: this.#stage.date,
      plural: 'windows',
      log,
      formatPiece: formatWindow,
      pace: () => ({ answerMs: source.stats.answerMs || limits.answerMs, intervalMs: source.intervalMs() }),
      work: (window, own) => this.#fetch(window, own),
      tooBroadCode: 'WINDOW_TOO_BROAD',
    });
    await queue.run();
  }

  async #fetch(window: PackedWindow, queue: WorkQueue<PackedWindow>): Promise<void> {
    const { source, limits, job, onEvent, signal } = this.#run;
    assertNotAborted(signal);
    let page: Page;
    try {
      page = await source.ask(buildPage(job, window, limits.dayEdges), { signal });
    } catch (error) {
      if (!(error instanceof SourceFault) || error.action !== 'split') throw error;
      await this.#split(window, error, queue);
      return;
    }
    const verdict = await this.#judge(window, page);
    if (verdict === 'smaller-limit') this.mustReplan = true;
    if (verdict === 'outgrown') this.#noteOutgrown();
    if (this.mustReplan) queue.stop();
    if (verdict !== 'whole') {
      if (!this.mustReplan) await this.#split(window, undefined, queue);
      return;
    }
    queue.noteAnswer();
    if (page.rows > 0) limits.rowBytes = page.data.byteLength / page.rows;
    queue.hire();
    await this.#stage.put(window, page);
    onEvent({ kind: 'page', date: window.date, window: formatWindow(window), rows: page.rows });
  }

  /**
   * Whether an answer is the whole page of its window. With `meta` the server says so, and the counts do not matter: rows
   * come and go, and the recount finds them. The portal does not say. There a page with fewer rows than counted, or a full
   * page, has its window counted again, and only rows missing then were cut off.
   */
  async #judge(window: PackedWindow, { meta, rows }: Page): Promise<PageVerdict> {
    const { limits } = this.#run;
    this.#sizes.largest = Math.max(this.#sizes.largest, rows);
    if (!(meta ? meta.truncated : await this.#isCut(window, rows))) return 'whole';
    const limit = meta ? Math.min(meta.row_limit, MAX_PAGE_ROWS) : this.#guessLimit(rows);
    if (limit !== undefined && limit < limits.rowLimit) {
      limits.rowLimit = limit;
      return 'smaller-limit';
    }
    return window.rows <= limits.rowLimit && rows >= limits.rowLimit ? 'outgrown' : 'truncated';
  }

  async #isCut(window: PackedWindow, rows: number): Promise<boolean> {
    const isShort = rows > 0 && rows < (window.exact ? window.rows : countWhole(this.#counts, window));
    const isFull = rows >= this.#run.limits.rowLimit && !(window.exact && rows === window.rows);
    if (!isShort && !isFull) return false;
    // A second page that stops at the same size shows the limit: no count is needed.
    if (isShort && this.#isLimit(rows)) return true;
    return (await countWindow(this.#run, window)) > rows;
  }

  /**
   * The portal does not name its limit. One short page may have lost a row at the source; if two windows stop at the same
   * count, and none ever brought more, that count is the limit.
   */
  #guessLimit(rows: number): number | undefined {
    if (this.#isLimit(rows)) return rows;
    this.#sizes.short.add(rows);
    return undefined;
  }

  #isLimit(rows: number): boolean {
    return this.#sizes.short.has(rows) && rows >= this.#sizes.largest;
  }

  /** A window has outgrown its page. Where many have, counting the date again is cheaper than splitting each. */
  #noteOutgrown(): void {
    this.#outgrown += 1;
    if (!this.#mayRecount || this.#outgrown <= MAX_OUTGROWN) return;
    this.isOutdated = true;
    this.mustReplan = true;
  }

  async #split(window: PackedWindow, cause: SourceFault | undefined, queue: WorkQueue<PackedWindow>): Promise<void> {
    const at = await this.#findCut(window, cause);
    const isAny = (half: PackedWindow) => !isEmptyWindow(half) && !(half.exact && half.rows === 0);
    const halves = at === undefined ? [window] : splitWindow(window, at, this.#counts).filter(isAny);
    const reason = cause ? cause.code : 'truncated';
    this.#run.onEvent({ kind: 'split', date: window.date, window: formatWindow(window), reason });
    queue.putFirst(halves);
    // Until the row limit is known, further pages in flight would be wasted.
    if (cause) queue.hire();
  }

  /** @returns `undefined` where the window has lost rows meanwhile and fits unchanged */
  async #findCut(window: PackedWindow, cause: SourceFault | undefined): Promise<Bound | undefined> {
    const { job, limits } = this.#run;
    const { source } = job;
    const grainSeconds = source.kind === 'aggregate' ? source.grainSeconds : 1;
    const hasKey = source.kind === 'rows' || source.splitColumns.length > 0;
    const cut = planSplit(window, this.#counts, grainSeconds, hasKey);
    if (typeof cut === 'object') return cut;
    if (cut === 'ask-middle') {
      const { rows, at } = await askMiddle(this.#run, window);
      if (at && compareBounds(window.from, at) < 0 && compareBounds(at, window.to) < 0) return at;
      const fits = cause === undefined && source.kind === 'rows' && rows <= limits.rowLimit;
      if (fits && this.#mayRepeat(window)) return undefined;
    }
    throw new Fault(
      'WINDOW_TOO_BROAD',
      `${window.date} ${formatWindow(window)} cannot be split further, and it is still too large for the API`,
      {
        cause,
        hint:
          source.kind === 'aggregate'
            ? 'One grain has more groups than a page holds: name further columns of the GROUP BY under `split`, or add a condition.'
            : 'Narrow the job, for instance with `where: symbol IN (...)`.',
      },
    );
  }

  #mayRepeat(window: PackedWindow): boolean {
    const name = formatWindow(window);
    const repeats = (this.#repeated.get(name) ?? 0) + 1;
    this.#repeated.set(name, repeats);
    return repeats <= MAX_REPEATS;
  }
}

const middleSchema = z.object({ rows: z.unknown(), middle: z.unknown() });

/** The place in the middle of a window's rows, `undefined` without one, and the number of its rows now. */
async function askMiddle(
  { source, limits, job, signal }: OpenedSql,
  window: PackedWindow,
): Promise<{ readonly rows: number; readonly at: Bound | undefined }> {
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
async function countWindow({ source, limits, job, signal }: OpenedSql, window: PackedWindow): Promise<number> {
  try {
    const { firstRow, data } = await source.ask(buildWindowCount(job, window, limits.dayEdges), { signal });
    const rows = readCount(firstRow?.['rows']);
    if (rows !== undefined) return rows;
    const head = Buffer.from(data.subarray(0, 200)).toString('utf8');
    throw new SourceFault('INVALID_ANSWER', `the API sent no valid count of a window: ${head}`, { action: 'fail' });
  } catch (error) {
    if (error instanceof SourceFault && error.action === 'split') return Number.POSITIVE_INFINITY;
    throw error;
  }
}
