/**
 * What differs between a staged date and the source's counts. A cell may differ although its rows are the same: a source may
 * keep a value in another form than it sends (a price as the text "1.50", a name that is not UTF-8), and hash that. Such a
 * difference would look like a change for ever. Invariant: it is accepted only when proved. The source is asked for the rows
 * of a cell together with its hashes, in one answer: only the form differs if its hashes add up to its count, and its rows
 * equal the staged ones.
 */
import { isOverlapping, type Stretch } from '../../calendar/window.ts';
import { axisOf, keyOf, secondOf, stretchOf } from '../../plan/axis.ts';
import {
  type CellCount,
  type DayCounts,
  findDifferences,
  isSameCount,
  isSameHash,
  mergeParts,
} from '../../plan/counts.ts';
import { type Proof, weakerProof } from '../../plan/proof.ts';
import { buildHashedRows } from '../../plan/statement.ts';
import type { OpenedSql } from '../../run/open-source.ts';
import { SourceFault } from '../../source/source.ts';
import { readHashedRows } from '../../stage/count.ts';
import { isAboutData } from '../../stage/intake.ts';
import type { Stage } from '../../stage/stage.ts';
import { hashedOf, noteProof, probeSymbol, proofOf } from './probe.ts';

/** A cell of the stage and of the source; one of them may be missing. */
interface CellPair {
  readonly key: string;
  readonly stretch: Stretch;
  readonly staged: CellCount | undefined;
  readonly source: CellCount | undefined;
}

/** If more than this share of a date's cells differs, the form differs, not the rows. */
const WIDESPREAD = 0.5;
/** Most cells asked in vain, because rows have moved in them too. */
const MAX_TRIES = 3;
/** Each costs a request a round; with more odd symbols the values of some are not compared, and the manifest says so. */
const MAX_ODD_SYMBOLS = 16;

interface SuspectPair extends CellPair {
  readonly staged: CellCount;
  readonly source: CellCount;
}

/** Remembers the differences of one date that stay the same from round to round. */
export class Differences {
  readonly #api: OpenedSql;
  readonly #stage: Stage;
  #seen: ReadonlyMap<string, string> = new Map();
  readonly #explained = new Map<string, string>();
  #weakest: Proof = 'ids and values';
  /** The values of a cell with an odd row cannot be compared. Along the symbols a cell is a symbol's whole day. */
  #hasOdd = false;

  constructor(api: OpenedSql, stage: Stage) {
    this.#api = api;
    this.#stage = stage;
  }

  /** What is proved of the date once nothing differs. @param isEqual whether all hashes are those of the source */
  prove(isEqual: boolean): Proof {
    const proof = weakerProof(this.#weakest, proofOf(this.#api));
    return this.#hasOdd && !isEqual ? weakerProof(proof, 'ids') : proof;
  }

  /**
   * Stretches to fetch again. Single trades are compared with the stage. The rows inside a group cannot be: for groups the
   * raw counts before the first page are also compared with those after the last.
   */
  async find(before: DayCounts, after: DayCounts, groups: DayCounts): Promise<readonly Stretch[]> {
    const { source } = this.#api.job;
    const stage = this.#stage;
    if (source.kind === 'aggregate') {
      const staged = await stage.count(axisOf(groups));
      const moved = findDifferences(mergeParts(before), mergeParts(after));
      // A raw second lies in the group of its grain, wherever in it.
      const cells = [...findDifferences(staged, mergeParts(groups)), ...moved];
      return cells.map((cell) => stretchOf(cell, source.grainSeconds));
    }
    const hashed = hashedOf(this.#api);
    const staged = await stage.count(axisOf(after), { hashed });
    const wanted = mergeParts(after);
    const pairs = pairCells(staged, wanted, stretchOf);
    const found: CellPair[] = [];
    for (const pair of await this.#leaveOutCommon(pairs, wanted.length)) {
      const { symbol } = pair.stretch.from;
      // Of a symbol with many pages, only the seconds that differ are fetched again.
      const isLarge = symbol !== undefined && (await this.#windowsOf([pair.stretch])).length > 1;
      found.push(...(isLarge ? await this.#compareSeconds(symbol, after) : [pair]));
    }
    const isOdd = ({ valueHash }: CellCount) => hashed !== undefined && hashed.length > 0 && valueHash === undefined;
    const odd = staged.filter(isOdd);
    this.#hasOdd = odd.length > 0;
    const isPaired = (name: string) => pairs.some(({ stretch }) => stretch.from.symbol === name);
    const symbols = odd.flatMap(({ symbol }) => symbol ?? []).filter((name) => !isPaired(name));
    for (const symbol of symbols.slice(0, MAX_ODD_SYMBOLS)) found.push(...(await this.#compareSeconds(symbol, after)));
    return (await this.#leaveOutLasting(found)).map(({ stretch }) => stretch);
  }

  /** Drops the pages of these stretches. */
  async forget(stretches: readonly Stretch[]): Promise<void> {
    await this.#stage.forget(await this.#windowsOf(stretches));
  }

  async #windowsOf(stretches: readonly Stretch[]) {
    const all = (await this.#stage.windows()).map(({ window }) => window);
    return all.filter((window) => stretches.some((stretch) => isOverlapping(stretch, window)));
  }

  /** Seconds of a symbol that differ. */
  async #compareSeconds(symbol: string, after: DayCounts): Promise<readonly CellPair[]> {
    const parts = after.filter((part) => part.symbol === symbol);
    const source = await probeSymbol(this.#api, this.#stage.date, symbol, parts);
    const hashed = hashedOf(this.#api);
    const staged = await this.#stage.count('time', { symbol, hashed });
    return pairCells(staged, source, secondOf);
  }

  /** Leaves out cells that differ by form alone, if the whole date does; the source is then known to write that form. @param cells of the date */
  async #leaveOutCommon(pairs: readonly CellPair[], cells: number): Promise<readonly CellPair[]> {
    const suspects = pairs.filter(isSuspect);
    if (suspects.length <= cells * WIDESPREAD) return pairs;
    const proof = await this.#findForm(suspects);
    if (proof === undefined) return pairs;
    const reason = 'it sends values in a different form than it hashes';
    noteProof(this.#api, proof, reason);
    return pairs.filter((pair) => !isSuspect(pair) || !isExplained(pair, proof));
  }

  /** Leaves out cells with the same difference after a second fetch, once it is proved to be only of form. */
  async #leaveOutLasting(pairs: readonly CellPair[]): Promise<readonly CellPair[]> {
    const left = pairs.filter((pair) => !isSuspect(pair) || this.#explained.get(pair.key) !== describe(pair));
    const suspects = left.filter(isSuspect);
    const lasting = suspects.filter((pair) => this.#seen.get(pair.key) === describe(pair));
    this.#seen = new Map(suspects.map((pair) => [pair.key, describe(pair)]));
    if (lasting.length === 0) return left;
    const proof = await this.#findForm(lasting);
    if (proof === undefined) return left;
    this.#weakest = weakerProof(this.#weakest, proof);
    const explained = lasting.filter((pair) => isExplained(pair, proof));
    for (const pair of explained) this.#explained.set(pair.key, describe(pair));
    return left.filter((pair) => !explained.some(({ key }) => key === pair.key));
  }

  /** @returns the proof that still holds; `undefined` when no cell is proved to differ by form */
  async #findForm(suspects: readonly SuspectPair[]): Promise<Proof | undefined> {
    const smallest = [...suspects].sort((a, b) => a.source.rows - b.source.rows).slice(0, MAX_TRIES);
    for (const pair of smallest) {
      const proof = await this.#ask(pair);
      if (proof !== undefined) return proof;
    }
    return undefined;
  }

  async #ask({ stretch, staged, source }: SuspectPair): Promise<Proof | undefined> {
    const { limits, job, source: api, signal } = this.#api;
    const hashed = hashedOf(this.#api) ?? [];
    const window = { date: this.#stage.date, ...stretch };
    try {
      const sql = buildHashedRows(job, window, hashed, limits.dayEdges);
      const page = await api.ask(sql, { signal });
      const rows = await readHashedRows(this.#stage, page, hashed);
      const isAsCounted = rows.source.idHash === source.idHash && isSameHash(rows.source.valueHash, source.valueHash);
      const isAsStaged = rows.own.idHash === staged.idHash && isSameHash(rows.own.valueHash, staged.valueHash);
      if (rows.rows !== source.rows || !isAsCounted || !isAsStaged) return undefined;
      return rows.own.idHash === rows.source.idHash ? 'ids' : 'counts';
    } catch (error) {
      // No answer, no proof: the cell is fetched again.
      if (error instanceof SourceFault && error.action === 'split') return undefined;
      // Bad rows give no proof either.
      if (isAboutData(error)) return undefined;
      throw error;
    }
  }
}

/** Counts and update marks agree; only the hashes differ. */
function isSuspect(pair: CellPair): pair is SuspectPair {
  const { staged, source } = pair;
  return staged !== undefined && source !== undefined && staged.rows === source.rows && isSameCount(staged, source);
}

function isExplained({ staged, source }: SuspectPair, proof: Proof): boolean {
  return proof === 'counts' || isSameHash(staged.idHash, source.idHash);
}

function describe({ staged, source }: SuspectPair): string {
  return JSON.stringify([staged, source].map(({ rows, ids, idHash, valueHash }) => [rows, ids, idHash, valueHash]));
}

/** What differs between the stage and the source. */
function pairCells(staged: DayCounts, source: DayCounts, placeOf: (cell: CellCount) => Stretch): readonly CellPair[] {
  const [ours, theirs] = [staged, source].map((cells) => new Map(cells.map((cell) => [keyOf(cell), cell])));
  return findDifferences(staged, source).map((cell) => {
    const key = keyOf(cell);
    return { key, stretch: placeOf(cell), staged: ours?.get(key), source: theirs?.get(key) };
  });
}
