/**
 * The one queue of work of an export: pieces of a date (windows of trades, parts of snapshots), each asked for by a few
 * requests at a time, whose starts the source paces. A piece that fails for good fails alone; what would fail the others
 * too ends the work: a wrong query or key, an interruption, a full disk, or several failures in a row, for then the API is down.
 */
import { Fault, isFault } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import { SourceFault } from '../source/source.ts';

/** Requests in flight at least: enough to keep one start a second while answers take some seconds. */
const USUAL_IN_FLIGHT = 4;
/** Faster answers keep any pace that a provider allows with the usual number. */
const SLOW_ANSWER_MS = 1000;
/** And at most, however slow the answers are: each holds a page in memory. */
const MAX_IN_FLIGHT = 12;
/** Each has used up its retries: after so many in a row the others would only wait for the same API. */
const MAX_FAILURES_IN_A_ROW = 3;

export interface WorkOptions<Piece> {
  readonly date: string;
  /** What the pieces are called in an error: `windows`, `snapshots`. */
  readonly plural: string;
  readonly log: Log;
  formatPiece(piece: Piece): string;
  /** How long answers take now, and the time between two requests; without it the usual number is in flight. */
  readonly pace?: (() => { readonly answerMs: number; readonly intervalMs: number }) | undefined;
  /** Asks for one piece and stages what comes. It may put smaller pieces in front, or stop the queue. */
  work(piece: Piece, queue: WorkQueue<Piece>): Promise<void>;
  /** Code of a refusal that is this piece's own, though it is no fault of the source. */
  readonly tooBroadCode: string;
}

export class WorkQueue<Piece> {
  readonly #options: WorkOptions<Piece>;
  readonly #pieces: Piece[];
  readonly #failures: Fault[] = [];
  readonly #workers: Promise<void>[] = [];
  #active = 0;
  #failuresInARow = 0;
  #isStopped = false;
  #fatal: unknown;

  constructor(pieces: readonly Piece[], options: WorkOptions<Piece>) {
    this.#options = options;
    this.#pieces = [...pieces];
  }

  /** Works until nothing is left, or it was stopped. @throws Fault when a piece failed for good; the others are done then */
  async run(): Promise<void> {
    this.hire();
    // More are hired as answers turn out to be slow.
    for (let settled = 0; settled < this.#workers.length; settled += 1) await this.#workers[settled];
    if (this.#fatal !== undefined) throw this.#fatal;
    const [first] = this.#failures;
    if (first === undefined || this.#isStopped) return;
    const { date, plural } = this.#options;
    throw new Fault(
      first.code,
      `${this.#failures.length} of the ${plural} of ${date} failed; the first: ${first.message}`,
      { cause: first, hint: first.hint },
    );
  }

  /** As many at once as keep the pace: answers that take three intervals need four. */
  hire(): void {
    const { answerMs, intervalMs } = this.#options.pace?.() ?? { answerMs: 0, intervalMs: 1 };
    const needed = answerMs < SLOW_ANSWER_MS ? 0 : Math.ceil(answerMs / intervalMs) + 1;
    const wanted = Math.min(MAX_IN_FLIGHT, Math.max(USUAL_IN_FLIGHT, needed));
    while (this.#active < wanted && this.#pieces.length > 0 && !this.#isOver()) this.#workers.push(this.#work());
  }

  /** Pieces to ask for next, in place of one that was too much. */
  putFirst(pieces: readonly Piece[]): void {
    this.#pieces.unshift(...pieces);
  }

  /** A piece was answered: failures before it were its neighbours' own. */
  noteAnswer(): void {
    this.#failuresInARow = 0;
  }

  /** What is left is planned anew by whoever stops it; what is in flight comes to its end. */
  stop(): void {
    this.#isStopped = true;
  }

  get isStopped(): boolean {
    return this.#isStopped;
  }

  #isOver(): boolean {
    return this.#fatal !== undefined || this.#isStopped;
  }

  async #work(): Promise<void> {
    this.#active += 1;
    while (!this.#isOver()) {
      const piece = this.#pieces.shift();
      if (piece === undefined) break;
      try {
        await this.#options.work(piece, this);
      } catch (error) {
        this.#noteFailure(piece, error);
      }
    }
    this.#active -= 1;
  }

  #noteFailure(piece: Piece, error: unknown): void {
    const { date, log, tooBroadCode, formatPiece } = this.#options;
    const isOwn = error instanceof SourceFault && error.kind === 'failed';
    if (!isOwn && !(isFault(error) && error.code === tooBroadCode)) {
      this.#fatal ??= error;
      return;
    }
    const [window, reason] = [formatPiece(piece), error.message];
    log.warn({ event: 'window-failed', date, window, reason }, `${date} ${window} failed: ${reason}`);
    this.#failures.push(error);
    this.#failuresInARow += 1;
    if (this.#failuresInARow >= MAX_FAILURES_IN_A_ROW) this.#fatal ??= error;
  }
}
