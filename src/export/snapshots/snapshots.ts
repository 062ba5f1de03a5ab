/**
 * Fetches the snapshots of one date: one request a symbol, several in flight, paced by the client. Invariant: what is
 * staged, and what was too broad, is never requested again; a symbol unknown to the API is reported, not skipped.
 */
import { assertNotAborted, Fault } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import type { SnapshotClient } from '../../source/snapshot.ts';
import { SourceFault } from '../../source/source.ts';
import type { Stage } from '../../stage/stage.ts';
import type { OnRunEvent } from '../../state/run-events.ts';
import { WorkQueue } from '../work-queue.ts';
import { type ChainPart, formatPart, isWithin, splitPart } from './chain-part.ts';

interface SnapshotDeps {
  readonly source: SnapshotClient;
  readonly log: Log;
  readonly onEvent: OnRunEvent;
  readonly signal?: AbortSignal | undefined;
}

interface FetchedSnapshots {
  /** Symbols without a snapshot, with the API's reason. */
  readonly missing: readonly { readonly window: string; readonly reason: string }[];
  /** Symbols whose snapshot has no rows. */
  readonly empty: readonly string[];
}

/** Stages the snapshots of all symbols. @throws Fault when one cannot be fetched, after the others are staged */
export async function fetchSnapshots(
  deps: SnapshotDeps,
  symbols: readonly string[],
  stage: Stage,
): Promise<FetchedSnapshots> {
  const fetch = new PartFetch(deps, symbols, stage, await stage.pages());
  const fetched = await fetch.run();
  await assertApart(stage);
  return fetched;
}

/** Nobody knows which answer is wrong, so none is kept. @throws SourceFault `SNAPSHOT_MIXED` */
async function assertApart(stage: Stage): Promise<void> {
  const shared = await stage.sharedContract();
  if (shared === undefined) return;
  const { symbol, contract, windows } = shared;
  await stage.discard();
  throw new SourceFault(
    'SNAPSHOT_MIXED',
    `${stage.date}: ${contract} of ${symbol} arrived in two answers, for ${windows[0]} and for ${windows[1]}`,
    {
      action: 'fail',
      hint: 'The API ignored a filter, or answered another request. Nothing was kept: run again later; if the problem persists, tell the provider, or remove one of the symbols from the job.',
    },
  );
}

class PartFetch {
  readonly #deps: SnapshotDeps;
  readonly #stage: Stage;
  /** Texts of the parts that are staged. */
  readonly #staged: Set<string>;
  readonly #missing = new Map<string, string>();
  readonly #symbols: readonly string[];

  constructor(deps: SnapshotDeps, symbols: readonly string[], stage: Stage, pages: readonly { window: string }[]) {
    this.#deps = deps;
    this.#symbols = symbols;
    this.#stage = stage;
    this.#staged = new Set(pages.map(({ window }) => window));
  }

  async run(): Promise<FetchedSnapshots> {
    const parts: readonly ChainPart[] = this.#symbols.map((symbol) => ({ symbol, filter: {} }));
    const queue = new WorkQueue(parts, {
      date: this.#stage.date,
      plural: 'snapshots',
      log: this.#deps.log,
      formatPiece: formatPart,
      work: (part, own) => this.#fetch(part, own),
      tooBroadCode: 'SNAPSHOT_TOO_BROAD',
    });
    await queue.run();
    const found = new Set([...this.#staged].map((name) => name.split(' ')[0]));
    return {
      missing: [...this.#missing]
        .filter(([symbol]) => !found.has(symbol))
        .map(([window, reason]) => ({ window, reason })),
      empty: this.#symbols.filter((symbol) => !found.has(symbol) && !this.#missing.has(symbol)),
    };
  }

  async #fetch(part: ChainPart, queue: WorkQueue<ChainPart>): Promise<void> {
    const { source, onEvent, log, signal } = this.#deps;
    const { date } = this.#stage;
    const window = formatPart(part);
    assertNotAborted(signal);
    if (this.#staged.has(window)) return;
    // An earlier run found it too broad and has staged some of its parts.
    if ([...this.#staged].some((name) => isWithin(name, part))) return this.#split(part, undefined, queue);
    const answer = await source.ask({ ...part, date }, { signal }).catch((error: unknown) => {
      if (error instanceof SourceFault && error.action === 'split') return error;
      throw error;
    });
    if (answer instanceof SourceFault) return this.#split(part, answer, queue);
    queue.noteAnswer();
    if (answer.kind === 'missing') {
      // A filter without matches gives no rows; a part of an existing chain cannot be missing.
      if (window !== part.symbol) {
        throw new SourceFault(
          'SNAPSHOT_TORN',
          `${date} ${window}: the API answered ${answer.reason} for a part of a chain that was too large for one answer`,
          {
            action: 'fail',
            hint: 'The parts that arrived are staged. Run again later; if the problem persists, tell the provider.',
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
  #split(part: ChainPart, cause: SourceFault | undefined, queue: WorkQueue<ChainPart>): void {
    const halves = this.#deps.source.canNarrow ? splitPart(part) : undefined;
    if (halves === undefined) {
      throw new Fault('SNAPSHOT_TOO_BROAD', `${this.#stage.date} ${formatPart(part)} is too large for the API`, {
        cause,
        hint: 'It cannot be narrowed any further. Run again later; if the problem persists, remove the symbol from the job.',
      });
    }
    const { date } = this.#stage;
    if (cause) this.#deps.onEvent({ kind: 'split', date, window: formatPart(part), reason: cause.code });
    queue.putFirst(halves);
    queue.hire();
  }
}
