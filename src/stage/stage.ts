/**
 * The stage: the local, crash-safe table in which the pages of one partition wait. Invariant: a page is staged whole or
 * not at all, and only once. The window's text is a column of every row, so rows and ledger are one atomic write, and a
 * staged window is not put again. Rows keep their original values, text as text; `seal/` converts the types.
 */
import type { Window } from '../calendar/window.ts';
import type { HashedColumn } from '../engine/row-hash.ts';
import type { DayCounts } from '../plan/counts.ts';
import type { RepairPlan } from '../plan/moved-windows.ts';
import type { CountOptions, HashedCount, StageTotals } from './count.ts';
import type { HashedRows } from './hashed-rows.ts';
import type { Quarantine } from './quarantine.ts';
import type { SealedFile } from './sealed-rows.ts';
import type { StagedPage } from './staged-page.ts';
import type { ExampleId, RepeatedIds, SharedContract, TornGroup } from './window-conflicts.ts';

interface StagedName {
  readonly window: string;
  readonly rows: number;
}

export interface Stage {
  readonly date: string;
  /** Quoted name of the table, for `seal/`. */
  readonly table: string;
  /**
   * Stages the page of a window, or of a named part; its rows are on disk when this returns. Idempotent per window.
   * @throws Fault `PAGE_REFUSED` if it is not a page of this job, or has a bad row and the job accepts none; `BAD_ROWS`
   * if too many are bad
   */
  put(window: Window | string, page: StagedPage): Promise<void>;
  /** Staged windows, with their number of rows. */
  windows(): Promise<readonly { readonly window: Window; readonly rows: number }[]>;
  /** The same, by the text that names each window; counted once, until rows change. */
  pages(): Promise<readonly StagedName[]>;
  /** Staged rows by second of the day (groups by grain for aggregating jobs). */
  countBySecond(options?: Pick<CountOptions, 'symbol' | 'hashed'>): Promise<DayCounts>;
  /** Staged rows by symbol. */
  countBySymbol(options?: Pick<CountOptions, 'hashed'>): Promise<DayCounts>;
  /**
   * Sums of hashes of the staged rows by second or by symbol, in a fraction of the time of the counts above.
   * @returns `undefined` if rows are odd, so that the hash of their values says nothing
   */
  hashCells(
    axis: 'symbol' | 'time',
    hashed: readonly HashedColumn[],
  ): Promise<ReadonlyMap<number | string, HashedCount> | undefined>;
  /** Reads an answer to `buildHashedRows`; nothing is kept. */
  readHashedRows(page: StagedPage, hashed: readonly HashedColumn[]): Promise<HashedRows>;
  /** Rows and distinct ids; counted once, until rows change. */
  totals(): Promise<StageTotals>;
  /** For an aggregating job: a group that came in more than one window; for other jobs `undefined`. */
  tornGroup(): Promise<TornGroup | undefined>;
  /** For a snapshot: a contract that came in more than one answer; for other jobs `undefined`. */
  sharedContract(): Promise<SharedContract | undefined>;
  /** For an option chain: contracts by strike (thousandths), ascending, of each symbol asked for. */
  strikes(): Promise<ReadonlyMap<string, readonly (readonly [strike: number, contracts: number])[]>>;
  /** For a job of single trades: the answers that repeat ids, worst first. */
  repeatedIds(): Promise<readonly RepeatedIds[]>;
  /** Some ids that several rows share, most frequent first. */
  exampleIds(): Promise<readonly ExampleId[]>;
  /** Rows beyond one per version of a trade, which the source sent twice; or per id, symbol, time and contract (`key`). */
  countRepeats(one: 'version' | 'key'): Promise<number>;
  /** Rows beyond one per trade, newer versions included: no drop contains them. */
  countReplaced(): Promise<number>;
  /** Fields beyond the job's columns in which a staged row has a value: one that only a refused page had is none. */
  extraFields(): Promise<readonly string[]>;
  /** The quarantined rows and the rewritten values. `totals` includes neither; the counts include quarantined rows. */
  quarantine(): Promise<Quarantine>;
  /** Writes the rows in quarantine as JSON lines. @throws EngineFault */
  writeQuarantine(path: string): Promise<void>;
  /** Stages the rows of a sealed drop in the stretches that a plan keeps, each stretch as a window. Call it on an empty stage. */
  fill(drop: SealedFile, plan: RepairPlan): Promise<void>;
  /**
   * Stages the rows of a sealed drop, outside of what the plan keeps, whose id no staged row has: the source no longer has
   * them. Rows without an id are left out, and those whose trade a new row has under another id. Call it once.
   * @param elsewhere a table of ids that are now of another date: they are left out @returns how many
   */
  keepGone(drop: SealedFile, plan: RepairPlan, elsewhere?: string): Promise<number>;
  /** Drops the pages of these windows, so that they can be requested again. */
  forget(windows: readonly Window[]): Promise<void>;
  /** Drops the pages that have rows in quarantine: they may have changed when requested again. */
  forgetBad(): Promise<void>;
  /** Drops the whole partition. */
  discard(): Promise<void>;
}

export interface StageOptions {
  /** Known rows of the date: if too many of them are bad, no further page is requested. */
  readonly rows?: number | undefined;
  /** Drop what is staged of the date. Default: false, it is kept. */
  readonly isEmpty?: boolean | undefined;
}
