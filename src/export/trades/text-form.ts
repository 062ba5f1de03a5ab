/**
 * Cells whose hashes differ although the rows are the same: a source may keep a value in another form than it sends
 * (a price as the text "1.50", a name in bytes that are no UTF-8). Such a difference would look like a change for ever.
 * Invariant: it is believed only when proved. The source is asked for the rows of a cell together with its own hashes of
 * them, in one answer: form it is when its hashes add up to what it counted, and the rows to what is staged.
 */
import type { Stretch } from '../../calendar/window.ts';
import type { Log } from '../../core/log.ts';
import type { SqlJob } from '../../job/job.ts';
import { type CellCount, isSameCount, isSameHash, keyOf } from '../../plan/counts.ts';
import { listHashedColumns, type Proof, weakerProof } from '../../plan/proof.ts';
import { buildHashedRows } from '../../plan/statement.ts';
import { SourceFault } from '../../source/source.ts';
import { isAboutData } from '../../stage/intake.ts';
import type { Stage } from '../../stage/stage.ts';
import { noteProof, proofOf } from './recount-proof.ts';
import type { WindowDeps } from './windows.ts';

/** What is staged of a cell beside what the source has; one of them may be missing. */
export interface CellPair {
  readonly key: string;
  readonly stretch: Stretch;
  readonly staged: CellCount | undefined;
  readonly source: CellCount | undefined;
}

/** Above this share of a date's cells it is the form that differs, not so many rows. */
const WIDESPREAD = 0.5;
/** Cells that are asked for in vain, because rows have moved in them as well. */
const MAX_TRIES = 3;

interface SuspectPair extends CellPair {
  readonly staged: CellCount;
  readonly source: CellCount;
}

/** Of one date: remembers from round to round which differences stay as they are. */
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

  /** What was proved of the date, now that nothing differs any more. */
  get proof(): Proof {
    return weakerProof(this.#weakest, proofOf(this.#deps.limits, this.#job));
  }

  /** Without those that differ by form alone, where the whole date does: the source is known to from now on. @param cells of the date */
  async leaveOutCommon(pairs: readonly CellPair[], cells: number): Promise<readonly CellPair[]> {
    const suspects = pairs.filter(isSuspect);
    if (suspects.length <= cells * WIDESPREAD) return pairs;
    const proof = await this.#findForm(suspects);
    if (proof === undefined) return pairs;
    const reason = 'it sends values in another form than it hashes';
    noteProof(this.#deps, this.#job, proof, reason);
    return pairs.filter((pair) => !isSuspect(pair) || !isExplained(pair, proof));
  }

  /** Without those that are the same difference after they were fetched again, once it is proved to be one of form. */
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

  /** @returns what can still be compared; `undefined` when none of them is proved to differ by form */
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
      const rows = await this.#stage.readHashedRows(page, hashed);
      const isAsCounted = rows.source.idHash === source.idHash && isSameHash(rows.source.valueHash, source.valueHash);
      const isAsStaged = rows.own.idHash === staged.idHash && isSameHash(rows.own.valueHash, staged.valueHash);
      if (rows.rows !== source.rows || !isAsCounted || !isAsStaged) return undefined;
      return rows.own.idHash === rows.source.idHash ? 'ids' : 'counts';
    } catch (error) {
      // Without an answer nothing is proved; the cell is fetched again like any other.
      if (error instanceof SourceFault && error.action === 'split') return undefined;
      // Nor with odd rows in it, which only the careful way of a page reads.
      if (isAboutData(error)) return undefined;
      throw error;
    }
  }
}

/** Counts and marks agree; only the hashes do not. */
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
