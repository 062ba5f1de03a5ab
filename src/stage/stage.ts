/**
 * The stage: the local, crash-safe table in which the pages of one partition wait. Invariant: a page is in whole or not
 * at all, and once: the window's text is a column of every row, so rows and ledger are one atomic write, and a window that
 * is in is not put again. Rows stay as they came, text as text; `seal/` gives them their types.
 */
import type { Window } from '../calendar/window.ts';
import type { HashedColumn } from '../engine/row-hash.ts';
import type { DayCounts } from '../plan/counts.ts';
import type { CountOptions, StageTotals } from './count.ts';
import type { HashedRows } from './hashed-rows.ts';
import type { Quarantine } from './quarantine.ts';
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
   * Stages the page of a window, or of what the text names; its rows are on disk when this returns. Idempotent per
   * window. @throws Fault `PAGE_REFUSED` when it is no page of this job, or has a bad row and the job takes none;
   * `BAD_ROWS` when too many are bad
   */
  put(window: Window | string, page: StagedPage): Promise<void>;
  /** Windows whose pages are in, with their rows. */
  windows(): Promise<readonly { readonly window: Window; readonly rows: number }[]>;
  /** The same by the text that names them. */
  pages(): Promise<readonly StagedName[]>;
  /** What is staged by second of the day (groups by grain for aggregating jobs). */
  countBySecond(options?: Pick<CountOptions, 'symbol' | 'hashed'>): Promise<DayCounts>;
  /** What is staged by symbol. */
  countBySymbol(options?: Pick<CountOptions, 'hashed'>): Promise<DayCounts>;
  /** Reads an answer to `buildHashedRows`, of which nothing is kept. */
  readHashedRows(page: StagedPage, hashed: readonly HashedColumn[]): Promise<HashedRows>;
  totals(): Promise<StageTotals>;
  /** Of an aggregating job a group that came in more than one window; of others nothing. */
  tornGroup(): Promise<TornGroup | undefined>;
  /** Of a snapshot a contract that came in more than one answer; of other jobs nothing. */
  sharedContract(): Promise<SharedContract | undefined>;
  /** Of a job of single trades the answers that repeat ids, the worst first. */
  repeatedIds(): Promise<readonly RepeatedIds[]>;
  /** Some ids that several rows have, the most frequent first. */
  exampleIds(): Promise<readonly ExampleId[]>;
  /** Rows beyond one for each version of a trade: what the source sent twice. A newer version is none. */
  countRepeats(): Promise<number>;
  /** Rows beyond one for each trade, newer versions included: those that no drop has. */
  countReplaced(): Promise<number>;
  /** Fields beyond the job's columns that the answers brought. */
  extraFields(): Promise<readonly string[]>;
  /** What is in quarantine, and what was rewritten without loss. Neither is in `totals`; the counts have the first. */
  quarantine(): Promise<Quarantine>;
  /** Writes the rows in quarantine as JSON lines. @throws EngineFault */
  writeQuarantine(path: string): Promise<void>;
  /** Drops the pages of these windows, so that they can be asked again. */
  forget(windows: readonly Window[]): Promise<void>;
  /** Drops the pages that have rows in quarantine: they may be others when they are asked again. */
  forgetBad(): Promise<void>;
  /** Drops the whole partition. */
  discard(): Promise<void>;
}

export interface StageOptions {
  /** Rows that the date is known to have: with many bad ones among them no further page is asked for. */
  readonly rows?: number | undefined;
}
