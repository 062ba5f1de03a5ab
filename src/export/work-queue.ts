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

/** What the work on a piece may do with the others. */
export interface WorkQueue<Piece> {
  /** Pieces to fetch next, in place of one that was too large. */
  putFirst(pieces: readonly Piece[]): void;
  /** As many in flight as keep the pace: answers that take three intervals need four. */
  hire(): void;
  /** A usable answer came: the failures before it do not mean that the API is down. */
  noteAnswer(): void;
  /** The caller plans the rest anew; requests in flight are finished. */
  stop(): void;
}

interface WorkOptions<Piece> {
  readonly date: string;
  /** Name of the pieces in errors: `windows`, `snapshots`. */
  readonly plural: string;
  readonly log: Log;
  formatPiece(piece: Piece): string;
  /** Current answer time and interval between requests; without it the usual number is in flight. */
  readonly pace?: (() => { readonly answerMs: number; readonly intervalMs: number }) | undefined;
  /** Fetches and stages one piece. */
  work(piece: Piece, queue: WorkQueue<Piece>): Promise<void>;
}

/** Works until no piece is left, or it is stopped. @throws Fault when a piece finally failed, after all others are done */
export async function workOff<Piece>(
  pieces: readonly Piece[],
  { date, plural, log, formatPiece, pace, work }: WorkOptions<Piece>,
): Promise<void> {
  const left = [...pieces];
  const failures: Fault[] = [];
  const workers: Promise<void>[] = [];
  let active = 0;
  let failuresInARow = 0;
  let isStopped = false;
  let fatal: unknown;
  const isOver = () => fatal !== undefined || isStopped;

  const noteFailure = (piece: Piece, error: unknown) => {
    const isOwn = error instanceof SourceFault && error.kind === 'failed';
    if (!isOwn && !(isFault(error) && TOO_BROAD_CODES.includes(error.code))) {
      fatal ??= error;
      return;
    }
    const [window, reason] = [formatPiece(piece), error.message];
    log.warn({ event: 'window-failed', date, window, reason }, `${date} ${window} failed: ${reason}`);
    failures.push(error);
    failuresInARow += 1;
    if (failuresInARow >= MAX_FAILURES_IN_A_ROW) fatal ??= error;
  };

  const workOn = async () => {
    active += 1;
    for (let piece = left.shift(); piece !== undefined; piece = isOver() ? undefined : left.shift()) {
      try {
        await work(piece, queue);
      } catch (error) {
        noteFailure(piece, error);
      }
    }
    active -= 1;
  };

  const queue: WorkQueue<Piece> = {
    putFirst: (more) => void left.unshift(...more),
    hire() {
      const { answerMs, intervalMs } = pace?.() ?? { answerMs: 0, intervalMs: 1 };
      const needed = answerMs < SLOW_ANSWER_MS ? 0 : Math.ceil(answerMs / intervalMs) + 1;
      const wanted = Math.min(MAX_IN_FLIGHT, Math.max(USUAL_IN_FLIGHT, needed));
      while (active < wanted && left.length > 0 && !isOver()) workers.push(workOn());
    },
    noteAnswer() {
      failuresInARow = 0;
    },
    stop() {
      isStopped = true;
    },
  };

  queue.hire();
  // More workers start when answers are slow.
  for (let settled = 0; settled < workers.length; settled += 1) await workers[settled];
  if (fatal !== undefined) throw fatal;
  const [first] = failures;
  if (first === undefined || isStopped) return;
  throw new Fault(first.code, `${failures.length} of the ${plural} of ${date} failed; the first: ${first.message}`, {
    cause: first,
    hint: first.hint,
  });
}
