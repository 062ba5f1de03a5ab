/**
 * Fetching the snapshots of one date: each symbol is asked for once, several requests in flight, their starts paced by the
 * client. Invariant: what is staged is never asked for again, nor is what was too broad; a symbol that the API has nothing
 * of is told, not skipped.
 */
import { assertNotAborted, Fault, isFault } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import type { SnapshotClient } from '../../source/snapshot.ts';
import { SourceFault } from '../../source/source.ts';
import type { Stage } from '../../stage/stage.ts';
import type { OnRunEvent } from '../events.ts';
import { formatPart, isWithin, type Part, splitPart } from './chain-part.ts';

export interface SnapshotDeps {
  readonly source: SnapshotClient;
  readonly log: Log;
  readonly onEvent: OnRunEvent;
  readonly signal?: AbortSignal | undefined;
}

export interface FetchedSnapshots {
  /** Symbols without a snapshot, with the API's reason. */
  readonly missing: readonly { readonly window: string; readonly reason: string }[];
  /** Symbols whose snapshot has no rows. */
  readonly empty: readonly string[];
}

/** Requests in flight: enough to keep one start a second while answers take some seconds. Bounds memory too. */
const MAX_IN_FLIGHT = 4;

/** Each has used up its retries: after so many the API is down, and the other symbols would only wait for it too. */
const MAX_FAILURES_IN_A_ROW = 3;

/** Brings the snapshots of all symbols into the stage. @throws Fault when one cannot be had; the others are staged then */
export async function fetchSnapshots(
  deps: SnapshotDeps,
  symbols: readonly string[],
  stage: Stage,
): Promise<FetchedSnapshots> {
  const fetch = new Fetch(deps, symbols, stage, await stage.pages());
  const fetched = await fetch.run();
  await assertApart(stage);
  return fetched;
}

/** Which of the answers is the wrong one nobody can tell, so none is kept. @throws SourceFault `SNAPSHOT_MIXED` */
async function assertApart(stage: Stage): Promise<void> {
  const shared = await stage.sharedContract();
  if (shared === undefined) return;
  const { symbol, contract, windows } = shared;
  await stage.discard();
  throw new SourceFault(
    'SNAPSHOT_MIXED',
    `${stage.date}: ${contract} of ${symbol} came in two answers, that for ${windows[0]} and that for ${windows[1]}`,
    {
      action: 'fail',
      hint: 'A filter was not heeded, or an answer is that of another question. Nothing was kept: run again later; if it stays so, tell the provider, or take one of the symbols out of the job.',
    },
  );
}

class Fetch {
  readonly #deps: SnapshotDeps;
  readonly #stage: Stage;
  readonly #queue: Part[];
  /** Texts of the parts that are staged. */
  readonly #staged: Set<string>;
  readonly #missing = new Map<string, string>();
  readonly #symbols: readonly string[];
  readonly #failures: Fault[] = [];
  #failuresInARow = 0;
  #fatal: unknown;

  constructor(deps: SnapshotDeps, symbols: readonly string[], stage: Stage, pages: readonly { window: string }[]) {
    this.#deps = deps;
    this.#symbols = symbols;
    this.#stage = stage;
    this.#staged = new Set(pages.map(({ window }) => window));
    this.#queue = symbols.map((symbol) => ({ symbol, filter: {} }));
  }

  async run(): Promise<FetchedSnapshots> {
    await Promise.all(Array.from({ length: MAX_IN_FLIGHT }, () => this.#work()));
    if (this.#fatal !== undefined) throw this.#fatal;
    const [first] = this.#failures;
    if (first !== undefined) throw this.#describe(first);
    const found = new Set([...this.#staged].map((name) => name.split(' ')[0]));
    return {
      missing: [...this.#missing]
        .filter(([symbol]) => !found.has(symbol))
        .map(([window, reason]) => ({ window, reason })),
      empty: this.#symbols.filter((symbol) => !found.has(symbol) && !this.#missing.has(symbol)),
    };
  }

  async #work(): Promise<void> {
    while (this.#fatal === undefined) {
      const part = this.#queue.shift();
      if (part === undefined) return;
      try {
        await this.#fetch(part);
      } catch (error) {
        this.#settle(part, error);
      }
    }
  }

  async #fetch(part: Part): Promise<void> {
    const { source, onEvent, log, signal } = this.#deps;
    const { date } = this.#stage;
    const window = formatPart(part);
    assertNotAborted(signal);
    if (this.#staged.has(window)) return;
    // An earlier run found it too broad and has staged some of its parts.
    if ([...this.#staged].some((name) => isWithin(name, part))) return this.#split(part, undefined);
    const answer = await source.ask({ ...part, date }, signal ? { signal } : {}).catch((error: unknown) => {
      if (error instanceof SourceFault && error.action === 'split') return error;
      throw error;
    });
    if (answer instanceof SourceFault) return this.#split(part, answer);
    this.#failuresInARow = 0;
    if (answer.kind === 'missing') {
      // A filter that matches nothing gives no rows; a part of a chain that is there cannot be missing.
      if (window !== part.symbol) {
        throw new SourceFault(
          'SNAPSHOT_TORN',
          `${date} ${window}: the API says ${answer.reason} of a part of a chain that was too large as a whole`,
          {
            action: 'fail',
            hint: 'The parts that came are staged. Run again later; if it stays so, tell the provider.',
          },
        );
      }
      this.#missing.set(part.symbol, answer.reason);
      log.warn(
        { event: 'snapshot-missing', date, symbol: part.symbol, reason: answer.reason },
        `${date}: no snapshot of ${part.symbol}: ${answer.reason}`,
      );
      return;
    }
    await this.#stage.put(window, answer);
    if (answer.rows > 0) this.#staged.add(window);
    onEvent({ kind: 'page', date, window, rows: answer.rows });
  }

  /** @param cause the API's refusal; `undefined` when it is known from an earlier run */
  #split(part: Part, cause: SourceFault | undefined): void {
    const halves = this.#deps.source.canNarrow ? splitPart(part) : undefined;
    if (halves === undefined) {
      throw new Fault('SNAPSHOT_TOO_BROAD', `${this.#stage.date} ${formatPart(part)} is too much for the API`, {
        cause,
        hint: 'It cannot be narrowed any further. Run again later; if it stays so, take the symbol out of the job.',
      });
    }
    const { date } = this.#stage;
    if (cause) this.#deps.onEvent({ kind: 'split', date, window: formatPart(part), reason: cause.code });
    this.#queue.unshift(...halves);
  }

  /**
   * A wrong key, an interruption, rows that do not fit and a broken engine end the fetch: the next symbol would fare no
   * better. Anything else fails this symbol only, unless it happens to several in a row.
   */
  #settle(part: Part, error: unknown): void {
    const partOnly = error instanceof SourceFault && error.kind === 'failed';
    if (!partOnly && !(isFault(error) && error.code === 'SNAPSHOT_TOO_BROAD')) {
      this.#fatal ??= error;
      return;
    }
    const { date } = this.#stage;
    const [window, reason] = [formatPart(part), error.message];
    this.#deps.log.warn({ event: 'window-failed', date, window, reason }, `${date} ${window} failed: ${reason}`);
    this.#failures.push(error);
    this.#failuresInARow += 1;
    if (this.#failuresInARow >= MAX_FAILURES_IN_A_ROW) this.#fatal ??= error;
  }

  #describe(first: Fault): Fault {
    const { date } = this.#stage;
    return new Fault(
      first.code,
      `${this.#failures.length} of the snapshots of ${date} failed; the first: ${first.message}`,
      { cause: first, ...(first.hint === undefined ? {} : { hint: first.hint }) },
    );
  }
}
