/**
 * The work queue of an export: pieces of a date (windows of trades, parts of snapshots), a few requests in flight, paced by
 * the source. A piece that finally fails does so alone. What would fail all others ends the work: a wrong query or key, an
 * interruption, a full disk, or several failures in a row, which mean that the API is down.
 */
import { Fault, isFault } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import { SourceFault } from '../source/source.ts';

/** Fewest requests in flight: keeps one start a second while answers take some seconds. */
const USUAL_IN_FLIGHT = 4;
/** With answers below this time the usual number keeps every allowed pace. */
const SLOW_ANSWER_MS = 1000;
/** Most requests in flight, however slow the answers: each holds a page in memory. */
const MAX_IN_FLIGHT = 12;
/** After so many failed pieces in a row the API is down: each has used up its retries. */
const MAX_FAILURES_IN_A_ROW = 3;

/** Errors that fail only their piece, although they are no SourceFault. */
const TOO_BROAD_CODES: readonly string[] = ['WINDOW_TOO_BROAD', 'SNAPSHOT_TOO_BROAD'];

interface WorkOptions<Piece> {
  readonly date: string;
  /** Name of the pieces in errors: `windows`, `snapshots`. */
  readonly plural: string;
  readonly log: Log;
  formatPiece(piece: Piece): string;
  /** Current answer time and interval between requests; without it the usual number is in flight. */
  readonly pace?: (() => { readonly answerMs: number; readonly intervalMs: number }) | undefined;
  /** Fetches and stages one piece. It may put smaller pieces in front, or stop the queue. */
  work(piece: Piece, queue: WorkQueue<Piece>): Promise<void>;
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

  /** Works until the queue is empty or stopped. @throws Fault when a piece finally failed, after all others are done */
  async run(): Promise<void> {
    this.hire();
    // More workers start when answers are slow.
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

  /** As many in flight as keep the pace: answers that take three intervals need four. */
  hire(): void {
    const { answerMs, intervalMs } = this.#options.pace?.() ?? { answerMs: 0, intervalMs: 1 };
    const needed = answerMs < SLOW_ANSWER_MS ? 0 : Math.ceil(answerMs / intervalMs) + 1;
    const wanted = Math.min(MAX_IN_FLIGHT, Math.max(USUAL_IN_FLIGHT, needed));
    while (this.#active < wanted && this.#pieces.length > 0 && !this.#isOver()) this.#workers.push(this.#work());
  }

  /** Pieces to fetch next, in place of one that was too large. */
  putFirst(pieces: readonly Piece[]): void {
    this.#pieces.unshift(...pieces);
  }

  /** The caller plans the rest anew; requests in flight are finished. */
  stop(): void {
    this.#isStopped = true;
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
        // An answer came: the failures before it do not mean that the API is down.
        this.#failuresInARow = 0;
      } catch (error) {
        this.#noteFailure(piece, error);
      }
    }
    this.#active -= 1;
  }

  #noteFailure(piece: Piece, error: unknown): void {
    const { date, log, formatPiece } = this.#options;
    const isOwn = error instanceof SourceFault && error.kind === 'failed';
    if (!isOwn && !(isFault(error) && TOO_BROAD_CODES.includes(error.code))) {
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
