/**
 * Fetching one date: its counts -> windows -> pages in the stage. Several requests are in flight, their starts paced by
 * the source. A window that is too large is split; a smaller row limit replans what is
 * left. Staged windows are never requested again.
 */

import { type Bound, compareBounds, formatWindow, isEmptyWindow } from '../../calendar/window.ts';
import { assertNotAborted, Fault } from '../../core/errors.ts';
import type { SqlJob } from '../../job/job.ts';
import { type DayCounts, isBySymbol } from '../../plan/counts.ts';
import type { PackedWindow } from '../../plan/pack.ts';
import { planSplit, splitWindow } from '../../plan/split.ts';
import { buildPage } from '../../plan/statement.ts';
import { type Page, SourceFault } from '../../source/source.ts';
import type { Stage } from '../../stage/stage.ts';
import type { OnRunEvent } from '../../state/run-events.ts';
import { WorkQueue } from '../work-queue.ts';
import { judgePage, type PageSizes } from './truncation.ts';
import { askMiddle, planWindows, type WindowDeps } from './windows.ts';

export interface FetchDeps extends WindowDeps {
  readonly onEvent: OnRunEvent;
}

/** Retries of a window that is sometimes too large and sometimes not. */
const MAX_REPEATS = 2;

/** So many windows may outgrow their page and be split; with one more, the counts are out of date. */
const MAX_OUTGROWN = 2;
/** Most recounts for that reason; after them windows are split, however many. */
const MAX_RECOUNTS = 3;

/**
 * Stages every row that the counts promise.
 * @param countAgain counts the date anew, the same way
 * @returns the counts that the last windows were planned by
 * @throws Fault when a window finally fails, after the others are staged
 */
export async function fetchDate(
  deps: FetchDeps,
  job: SqlJob,
  stage: Stage,
  given: DayCounts,
  countAgain: () => Promise<DayCounts>,
): Promise<DayCounts> {
  const sizes: PageSizes = { short: new Set(), largest: 0 };
  let counts = given;
  for (let recounts = 0; ; ) {
    const windows = await planWindows(deps.limits, stage, counts);
    if (windows.length === 0) return counts;
    const fetch = new WindowFetch(deps, job, stage, { counts, sizes, mayRecount: recounts < MAX_RECOUNTS });
    await fetch.run(windows);
    if (!fetch.mustReplan) return counts;
    if (!fetch.isOutdated) continue;
    recounts += 1;
    const fresh = await countAgain();
    // Windows along the other axis would not tile the date together with the staged ones.
    if (isBySymbol(fresh) === isBySymbol(counts)) counts = fresh;
  }
}

/** Stages windows of counted rows. @throws Fault when one finally fails, after the others are staged */
export async function fetchWindows(
  deps: FetchDeps,
  job: SqlJob,
  stage: Stage,
  windows: readonly PackedWindow[],
  counts: DayCounts,
): Promise<void> {
  const plan = { counts, sizes: { short: new Set<number>(), largest: 0 }, mayRecount: false };
  await new WindowFetch(deps, job, stage, plan).run(windows);
}

interface FetchPlan {
  readonly counts: DayCounts;
  /** Of the pages of the whole date. */
  readonly sizes: PageSizes;
  /** Whether the date is counted again when many windows outgrow their pages. */
  readonly mayRecount: boolean;
}

/** Fetches and stages the windows of one plan. */
class WindowFetch {
  /** A smaller row limit was found, or the counts are out of date: the rest is planned again. */
  mustReplan = false;
  isOutdated = false;
  readonly #deps: FetchDeps;
  readonly #job: SqlJob;
  readonly #stage: Stage;
  readonly #plan: FetchPlan;
  #outgrown = 0;
  /** Windows that were retried unchanged, and how often. */
  readonly #repeated = new Map<string, number>();

  constructor(deps: FetchDeps, job: SqlJob, stage: Stage, plan: FetchPlan) {
    this.#deps = deps;
    this.#job = job;
    this.#stage = stage;
    this.#plan = plan;
  }

  async run(windows: readonly PackedWindow[]): Promise<void> {
    const { source, limits, log } = this.#deps;
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
    const { source, limits, onEvent, signal } = this.#deps;
    assertNotAborted(signal);
    let page: Page;
    try {
      page = await source.ask(buildPage(this.#job, window, limits.dayEdges), { signal });
    } catch (error) {
      if (!(error instanceof SourceFault) || error.action !== 'split') throw error;
      await this.#split(window, error, queue);
      return;
    }
    const { counts, sizes } = this.#plan;
    const verdict = await judgePage({ ...this.#deps, job: this.#job, counts }, window, page, sizes);
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

  /** A window has outgrown its page. Where many have, counting the date again is cheaper than splitting each. */
  #noteOutgrown(): void {
    this.#outgrown += 1;
    if (!this.#plan.mayRecount || this.#outgrown <= MAX_OUTGROWN) return;
    this.isOutdated = true;
    this.mustReplan = true;
  }

  async #split(window: PackedWindow, cause: SourceFault | undefined, queue: WorkQueue<PackedWindow>): Promise<void> {
    const at = await this.#findCut(window, cause);
    const halves = at === undefined ? [window] : this.#cut(window, at);
    this.#deps.onEvent({
      kind: 'split',
      date: window.date,
      window: formatWindow(window),
      reason: cause ? cause.code : 'truncated',
    });
    queue.putFirst(halves);
    // Until the row limit is known, further pages in flight would be wasted.
    if (cause) queue.hire();
  }

  #cut(window: PackedWindow, at: Bound): readonly PackedWindow[] {
    return splitWindow(window, at, this.#plan.counts).filter(
      (half) => !isEmptyWindow(half) && !(half.exact && half.rows === 0),
    );
  }

  /** @returns `undefined` where the window has lost rows meanwhile and fits unchanged */
  async #findCut(window: PackedWindow, cause: SourceFault | undefined): Promise<Bound | undefined> {
    const { source } = this.#job;
    const grainSeconds = source.kind === 'aggregate' ? source.grainSeconds : 1;
    const hasKey = source.kind === 'rows' || source.splitColumns.length > 0;
    const plan = planSplit(window, this.#plan.counts, grainSeconds, hasKey);
    switch (plan.kind) {
      case 'cut':
        return plan.at;
      case 'ask-middle': {
        const { rows, at } = await askMiddle(this.#deps, this.#job, window);
        if (at && compareBounds(window.from, at) < 0 && compareBounds(at, window.to) < 0) return at;
        const fits = cause === undefined && source.kind === 'rows' && rows <= this.#deps.limits.rowLimit;
        if (fits && this.#mayRepeat(window)) return undefined;
        break;
      }
      case 'impossible':
        break;
      default:
        plan satisfies never;
    }
    throw new Fault(
      'WINDOW_TOO_BROAD',
      `${window.date} ${formatWindow(window)} cannot be split further, and it is still too large for the API`,
      {
        cause,
        hint:
          this.#job.source.kind === 'aggregate'
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
