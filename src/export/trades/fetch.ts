/**
 * Fetching one date: its counts -> windows -> pages in the stage. Several requests are in flight, their starts paced by
 * the source. Windows are cut between cells (`packWindows`); one that is too large is cut by `cutLarge`; a smaller
 * row limit replans what is left. Staged windows are never requested again.
 */
import { z } from 'zod';
import { type Axis, compareBounds, formatWindow, isEmptyWindow } from '../../calendar/window.ts';
import { assertNotAborted, Fault } from '../../core/errors.ts';
import { formatCount } from '../../core/units.ts';
import { axisOf, cutStretch } from '../../plan/axis.ts';
import { type DayCounts, readCount, sumCounts } from '../../plan/counts.ts';
import {
  type CutPlace,
  countWhole,
  cutWindow,
  findMiddle,
  MAX_DATE_PAGES,
  type PackedWindow,
  packWindows,
} from '../../plan/pack.ts';
import { buildCuts, buildPage, buildWindowCount, readCut } from '../../plan/statement.ts';
import type { OpenedSql } from '../../run/open-source.ts';
import type { Run } from '../../run/run.ts';
import { MAX_PAGE_ROWS, type Page, SourceFault } from '../../source/source.ts';
import type { Stage } from '../../stage/stage.ts';
import { type WorkQueue, workOff } from '../work-queue.ts';
import { askBroadly } from './scan.ts';

/** The source of a run, and who hears how far it is. */
export type Fetching = OpenedSql & Pick<Run, 'onEvent'>;

/** Retries of a window that is sometimes too large and sometimes not. */
const MAX_REPEATS = 2;

/** Below this many rows in a page, only a small date is worth fetching: a session of the market would take days. */
export const FEW_PAGE_ROWS = 100;
const FEW_PAGES = 1_000;

/** Stages every row that the counts promise. @throws Fault when a window finally fails, after the others are staged */
export async function fetchDate(run: Fetching, stage: Stage, counts: DayCounts): Promise<void> {
  const sizes = noSizes();
  for (let isDone = false; !isDone; ) {
    const { rowLimit } = run.limits;
    assertFewPages(stage.date, sumCounts(counts).rows, rowLimit);
    const covered = (await stage.windows()).map(({ window }) => window);
    const windows = packWindows(stage.date, counts, covered, rowLimit, mostAtOnce(run, counts));
    isDone = await fetchWindows(run, stage, windows, counts, sizes);
  }
}

/** Pages whose ends are asked for at once: the server sorts their rows. */
const MAX_CUT_PAGES = 50;

/**
 * Most rows of a window whose ends of pages are asked for: pages that end between cells with more rows than a page would
 * not be full. A second is rarely larger than a page: it is cut alone. Groups are asked for only where they must be: the
 * keys that order them need not tell all apart.
 */
function mostAtOnce({ limits, job }: OpenedSql, counts: DayCounts): number {
  const { rowLimit, refusedRows, passedRows, dateRows } = limits;
  const isGroups = job.source.kind === 'aggregate';
  if (axisOf(counts) === 'time' && job.source.grainSeconds === 1) return rowLimit;
  if (isGroups && counts.every(({ rows }) => rows <= rowLimit)) return rowLimit;
  const share = refusedRows === null || dateRows === null ? 1 : passedRows / dateRows;
  return Math.max(rowLimit, Math.min(MAX_CUT_PAGES * rowLimit, sumCounts(counts).rows * share));
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

const noSizes = (): PageSizes => ({ short: new Set(), largest: 0 });

/**
 * Fetches and stages windows of counted rows.
 * @param sizes of the pages of the whole date
 * @returns `false` if the rest is to be planned again, because a smaller row limit was found
 * @throws Fault when one finally fails, after the others are staged
 */
export async function fetchWindows(
  run: Fetching,
  stage: Stage,
  windows: readonly PackedWindow[],
  counts: DayCounts,
  sizes = noSizes(),
): Promise<boolean> {
  const { source, limits, job, log, onEvent, signal } = run;
  const { date } = stage;
  let isDone = true;
  /** Windows that were retried unchanged, and how often. */
  const repeated = new Map<string, number>();

  const mayRepeat = (window: PackedWindow) => {
    const repeats = (repeated.get(formatWindow(window)) ?? 0) + 1;
    repeated.set(formatWindow(window), repeats);
    return repeats <= MAX_REPEATS;
  };

  const split = async (window: PackedWindow, cause: SourceFault | undefined, queue: WorkQueue<PackedWindow>) => {
    const parts = await cutLarge(run, counts, window, () => cause === undefined && mayRepeat(window), cause);
    const reason = cause ? cause.code : 'truncated';
    onEvent({ kind: 'split', date, window: formatWindow(window), reason });
    queue.putFirst(parts);
    // Until the row limit is known, further pages in flight would be wasted.
    if (cause) queue.hire();
  };

  const fetchWindow = async (window: PackedWindow, queue: WorkQueue<PackedWindow>) => {
    assertNotAborted(signal);
    if (window.rows > limits.rowLimit) {
      queue.putFirst(await cutLarge(run, counts, window, () => mayRepeat(window)));
      queue.hire();
      return;
    }
    const page = await askBroadly(run, buildPage(job, window, limits.dayEdges));
    if (page instanceof SourceFault) return await split(window, page, queue);
    const known = limits.rowLimit;
    const isWhole = await isWholePage(run, counts, window, page, sizes);
    if (limits.rowLimit < known) {
      isDone = false;
      queue.stop();
    }
    if (!isWhole) {
      if (isDone) await split(window, undefined, queue);
      return;
    }
    queue.noteAnswer();
    if (page.rows > 0) limits.rowBytes = page.data.byteLength / page.rows;
    queue.hire();
    await stage.put(window, page);
    onEvent({ kind: 'page', date, window: formatWindow(window), rows: page.rows });
  };

  const pace = () => ({ answerMs: source.stats.answerMs || limits.answerMs, intervalMs: source.intervalMs() });
  const options = { date, plural: 'windows', log, formatPiece: formatWindow, pace, work: fetchWindow };
  await workOff(windows, options);
  return isDone;
}

/**
 * Whether an answer is the whole page of its window. With `meta` the server says so, and the counts do not matter: rows
 * come and go, and the recount finds them. The portal does not say. There a page with fewer rows than counted, or a full
 * page, has its window counted again, and only rows missing then were cut off. Nor does it name its limit: one short page may
 * have lost a row at the source; if two windows stop at the same count, and none ever brought more, that count is the limit.
 * A limit that is found is remembered.
 */
async function isWholePage(
  run: Fetching,
  counts: DayCounts,
  window: PackedWindow,
  { meta, rows }: Page,
  sizes: PageSizes,
): Promise<boolean> {
  const { limits } = run;
  sizes.largest = Math.max(sizes.largest, rows);
  // Asked again after a count: other pages may have come meanwhile.
  const isLimit = () => sizes.short.has(rows) && rows >= sizes.largest;
  const isShort = rows > 0 && rows < (window.exact ? window.rows : countWhole(counts, window));
  const isFull = rows >= limits.rowLimit && !(window.exact && rows === window.rows);
  // A second page that stops at the same size shows the limit: no count is needed.
  const isCut = async () => (isShort && isLimit()) || ((isShort || isFull) && (await countWindow(run, window)) > rows);
  if (!(meta ? meta.truncated : await isCut())) return true;
  const limit = meta ? Math.min(meta.row_limit, MAX_PAGE_ROWS) : isLimit() ? rows : Number.POSITIVE_INFINITY;
  if (!meta) sizes.short.add(rows);
  limits.rowLimit = Math.min(limits.rowLimit, limit);
  return false;
}

/**
 * The parts of a window that is too large: what did not come as one page is halved between its cells. Where it has only
 * one, or was planned as several pages, the source is asked for their ends. Where it does not say, it is halved as well.
 * @param mayRepeat asked where it now fits one page
 */
async function cutLarge(
  run: Fetching,
  counts: DayCounts,
  window: PackedWindow,
  mayRepeat: () => boolean,
  cause?: SourceFault,
): Promise<readonly PackedWindow[]> {
  const { job, limits } = run;
  const { source } = job;
  const isAny = (part: PackedWindow) => !isEmptyWindow(part) && !(part.exact && part.rows === 0);
  const pages = Math.ceil(window.rows / limits.rowLimit);
  const middle = findMiddle(window, counts);
  const halves = middle && cutWindow({ ...window, exact: middle.exact }, [middle]).filter(isAny);
  if (halves !== undefined && pages <= 1) return halves;
  const axis = axisOf(counts);
  let asked = await askCuts(run, window, axis, Math.max(2, pages));
  const needed = Math.ceil((asked?.rows ?? 0) / limits.rowLimit);
  // Rows have come since they were counted.
  if (needed > Math.max(2, pages)) asked = await askCuts(run, window, axis, needed);
  if (asked !== undefined) {
    const { rows, places, exact } = asked;
    const fits = rows <= limits.rowLimit;
    if (pages > 1 && fits) return [{ ...window, rows, exact }];
    if (places.length > 0) return cutWindow({ ...window, rows, exact }, places).filter(isAny);
    if (fits && mayRepeat()) return [window];
  }
  if (halves !== undefined) return halves;
  const stretches = cutStretch(limits.profile(axis), window, 2, source.grainSeconds);
  const half = { rows: Math.ceil(window.rows / 2), exact: false };
  if (stretches.length > 1) return stretches.map((part) => ({ ...window, ...part, ...half }));
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

const cutsSchema = z.object({ rows: z.unknown(), cuts: z.array(z.unknown()) });

/** The number of a window's rows now, and where it is cut into parts; `undefined` where that is too broad a question. */
async function askCuts(
  api: OpenedSql,
  window: PackedWindow,
  axis: Axis,
  parts: number,
): Promise<(Pick<PackedWindow, 'rows' | 'exact'> & { readonly places: readonly CutPlace[] }) | undefined> {
  const { job, limits } = api;
  const page = await askBroadly(api, buildCuts(job, window, axis, parts, limits.dayEdges));
  if (page instanceof SourceFault) return undefined;
  const answer = cutsSchema.safeParse(page.firstRow).data;
  const counted = readCount(answer?.rows) ?? 0;
  // Groups with the same keys are counted once, and those shorter than the grain are cut elsewhere than they are counted.
  const isGroups = job.source.kind === 'aggregate';
  const rows = isGroups && window.exact ? Math.max(counted, window.rows) : counted;
  const exact = !isGroups && window.exact && rows === window.rows;
  const places: CutPlace[] = [];
  for (const [index, cut] of (answer?.cuts ?? []).entries()) {
    const at = readCut(job, window, axis, cut);
    const last = places.at(-1)?.at ?? window.from;
    if (at === undefined || compareBounds(last, at) >= 0 || compareBounds(at, window.to) >= 0) continue;
    places.push({ at, before: Math.floor((rows * (index + 1)) / parts) });
  }
  return { rows, places, exact };
}

/** Rows of a window now; more than any page has if even the count is too broad. */
async function countWindow(api: OpenedSql, window: PackedWindow): Promise<number> {
  const page = await askBroadly(api, buildWindowCount(api.job, window, api.limits.dayEdges));
  if (page instanceof SourceFault) return Number.POSITIVE_INFINITY;
  const rows = readCount(page.firstRow?.['rows']);
  if (rows !== undefined) return rows;
  const head = Buffer.from(page.data.subarray(0, 200)).toString('utf8');
  throw new SourceFault('INVALID_ANSWER', `the API sent no valid count of a window: ${head}`, { action: 'fail' });
}
