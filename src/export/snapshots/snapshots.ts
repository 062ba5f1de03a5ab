/**
 * Fetches the snapshots of one date: one request a symbol, several in flight, paced by the client. Invariant: what is
 * staged, and what was too broad, is never requested again; a symbol unknown to the API is reported, not skipped.
 */
import { assertNotAborted, Fault } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import type { SnapshotClient } from '../../source/snapshot.ts';
import { SourceFault } from '../../source/source.ts';
import type { Stage } from '../../stage/stage.ts';
import type { ApiLimits } from '../../state/limits.ts';
import type { OnRunEvent } from '../../state/run-events.ts';
import { WorkQueue } from '../work-queue.ts';
import { ChainForecast } from './chain-forecast.ts';
import {
  type ChainPart,
  countStrikes,
  formatPart,
  listMissing,
  partOf,
  type StrikeCount,
  splitPart,
} from './chain-part.ts';
import { askStrikes } from './chain-sample.ts';
import { ChainSizes, sum } from './chain-sizes.ts';

interface SnapshotDeps {
  readonly source: SnapshotClient;
  /** What is known of the sizes of chains; learns from this date. */
  readonly limits: ApiLimits;
  readonly log: Log;
  readonly onEvent: OnRunEvent;
  readonly signal?: AbortSignal | undefined;
}

/** A part was too large. */
interface Refusal {
  readonly cause: SourceFault;
  /** Number of its contracts, if the API states it. */
  readonly contracts: number | undefined;
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
  await fetch.learn();
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
  readonly #sizes: ChainSizes;
  readonly #samples = new Map<string, Promise<readonly StrikeCount[]>>();

  constructor(deps: SnapshotDeps, symbols: readonly string[], stage: Stage, pages: readonly { window: string }[]) {
    this.#deps = deps;
    this.#symbols = symbols;
    this.#stage = stage;
    this.#staged = new Set(pages.map(({ window }) => window));
    this.#sizes = new ChainSizes(deps.limits);
  }

  async run(): Promise<FetchedSnapshots> {
    const parts = this.#symbols.flatMap((symbol) => listMissing(symbol, this.#staged));
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

  /** After the whole date is staged. */
  async learn(): Promise<void> {
    if (this.#deps.source.canNarrow) this.#sizes.learn(await this.#stage.strikes());
  }

  async #fetch(part: ChainPart, queue: WorkQueue<ChainPart>): Promise<void> {
    const inside = countStrikes(this.#sizes.strikesOf(part.symbol), part);
    if (inside.length > 1 && this.#sizes.isTooLarge(sum(inside))) {
      return await this.#walk(part, { weights: inside, kind: 'counts', total: undefined }, queue);
    }
    const answer = await this.#ask(part, queue);
    if (typeof answer === 'object') await this.#split(part, answer, queue);
  }

  /**
   * Asks for a part and stages it.
   * @param expected number of its contracts, if it can be guessed
   * @returns its rows, or the refusal of one that is too large
   */
  async #ask(part: ChainPart, queue: WorkQueue<ChainPart>, expected?: number): Promise<number | Refusal> {
    const { source, onEvent, log, signal } = this.#deps;
    const { date } = this.#stage;
    const window = formatPart(part);
    assertNotAborted(signal);
    const answer = await source.ask({ ...part, date }, { signal }).catch((error: unknown) => {
      if (error instanceof SourceFault && error.action === 'split') return error;
      throw error;
    });
    if (answer instanceof SourceFault) {
      if (!source.canNarrow) throw this.#tooBroad(part, answer);
      onEvent({ kind: 'split', date, window, reason: answer.code });
      return { cause: answer, contracts: this.#sizes.noteRefused(part, answer.message, expected) };
    }
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
      return 0;
    }
    await this.#stage.put(window, answer);
    if (answer.rows > 0) this.#staged.add(window);
    this.#sizes.notePassed(answer.rows);
    onEvent({ kind: 'page', date, window, rows: answer.rows });
    return answer.rows;
  }

  /** Fetches a part that was refused in smaller ones: by the strikes of the last date; else of a sample; else blindly. */
  async #split(part: ChainPart, { cause, contracts: total }: Refusal, queue: WorkQueue<ChainPart>): Promise<void> {
    const inside = countStrikes(this.#sizes.strikesOf(part.symbol), part);
    if (inside.length > 1) return await this.#walk(part, { weights: inside, kind: 'counts', total }, queue);
    const sample = countStrikes(await this.#sample(part.symbol), part);
    if (sample.length > 1) return await this.#walk(part, { weights: sample, kind: 'sample', total }, queue);
    const halves = splitPart(part);
    if (halves === undefined) throw this.#tooBroad(part, cause);
    queue.putFirst(halves);
    queue.hire();
  }

  async #sample(symbol: string): Promise<readonly StrikeCount[]> {
    const { source, signal } = this.#deps;
    const sample = this.#samples.get(symbol) ?? askStrikes(source, symbol, this.#stage.date, signal);
    this.#samples.set(symbol, sample);
    this.#sizes.notePassed(sum(await sample));
    return await sample;
  }

  /**
   * Fetches a part from the lowest strike to the highest, in parts as large as answers may be. One at a time: each answer
   * shows how many contracts the next strikes have.
   */
  async #walk(
    { symbol, filter }: ChainPart,
    known: ConstructorParameters<typeof ChainForecast>[0],
    queue: WorkQueue<ChainPart>,
  ): Promise<void> {
    const forecast = new ChainForecast(known);
    const side = filter.putCall === undefined ? {} : { putCall: filter.putCall };
    let low = filter.strikeMin;
    // Of a known chain only one part is larger than what has passed.
    for (let isTrial = true; !forecast.isOver; isTrial = known.kind === 'sample') {
      const { strikes, above, expected } = forecast.plan(isTrial ? this.#sizes.trial : this.#sizes.safe);
      const part = partOf(symbol, side, low, above === undefined ? filter.strikeMax : above - 1);
      const answer = await this.#ask(part, queue, expected);
      if (typeof answer === 'number') forecast.noteAnswer(answer);
      else {
        forecast.noteRefusal(answer.contracts);
        if (strikes > 1) continue;
        await this.#split(part, answer, queue);
        forecast.skip();
      }
      low = above;
    }
  }

  #tooBroad(part: ChainPart, cause: SourceFault): Fault {
    return new Fault('SNAPSHOT_TOO_BROAD', `${this.#stage.date} ${formatPart(part)} is too large for the API`, {
      cause,
      hint: 'It cannot be narrowed any further. Run again later; if the problem persists, remove the symbol from the job.',
    });
  }
}
