/**
 * Fetching one date: its counts -> windows -> pages in the stage. Several requests are in flight, their starts paced by
 * the source. A window that is too much splits itself and the run goes on; a row limit learnt on the way replans what is
 * left. Windows that are staged already are never asked again.
 */

import { type Bound, formatWindow, isEmptyWindow } from '../calendar/window.ts';
import { assertNotAborted, Fault, isFault } from '../core/errors.ts';
import type { Job } from '../job/job.ts';
import type { DayCounts } from '../plan/counts.ts';
import type { PackedWindow } from '../plan/pack.ts';
import { planSplit, splitWindow } from '../plan/split.ts';
import { buildPage } from '../plan/statement.ts';
import { type Page, SourceFault } from '../source/source.ts';
import type { Stage } from '../stage/stage.ts';
import type { OnRunEvent } from './events.ts';
import { askMiddle, planWindows, type WindowDeps } from './windows.ts';

export interface FetchDeps extends WindowDeps {
  readonly onEvent: OnRunEvent;
}

/** Requests in flight: enough to keep one start a second while answers take some seconds. Bounds memory too. */
const MAX_IN_FLIGHT = 4;

/** Each has used up its retries: after so many the API is down, and the other windows would only wait for it too. */
const MAX_FAILURES_IN_A_ROW = 3;

/** Brings every row that the counts promise into the stage. @throws Fault when a window fails for good; the others are staged then */
export async function fetchDate(deps: FetchDeps, job: Job, stage: Stage, counts: DayCounts): Promise<void> {
  for (;;) {
    const windows = await planWindows(deps, job, stage, counts);
    if (windows.length === 0) return;
    const batch = new Batch(deps, job, stage, counts, windows);
    await batch.run();
    if (!batch.replan) return;
  }
}

/** One queue of windows, worked on by a few requests at a time. */
class Batch {
  /** A smaller row limit was learnt: what is left must be planned again. */
  replan = false;
  readonly #deps: FetchDeps;
  readonly #job: Job;
  readonly #stage: Stage;
  readonly #counts: DayCounts;
  readonly #queue: PackedWindow[];
  readonly #failures: Fault[] = [];
  #failuresInARow = 0;
  /** Row counts at which pages came up short, each once: a second page that stops there shows a row limit. */
  readonly #shortPages = new Set<number>();
  #fatal: unknown;

  constructor(deps: FetchDeps, job: Job, stage: Stage, counts: DayCounts, windows: readonly PackedWindow[]) {
    this.#deps = deps;
    this.#job = job;
    this.#stage = stage;
    this.#counts = counts;
    this.#queue = [...windows];
  }

  async run(): Promise<void> {
    await Promise.all(Array.from({ length: MAX_IN_FLIGHT }, () => this.#work()));
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

  async #work(): Promise<void> {
    while (this.#fatal === undefined && !this.replan) {
      const window = this.#queue.shift();
      if (window === undefined) return;
      try {
        await this.#fetch(window);
      } catch (error) {
        this.#settle(window, error);
      }
    }
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
    this.#deps.log.error({
      event: 'window-failed',
      date: window.date,
      window: formatWindow(window),
      reason: error.message,
    });
    this.#failures.push(error);
    this.#failuresInARow += 1;
    if (this.#failuresInARow >= MAX_FAILURES_IN_A_ROW) this.#fatal ??= error;
  }

  async #fetch(window: PackedWindow): Promise<void> {
    const { source, onEvent, signal } = this.#deps;
    assertNotAborted(signal);
    let page: Page;
    try {
      page = await source.ask(buildPage(this.#job, window), signal ? { signal } : {});
    } catch (error) {
      if (!(error instanceof SourceFault) || error.action !== 'split') throw error;
      await this.#split(window, error);
      return;
    }
    if (this.#isTruncated(window, page)) {
      if (!this.replan) await this.#split(window, undefined);
      return;
    }
    this.#failuresInARow = 0;
    await this.#stage.put(window, page);
    onEvent({ kind: 'page', date: window.date, window: formatWindow(window), rows: page.rows });
  }

  /** Whether rows are missing from a 200: the server says so, or fewer came than were counted. */
  #isTruncated(window: PackedWindow, page: Page): boolean {
    const short = window.exact && page.rows > 0 && page.rows < window.rows;
    if (!page.meta?.truncated && !short) return false;
    const limit = page.meta ? page.meta.row_limit : this.#guessLimit(page.rows);
    if (limit !== undefined && limit < this.#deps.learnt.row_limit) {
      this.#deps.learnt.row_limit = limit;
      this.replan = true;
    }
    return true;
  }

  /**
   * The portal tells no limit. One short page may have lost a row to the source; when two windows stop at the same count,
   * that count is the limit.
   */
  #guessLimit(rows: number): number | undefined {
    if (this.#shortPages.has(rows)) return rows;
    this.#shortPages.add(rows);
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
  }

  async #findCut(window: PackedWindow, cause: SourceFault | undefined): Promise<Bound> {
    const plan = planSplit(window, this.#counts, this.#job.source.kind === 'rows');
    switch (plan.kind) {
      case 'cut':
        return plan.at;
      case 'ask-id': {
        const id = await askMiddle(this.#deps, this.#job, window);
        if (id !== undefined && id !== window.from.id) return { second: window.from.second, id };
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
            ? 'One grain has more groups than a page holds: add a condition, or group by fewer columns.'
            : 'Narrow the job, for instance with `where: symbol IN (...)`.',
      },
    );
  }
}
