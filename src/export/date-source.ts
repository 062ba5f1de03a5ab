/**
 * The contract between an export and the source of a job. Trades and groups, snapshots, and a server's table each implement
 * it, and whatever differs between them lies behind it: how dates are counted, what is fetched, and what proves that it is
 * whole. `openDates` in `export.ts` chooses the implementation.
 */

import type { CheckResult, Manifest } from '../ledger/manifest.ts';
import type { HeldDate } from '../plan/clocks.ts';
import type { CountTotals, DayCounts } from '../plan/counts.ts';
import type { LookbackRange } from '../plan/dates.ts';
import type { ExportRun } from '../run/run.ts';
import type { AuditDeps } from '../seal/audit.ts';
import type { DropChecksum, DropColumn } from '../seal/write-parquet.ts';
import type { Stage } from '../stage/stage.ts';
import type { AuditRecord } from '../state/documents.ts';
import type { AskedSymbols } from '../state/job-state.ts';
import type { DateResult } from '../state/run-result.ts';
import type { DateSelection } from './select-dates.ts';

export interface PlannedDate {
  readonly date: string;
  /** `undefined`: not counted yet, or cannot be counted beforehand. */
  readonly counts: DayCounts | undefined;
  /** Groups by cell of an aggregating job; `undefined`: counted before the export. */
  readonly groups?: DayCounts | undefined;
  /** As counted, or else as many as the last date had; `undefined` if neither is known. */
  readonly rows: number | undefined;
  /** Fewest page requests at the current row limit. */
  readonly pages: number;
  readonly expiresAtMs: number;
}

export interface ExportPlan {
  /** If clocks differ, the slowest: no date expires that any clock calls complete. */
  readonly lookback: LookbackRange;
  /** Unsealed, settled dates with rows, soonest expiry first; dates that are no session by the calendar included. */
  readonly dates: readonly PlannedDate[];
  /** Settled, unsealed session dates without rows of the job in the source. */
  readonly empty: ReadonlySet<string>;
  /** Of these, the dates of which the source has other rows; absent: not asked. */
  readonly unmatched?: ReadonlySet<string> | undefined;
  /** Unsealed dates that may be due but are held back: the clocks disagree, or the source does not show their end. */
  readonly held: readonly HeldDate[];
  /** Of these, the ones that have rows at the source: if they expire, they are lost. */
  readonly heldRows?: readonly PlannedDate[] | undefined;
  /** Dates whose last rows are so recent that more may follow, and when each will have settled. */
  readonly open?: ReadonlyMap<string, number> | undefined;
}

/** The plan with the held-back dates that have rows: a loss of theirs must not go unnoticed. */
export function withHeld(plan: ExportPlan): ExportPlan {
  return { ...plan, dates: [...plan.dates, ...(plan.heldRows ?? [])] };
}

/** A date that is not exported now; what was fetched stays staged. */
export type Waiting =
  /** Why: a clock now calls it unfinished or clipped, or the source does not show its end. */
  | { readonly held: string }
  /** The last rows are so recent that more may follow: when it will have settled if none does. */
  | { readonly settlesAtMs: number };

/** The source has no rows of the date; `missing` is named in the job, but without data there. */
export interface NoRows {
  readonly missing: NonNullable<Manifest['missing']>;
}

/** Rows that are as complete as their source can prove. */
export interface CompleteRows {
  /** What was sent to the source. */
  readonly query: string;
  /** The row limit of its pages; absent where it has none. */
  readonly rowLimit?: number | undefined;
  /** Windows for which the source has no rows. */
  readonly missing?: NonNullable<Manifest['missing']>;
  /** The source's last counts; without them only a degraded date is sealed. */
  readonly counted: CountTotals | undefined;
  /** What the recount proved; absent without one. */
  readonly recount?: Manifest['recount'];
  /** The counts that the recount proved: sealed beside the drop, for audits. */
  readonly counts?: DayCounts | undefined;
  /** End of the segments that the rows cover, `16:15`, where like sessions have later ones. */
  readonly through?: string | undefined;
  /** Seal as `degraded`, for this reason; without a recount, whatever the source counted. */
  readonly degradedReason?: string | undefined;
  /** What is odd about the date although it has what the source has. */
  readonly doubts?: readonly CheckResult[] | undefined;
}

/** Complete rows: a stage, or its stand-in when rows are streamed. */
export type SealedRows = Pick<
  Stage,
  | 'date'
  | 'extraFields'
  | 'totals'
  | 'countRepeats'
  | 'countReplaced'
  | 'pages'
  | 'quarantine'
  | 'writeQuarantine'
  | 'forgetBad'
  | 'discard'
>;

/** The file of a date before it is published. */
export interface WrittenFile {
  /** Names of other files of the date begin with it. */
  readonly path: string;
  /** @param duplicates rows beyond one for each trade: they are not written @returns the checksum that it must have */
  write(columns: readonly DropColumn[], duplicates: number): Promise<DropChecksum>;
  /** Removes what nobody has asked for. */
  discard(): Promise<void>;
}

/** A date that is being fetched until it is proved. */
export interface DateWork<Proof> {
  /** Where its rows are. */
  readonly stage: SealedRows;
  /** Fetches what is not there. @throws Fault when a part finally fails, after the others are there */
  fetch(): Promise<void>;
  /**
   * Asks the source what the date must have. What differs is dropped, to be fetched again.
   * @returns `undefined` if anything differed
   */
  prove(): Promise<Proof | undefined>;
  /** @returns the fault of a date whose proof never holds */
  explainUnsettled(): Error;
}

/** What an export does with a date. */
export interface DateExport extends DateWork<CompleteRows | NoRows | Waiting> {
  readonly file: WrittenFile;
  /** It was sealed: what was kept for its next export goes. */
  noteSealed?(): Promise<void>;
}

/** What audits found. */
export interface Audited {
  /** By date; without those that could not be compared. */
  readonly audits: Record<string, AuditRecord>;
  /** Restated dates. */
  readonly results: DateResult[];
}

export interface DateSource {
  /** Set where dates cannot be counted together: what was asked, so that an empty answer is remembered. */
  readonly question?: AskedSymbols | undefined;
  /**
   * Which dates are due, with their counts where rows can be counted. It goes before the other calls.
   * @param run of the plan: without it, the last rows of a session alone tell whether it is over
   * @throws SourceFault, EngineFault; Fault `DATE_EXPIRED` with the earliest date that is still complete, `DATE_FUTURE` with
   *   the last
   */
  plan(selection: DateSelection, run?: ExportRun): Promise<ExportPlan>;
  /** Opens a planned date, which may turn out to have no rows or not to be over. @param restate whether it is sealed */
  open(run: ExportRun, planned: PlannedDate, restate: boolean): Promise<DateExport | NoRows | Waiting>;
  /**
   * Which of the dates have rows, whatever the job's own condition; absent where it can have none.
   * @param newest date with rows of the job: the dates before it are over
   * @returns `unsure`: those that have some, but may not be over
   */
  findPresent?(
    dates: readonly string[],
    newest: string,
  ): Promise<{ readonly over: readonly string[]; readonly unsure: readonly string[] }>;
  /** What differs from a sealed date, in words; `undefined` for one that is no longer whole in the source. */
  compare?(sealed: Manifest, at: AuditDeps): Promise<readonly string[] | undefined>;
  /**
   * Compares sealed dates with the source, and restates as the job's rule says.
   * @param dates sealed and undamaged dates that this run did not export @param exported those that it did
   * @throws Fault of kind `interrupted`, `STORE_CHANGED`
   */
  audit?(run: ExportRun, dates: readonly string[], exported: readonly DateResult[]): Promise<Audited>;
}
