/**
 * Fetching one date: its counts -> windows -> pages in the stage. Several requests are in flight, their starts paced by
 * the source. A window that is too much splits itself and the run goes on; a row limit learnt on the way replans what is
 * left. Windows that are staged already are never asked again.
 */

import { type Bound, compareBounds, formatWindow, isEmptyWindow } from '../../calendar/window.ts';
import { assertNotAborted, Fault, isFault } from '../../core/errors.ts';
import type { SqlJob } from '../../job/job.ts';
import { keyColumn } from '../../plan/condition.ts';
import type { DayCounts } from '../../plan/counts.ts';
import { countWhole, type PackedWindow } from '../../plan/pack.ts';
import { planSplit, splitWindow } from '../../plan/split.ts';
import { buildPage } from '../../plan/statement.ts';
import { type Page, SourceFault } from '../../source/source.ts';
import type { Stage } from '../../stage/stage.ts';
import type { OnRunEvent } from '../events.ts';
import { askMiddle, planWindows, type WindowDeps } from './windows.ts';

export interface FetchDeps extends WindowDeps {
  readonly onEvent: OnRunEvent;
}

/** Requests in flight at least: enough to keep one start a second while answers take some seconds. */
const USUAL_IN_FLIGHT = 4;
/** Faster answers keep any pace that a provider allows with the usual number. */
const SLOW_ANSWER_MS = 1000;
/** And at most, however slow the answers are: each holds a page in memory. */
const MAX_IN_FLIGHT = 12;

/** Each has used up its retries: after so many the API is down, and the other windows would only wait for it too. */
const MAX_FAILURES_IN_A_ROW = 3;

/** Brings every row that the counts promise into the stage. @throws Fault when a window fails for good; the others are staged then */
export async function fetchDate(deps: FetchDeps, job: SqlJob, stage: Stage, counts: DayCounts): Promise<void> {
  const sizes: PageSizes = { short: new Set(), largest: 0 };
  for (;;) {
    const windows = await planWindows(deps, job, stage, counts);
    if (windows.length === 0) return;
    const batch = new Batch(deps, job, stage, counts, windows, sizes);
    await batch.run();
    if (!batch.replan) return;
  }
}

/** What the pages of a date show of a row limit that nobody tells. */
interface PageSizes {
  /** Row counts at which pages came up short, each once: a second page that stops there shows a row limit. */
  readonly short: Set<number>;
  /** Rows of the largest page: the limit is no smaller, however many pages stop short of it. */
  largest: number;
}

/** One queue of windows, worked on by a few requests at a time. */
class Batch {
  /** A smaller row limit was learnt: what is left must be planned again. */
  replan = false;
  readonly #deps: FetchDeps;
  readonly #job: SqlJob;
  readonly #stage: Stage;
  readonly #counts: DayCounts;
  readonly #queue: PackedWindow[];
  readonly #failures: Fault[] = [];
  readonly #workers: Promise<void>[] = [];
  #active = 0;
  #failuresInARow = 0;
  readonly #sizes: PageSizes;
  #fatal: unknown;

  constructor(
    deps: FetchDeps,
    job: SqlJob,
    stage: Stage,
    counts: DayCounts,
    windows: readonly PackedWindow[],
    sizes: PageSizes,
  ) {
    this.#deps = deps;
    this.#job = job;
    this.#stage = stage;
    this.#counts = counts;
    this.#queue = [...windows];
    this.#sizes = sizes;
  }

  async run(): Promise<void> {
    this.#hire();
    // More are hired as answers turn out to be slow.
    for (let settled = 0; settled < this.#workers.length; settled += 1) await this.#workers[settled];
    if (this.#fatal !== undefined) throw this.#fatal;
    const [first] = this.#failures;
    if (first === undefined || this.replan) return;
    throw new Fault(
      first.code,
      `${this.#failures.length} of the windows of ${this.#stage.date} failed; the first: ${first.message}`,
      {
        cause: first,
        ...(first.hint === undefined ? {} : { hint: first.hint }),
      },
    );
  }

  /** As many at once as keep the pace: answers that take three intervals need four. */
  #hire(): void {
    const { source, learnt } = this.#deps;
    const answerMs = source.stats.answerMs || learnt.answer_ms;
    const needed = answerMs < SLOW_ANSWER_MS ? 0 : Math.ceil(answerMs / source.intervalMs()) + 1;
    const wanted = Math.min(MAX_IN_FLIGHT, Math.max(USUAL_IN_FLIGHT, needed));
    while (this.#active < wanted && this.#queue.length > 0 && !this.#isOver()) this.#workers.push(this.#work());
  }

  async #work(): Promise<void> {
    this.#active += 1;
    for (let window = this.#next(); window !== undefined; window = this.#next()) {
      try {
        await this.#fetch(window);
      } catch (error) {
        this.#settle(window, error);
      }
    }
    this.#active -= 1;
  }

  #next(): PackedWindow | undefined {
    return this.#isOver() ? undefined : this.#queue.shift();
  }

  #isOver(): boolean {
    return this.#fatal !== undefined || this.replan;
  }

  /**
   * A wrong query, an interruption, rows that do not fit and a broken engine end the batch: the next window would fare no
   * better. Anything else fails this window only, unless it happens to several in a row.
   */
  #settle(window: PackedWindow, error: unknown): void {
    const windowOnly = error instanceof SourceFault && error.kind === 'failed';
    if (!windowOnly && !(isFault(error) && error.code === 'WINDOW_TOO_BROAD')) {
      this.#fatal ??= error;
      return;
    }
    const entry = { date: window.date, window: formatWindow(window), reason: error.message };
    const text = `${entry.date} ${entry.window} failed: ${entry.reason}`;
    this.#deps.log.warn({ event: 'window-failed', ...entry }, text);
    this.#failures.push(error);
    this.#failuresInARow += 1;
    if (this.#failuresInARow >= MAX_FAILURES_IN_A_ROW) this.#fatal ??= error;
  }

  async #fetch(window: PackedWindow): Promise<void> {
    const { source, learnt, onEvent, signal } = this.#deps;
    assertNotAborted(signal);
    let page: Page;
    try {
      page = await source.ask(buildPage(this.#job, window, learnt.day_edges), signal ? { signal } : {});
    } catch (error) {
      if (!(error instanceof SourceFault) || error.action !== 'split') throw error;
      await this.#split(window, error);
      return;
    }
    this.#sizes.largest = Math.max(this.#sizes.largest, page.rows);
    if (this.#isTruncated(window, page)) {
      if (!this.replan) await this.#split(window, undefined);
      return;
    }
    this.#failuresInARow = 0;
    if (page.rows > 0) learnt.row_bytes = page.data.byteLength / page.rows;
    this.#hire();
    await this.#stage.put(window, page);
    onEvent({ kind: 'page', date: window.date, window: formatWindow(window), rows: page.rows });
  }

  /** Whether rows are missing from a 200: the server says so, or fewer came than were counted. */
  #isTruncated(window: PackedWindow, page: Page): boolean {
    const short = page.rows > 0 && page.rows < (window.exact ? window.rows : countWhole(this.#counts, window));
    // Without `meta` a full page may have been cut, unless exactly so many were promised.
    const full =
      page.meta === undefined &&
      page.rows >= this.#deps.learnt.row_limit &&
      !(window.exact && page.rows === window.rows);
    if (!page.meta?.truncated && !short && !full) return false;
    const limit = page.meta ? page.meta.row_limit : this.#guessLimit(page.rows);
    if (limit !== undefined && limit < this.#deps.learnt.row_limit) {
      this.#deps.learnt.row_limit = limit;
      this.replan = true;
    }
    return true;
  }

  /**
   * The portal tells no limit. One short page may have lost a row to the source; when two windows stop at the same count,
   * and none ever brought more, that count is the limit.
   */
  #guessLimit(rows: number): number | undefined {
    const { short, largest } = this.#sizes;
    if (short.has(rows) && rows >= largest) return rows;
    short.add(rows);
    return undefined;
  }

  async #split(window: PackedWindow, cause: SourceFault | undefined): Promise<void> {
    const at = await this.#findCut(window, cause);
    const halves = splitWindow(window, at, this.#counts).filter(
      (half) => !isEmptyWindow(half) && !(half.exact && half.rows === 0),
    );
    this.#deps.onEvent({
      kind: 'split',
      date: window.date,
      window: formatWindow(window),
      reason: cause ? cause.code : 'truncated',
    });
    this.#queue.unshift(...halves);
    // While the row limit is being learnt each page more in flight would be one more in vain.
    if (cause) this.#hire();
  }

  async #findCut(window: PackedWindow, cause: SourceFault | undefined): Promise<Bound> {
    const { source } = this.#job;
    const grainSeconds = source.kind === 'aggregate' ? source.grainSeconds : 1;
    const plan = planSplit(window, this.#counts, grainSeconds, keyColumn(source) !== undefined);
    switch (plan.kind) {
      case 'cut':
        return plan.at;
      case 'ask-middle': {
        const at = await askMiddle(this.#deps, this.#job, window);
        if (at && compareBounds(window.from, at) < 0 && compareBounds(at, window.to) < 0) return at;
        break;
      }
      case 'impossible':
        break;
      default:
        plan satisfies never;
    }
    throw new Fault(
      'WINDOW_TOO_BROAD',
      `${window.date} ${formatWindow(window)} cannot be made smaller, and it is still too much for the API`,
      {
        cause,
        hint:
          this.#job.source.kind === 'aggregate'
            ? 'One grain has more groups than a page holds: name a column of the GROUP BY under `split`, or add a condition.'
            : 'Narrow the job, for instance with `where: symbol IN (...)`.',
      },
    );
  }
}
