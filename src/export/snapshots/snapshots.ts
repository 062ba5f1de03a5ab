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
import {
  type ChainPart,
  countStrikes,
  cutPart,
  formatPart,
  listMissing,
  partOf,
  type StrikeCount,
  splitPart,
} from './chain-part.ts';
import { askStrikes } from './chain-sample.ts';
import { ChainSizes, sum } from './chain-sizes.ts';

/** Parts into which a chain of unknown size is cut at first. */
const FIRST_PARTS = 8;
/** A part that was refused is asked for again with so much of its strikes. */
const SHRINK = 0.75;

interface SnapshotDeps {
  readonly source: SnapshotClient;
  /** What is known of the sizes of chains; learns from this date. */
  readonly limits: ApiLimits;
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

  constructor(deps: SnapshotDeps, symbols: readonly string[], stage: Stage, pages: readonly { window: string }[]) {
    this.#deps = deps;
    this.#symbols = symbols;
    this.#stage = stage;
    this.#staged = new Set(pages.map(({ window }) => window));
    this.#sizes = new ChainSizes(deps.limits);
  }

  async run(): Promise<FetchedSnapshots> {
    const parts = this.#symbols.flatMap((symbol) =>
      listMissing(symbol, this.#staged).flatMap((part) => this.#plan(part)),
    );
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

  /** The parts to ask for in place of one, by what the last date taught; the part itself where that says nothing. */
  #plan(part: ChainPart): readonly ChainPart[] {
    const { trial, safe } = this.#sizes;
    const all = this.#sizes.strikesOf(part.symbol);
    const cut = (what: ChainPart, size: number) => cutPart(what, countStrikes(all, what), size);
    const contracts = sum(countStrikes(all, part));
    if (trial === undefined || safe === undefined || contracts <= safe || this.#sizes.mayFit(contracts)) return [part];
    const [first = part] = cut(part, trial);
    const { strikeMax } = first.filter;
    if (trial <= safe || strikeMax === undefined) return cut(part, safe);
    // Only one part is larger than what has passed.
    return [first, ...cut({ ...part, filter: { ...part.filter, strikeMin: strikeMax + 1 } }, safe)];
  }

  async #fetch(part: ChainPart, queue: WorkQueue<ChainPart>): Promise<void> {
    const answer = await this.#ask(part, queue);
    if (answer instanceof SourceFault) await this.#split(part, answer, queue);
  }

  /** Asks for a part and stages it. @returns its rows, or the refusal of one that is too large */
  async #ask(part: ChainPart, queue: WorkQueue<ChainPart>): Promise<number | SourceFault> {
    const { source, onEvent, log, signal } = this.#deps;
    const { date } = this.#stage;
    const window = formatPart(part);
    assertNotAborted(signal);
    const answer = await source.ask({ ...part, date }, { signal }).catch((error: unknown) => {
      if (error instanceof SourceFault && error.action === 'split') return error;
      throw error;
    });
    if (answer instanceof SourceFault) {
      onEvent({ kind: 'split', date, window, reason: answer.code });
      return answer;
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

  /** Cuts a part that was refused: by known strikes; else by those of a sample; else blindly. */
  async #split(part: ChainPart, cause: SourceFault, queue: WorkQueue<ChainPart>): Promise<void> {
    const { source, signal } = this.#deps;
    if (!source.canNarrow) throw this.#tooBroad(part, cause);
    const matches = this.#sizes.noteRefused(part, cause.message);
    const inside = countStrikes(this.#sizes.strikesOf(part.symbol), part);
    const known = sum(inside);
    if (inside.length > 1) {
      // Where the API states no limit, two parts are the best guess.
      const most = matches === undefined ? known : ((this.#sizes.safe ?? matches) * known) / matches;
      queue.putFirst(cutPart(part, inside, Math.min(known / 2, most)));
      queue.hire();
      return;
    }
    const isWhole = Object.keys(part.filter).length === 0;
    const sample = isWhole ? await askStrikes(source, part.symbol, this.#stage.date, signal) : [];
    if (sample.length > 1) return await this.#walk(part, sample, matches, queue);
    const halves = splitPart(part);
    if (halves === undefined) throw this.#tooBroad(part, cause);
    queue.putFirst(halves);
    queue.hire();
  }

  /**
   * Fetches a chain from the lowest strike to the highest, in parts as large as its answers allow. One at a time: each shows
   * how many contracts the next strikes have, of which only a sample is known.
   */
  async #walk(
    { symbol }: ChainPart,
    sample: readonly StrikeCount[],
    matches: number | undefined,
    queue: WorkQueue<ChainPart>,
  ): Promise<void> {
    let [left, low, next, density, shrink] = [matches, undefined as number | undefined, 0, 0, 1];
    while (next < sample.length) {
      const rest = sample.slice(next);
      const weight = sum(rest);
      const expected = Math.max(density, left === undefined ? 0 : Math.max(0, left) / weight);
      const { trial } = this.#sizes;
      const wanted = (expected > 0 && trial !== undefined ? trial / expected : weight / FIRST_PARTS) * shrink;
      let taken = 1;
      for (let own = rest[0]?.[1] ?? 0; taken < rest.length; taken += 1) {
        own += rest[taken]?.[1] ?? 0;
        if (own > wanted) break;
      }
      const above = rest[taken]?.[0];
      const part = partOf(symbol, {}, low, above === undefined ? undefined : above - 1);
      const answer = await this.#ask(part, queue);
      if (answer instanceof SourceFault && taken > 1) {
        const own = this.#sizes.noteRefused(part, answer.message);
        // Its exact number, if the API states it, else a guess.
        if (own === undefined) shrink *= SHRINK;
        else density = own / sum(rest.slice(0, taken));
        continue;
      }
      if (answer instanceof SourceFault) queue.putFirst(splitPart(part) ?? [part]);
      else {
        density = answer / sum(rest.slice(0, taken));
        if (left !== undefined) left -= answer;
        shrink = 1;
      }
      low = above;
      next += taken;
    }
  }

  #tooBroad(part: ChainPart, cause: SourceFault): Fault {
    return new Fault('SNAPSHOT_TOO_BROAD', `${this.#stage.date} ${formatPart(part)} is too large for the API`, {
      cause,
      hint: 'It cannot be narrowed any further. Run again later; if the problem persists, remove the symbol from the job.',
    });
  }
}
