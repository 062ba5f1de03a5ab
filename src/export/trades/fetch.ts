/**
 * Fetching one date: its counts -> windows -> pages in the stage. Several requests are in flight, their starts paced by
 * the source. A window that is too much splits itself and the run goes on; a row limit learnt on the way replans what is
 * left. Windows that are staged already are never asked again.
 */

import { type Bound, compareBounds, formatWindow, isEmptyWindow } from '../../calendar/window.ts';
import { assertNotAborted, Fault, isFault } from '../../core/errors.ts';
import type { SqlJob } from '../../job/job.ts';
import type { DayCounts } from '../../plan/counts.ts';
import type { PackedWindow } from '../../plan/pack.ts';
import { planSplit, splitWindow } from '../../plan/split.ts';
import { buildPage } from '../../plan/statement.ts';
import { keyColumn } from '../../plan/window-condition.ts';
import { type Page, SourceFault } from '../../source/source.ts';
import type { Stage } from '../../stage/stage.ts';
import type { OnRunEvent } from '../../state/run-events.ts';
import { judgePage, type PageSizes } from './truncation.ts';
import { askMiddle, middleOfSymbol, planWindows, type WindowDeps } from './windows.ts';

export interface FetchDeps extends WindowDeps {
  readonly onEvent: OnRunEvent;
}

/** Requests in flight at least: enough to keep one start a second while answers take some seconds. */
const USUAL_IN_FLIGHT = 4;
/** Faster answers keep any pace that a provider allows with the usual number. */
const SLOW_ANSWER_MS = 1000;
/** And at most, however slow the answers are: each holds a page in memory. */
const MAX_IN_FLIGHT = 12;

/** A window that is now too much and now is not is asked for so often again. */
const MAX_REPEATS = 2;

/** Each has used up its retries: after so many the API is down, and the other windows would only wait for it too. */
const MAX_FAILURES_IN_A_ROW = 3;

/** Windows that were to fit and did not, and are split; with one more the counts are taken to be out of date. */
const MAX_OUTGROWN = 2;
/** So often the date is counted again for that; then windows are split, however many. */
const MAX_RECOUNTS = 3;

/**
 * Brings every row that the counts promise into the stage.
 * @param countAgain counts the date anew, the same way
 * @returns the counts that the last windows were planned by
 * @throws Fault when a window fails for good; the others are staged then
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
    const windows = await planWindows(deps, job, stage, counts);
    if (windows.length === 0) return counts;
    const mayRecount = recounts < MAX_RECOUNTS;
    const batch = new Batch(deps, job, stage, counts, windows, sizes, mayRecount ? MAX_OUTGROWN : undefined);
    await batch.run();
    if (!batch.replan) return counts;
    if (!batch.isOutdated) continue;
    recounts += 1;
    const fresh = await countAgain();
    // Windows along the other axis would not tile the date together with those that are in.
    if (fresh[0]?.symbol === undefined ? counts[0]?.symbol === undefined : counts[0]?.symbol !== undefined) {
      counts = fresh;
    }
  }
}

/** One queue of windows, worked on by a few requests at a time. */
class Batch {
  /** A smaller row limit was learnt, or the counts are out of date: what is left must be planned again. */
  replan = false;
  isOutdated = false;
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
  readonly #maxOutgrown: number | undefined;
  #outgrown = 0;
  /** Windows that were asked for again as they are, and how often. */
  readonly #repeated = new Map<string, number>();
  #fatal: unknown;

  constructor(
    deps: FetchDeps,
    job: SqlJob,
    stage: Stage,
    counts: DayCounts,
    windows: readonly PackedWindow[],
    sizes: PageSizes,
    maxOutgrown: number | undefined,
  ) {
    this.#deps = deps;
    this.#job = job;
    this.#stage = stage;
    this.#counts = counts;
    this.#queue = [...windows];
    this.#sizes = sizes;
    this.#maxOutgrown = maxOutgrown;
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
    const { source, limits } = this.#deps;
    const answerMs = source.stats.answerMs || limits.answerMs;
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
    const { source, limits, onEvent, signal } = this.#deps;
    assertNotAborted(signal);
    let page: Page;
    try {
      page = await source.ask(buildPage(this.#job, window, limits.dayEdges), signal ? { signal } : {});
    } catch (error) {
      if (!(error instanceof SourceFault) || error.action !== 'split') throw error;
      await this.#split(window, error);
      return;
    }
    const verdict = await judgePage({ ...this.#deps, job: this.#job, counts: this.#counts }, window, page, this.#sizes);
    if (verdict === 'smaller-limit') this.replan = true;
    if (verdict === 'outgrown') this.#noteOutgrown();
    if (verdict !== 'whole') {
      if (!this.replan) await this.#split(window, undefined);
      return;
    }
    this.#failuresInARow = 0;
    if (page.rows > 0) limits.rowBytes = page.data.byteLength / page.rows;
    this.#hire();
    await this.#stage.put(window, page);
    onEvent({ kind: 'page', date: window.date, window: formatWindow(window), rows: page.rows });
  }

  /** A window that was to fit has outgrown its page. Where many have, it costs less to count the date again than to split each. */
  #noteOutgrown(): void {
    this.#outgrown += 1;
    if (this.#maxOutgrown === undefined || this.#outgrown <= this.#maxOutgrown) return;
    this.isOutdated = true;
    this.replan = true;
  }

  async #split(window: PackedWindow, cause: SourceFault | undefined): Promise<void> {
    const at = await this.#findCut(window, cause);
    const halves = at === undefined ? [window] : this.#cut(window, at);
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

  #cut(window: PackedWindow, at: Bound): readonly PackedWindow[] {
    return splitWindow(window, at, this.#counts).filter(
      (half) => !isEmptyWindow(half) && !(half.exact && half.rows === 0),
    );
  }

  /** @returns `undefined` where the window's rows have become so few meanwhile that it fits as it is */
  async #findCut(window: PackedWindow, cause: SourceFault | undefined): Promise<Bound | undefined> {
    const { source } = this.#job;
    const grainSeconds = source.kind === 'aggregate' ? source.grainSeconds : 1;
    const plan = planSplit(window, this.#counts, grainSeconds, keyColumn(source) !== undefined);
    switch (plan.kind) {
      case 'cut':
        return plan.at;
      case 'ask-middle': {
        // It was to fit, and has a few rows too many now: any place inside will do.
        const near = cause === undefined && window.exact ? middleOfSymbol(window, this.#deps.limits) : undefined;
        if (near) return near;
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

  #mayRepeat(window: PackedWindow): boolean {
    const name = formatWindow(window);
    const repeats = (this.#repeated.get(name) ?? 0) + 1;
    this.#repeated.set(name, repeats);
    return repeats <= MAX_REPEATS;
  }
}
