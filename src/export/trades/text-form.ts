/**
 * Cells whose hashes differ although the rows are the same: a source may keep a value in another form than it sends
 * (a price as the text "1.50", a name that is not UTF-8). Such a difference would look like a change for ever. Invariant: it
 * is accepted only when proved. The source is asked for the rows of a cell together with its hashes, in one answer: only
 * the form differs if its hashes add up to its count, and its rows equal the staged ones.
 */
import type { Stretch } from '../../calendar/window.ts';
import type { Log } from '../../core/log.ts';
import type { SqlJob } from '../../job/job.ts';
import { type CellCount, isSameCount, isSameHash, keyOf } from '../../plan/counts.ts';
import { listHashedColumns, type Proof, weakerProof } from '../../plan/proof.ts';
import { buildHashedRows } from '../../plan/statement.ts';
import { SourceFault } from '../../source/source.ts';
import { readHashedRows } from '../../stage/hashed-rows.ts';
import { isAboutData } from '../../stage/intake.ts';
import type { Stage } from '../../stage/stage.ts';
import { noteProof, proofOf } from './recount-proof.ts';
import type { WindowDeps } from './windows.ts';

/** A cell of the stage and of the source; one of them may be missing. */
export interface CellPair {
  readonly key: string;
  readonly stretch: Stretch;
  readonly staged: CellCount | undefined;
  readonly source: CellCount | undefined;
}

/** If more than this share of a date's cells differs, the form differs, not the rows. */
const WIDESPREAD = 0.5;
/** Most cells asked in vain, because rows have moved in them too. */
const MAX_TRIES = 3;

interface SuspectPair extends CellPair {
  readonly staged: CellCount;
  readonly source: CellCount;
}

/** Remembers the differences of one date that stay the same from round to round. */
export class TextForms {
  readonly #deps: WindowDeps & { readonly log: Log };
  readonly #job: SqlJob;
  readonly #stage: Stage;
  #seen: ReadonlyMap<string, string> = new Map();
  readonly #explained = new Map<string, string>();
  #weakest: Proof = 'ids and values';

  constructor(deps: WindowDeps & { readonly log: Log }, job: SqlJob, stage: Stage) {
    this.#deps = deps;
    this.#job = job;
    this.#stage = stage;
  }

  /** What is proved of the date once nothing differs. */
  get proof(): Proof {
    return weakerProof(this.#weakest, proofOf(this.#deps.limits, this.#job));
  }

  /** Leaves out cells that differ by form alone, if the whole date does; the source is then known to write that form. @param cells of the date */
  async leaveOutCommon(pairs: readonly CellPair[], cells: number): Promise<readonly CellPair[]> {
    const suspects = pairs.filter(isSuspect);
    if (suspects.length <= cells * WIDESPREAD) return pairs;
    const proof = await this.#findForm(suspects);
    if (proof === undefined) return pairs;
    const reason = 'it sends values in a different form than it hashes';
    noteProof(this.#deps, this.#job, proof, reason);
    return pairs.filter((pair) => !isSuspect(pair) || !isExplained(pair, proof));
  }

  /** Leaves out cells with the same difference after a second fetch, once it is proved to be only of form. */
  async leaveOutLasting(pairs: readonly CellPair[]): Promise<readonly CellPair[]> {
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
    const { limits, source: api, signal } = this.#deps;
    const hashed = listHashedColumns(this.#job.source, proofOf(limits, this.#job)) ?? [];
    const window = { date: this.#stage.date, ...stretch };
    try {
      const sql = buildHashedRows(this.#job, window, hashed, limits.dayEdges);
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

/** Differences of what is staged and what the source has, in the order of `differing`. */
export function pairCells(
  differing: readonly CellCount[],
  staged: readonly CellCount[],
  source: readonly CellCount[],
  stretchOf: (cell: CellCount) => Stretch,
): readonly CellPair[] {
  const [ours, theirs] = [staged, source].map((cells) => new Map(cells.map((cell) => [keyOf(cell), cell])));
  return differing.map((cell) => {
    const key = keyOf(cell);
    return { key, stretch: stretchOf(cell), staged: ours?.get(key), source: theirs?.get(key) };
  });
}
