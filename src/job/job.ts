/**
 * The resolved job: what the code uses, after `parse.ts` has checked what the user wrote (`shape.ts`) and filled the
 * defaults in. Every field is final; nothing here is optional because a default was forgotten.
 */

import type { DropType } from '../api-contract/trade.ts';
import type { AttachmentKind } from '../report/attach/attach.ts';
import type { ReportNumber } from '../report/numbers.ts';
import type { ObjectOptions } from '../store/store.ts';

export interface Job<Source extends JobSource = JobSource> {
  readonly name: string;
  /** Path of the job file, for messages. */
  readonly file: string;
  readonly source: Source;
  readonly drop: JobDrop;
  readonly rows: JobRows;
  readonly checks: readonly JobCheck[];
  readonly schedule: JobSchedule | undefined;
  readonly reports: readonly JobReport[];
  readonly alerts: JobAlerts;
}

/** A job whose rows are asked for with SQL. */
export type SqlJob = Job<SqlSource>;

/** Entry points of historical SQL. */
export type SqlApi = 'historical' | 'portal';
export type SnapshotApi = 'chain' | 'market-structure';

export type SqlSource = RowSource | AggregateSource;
export type JobSource = SqlSource | SnapshotSource | ServerSource;

/** Individual trades: every row has an `id`, so windows may be cut inside a second. */
interface RowSource {
  readonly kind: 'rows';
  readonly api: SqlApi;
  readonly table: string;
  readonly columns: readonly JobColumn[];
  /** Extra condition, SQL as the user writes it, until `run/job-sql.ts` has read it; empty for none. */
  readonly where: string;
  /** The user's own SELECT of single trades with one `{window}`, likewise; empty for the columns of the table. */
  readonly sql: string;
}

/** Rows aggregated by the API: windows are cut only between groups, so that no group is ever split. */
export interface AggregateSource {
  readonly kind: 'aggregate';
  readonly api: SqlApi;
  readonly table: string;
  readonly columns: readonly JobColumn[];
  /** The user's SQL with one `{window}`, as the user writes it, until `run/job-sql.ts` has read it. */
  readonly sql: string;
  /** Length of the grain, seconds. */
  readonly grainSeconds: number;
  /** Output column that holds the start of the grain. */
  readonly timeColumn: string;
  /** Output columns that the GROUP BY must name: the time column and `split`. */
  readonly groupKeys: readonly string[];
  /** Other keys of the GROUP BY that are columns of the table: a grain that is too much may be split by the first. */
  readonly splitColumns: readonly string[];
}

/** One snapshot per symbol and date, asked for by name: option chains and market structure. */
export interface SnapshotSource {
  readonly kind: 'snapshots';
  readonly api: SnapshotApi;
  readonly symbols: readonly string[];
  readonly columns: readonly JobColumn[];
}

/** A table of a ClickHouse server, streamed as it is. */
export interface ServerSource {
  readonly kind: 'table';
  readonly api: 'clickhouse';
  /** `database.table`. */
  readonly table: string;
  readonly columns: readonly JobColumn[];
  /** Extra condition, SQL; empty for none. */
  readonly where: string;
}

export interface JobColumn {
  readonly name: string;
  readonly type: DropType;
  readonly nullable: boolean;
  /** Nulls are nothing odd in it: the contract has them, for texts as an empty one. */
  readonly oftenNull: boolean;
  readonly lowCardinality: boolean;
  /** The values that it has by the contract, in capitals; in another case they are taken as these. */
  readonly words?: readonly string[] | undefined;
  readonly description: string;
}

interface JobDrop {
  /** `s3://bucket/prefix` or a directory, as written. */
  readonly to: string;
  readonly dataset: string;
  /** Columns of the drop's sort order, ascending. */
  readonly sort: readonly string[];
  /** How objects are written where the store is S3. */
  readonly s3: ObjectOptions;
}

/** What becomes of rows that can be taken neither exactly nor with a null. */
export interface JobRows {
  /** `quarantine`: they go into a file beside the drop. `fail`: the first one fails the date. */
  readonly onBad: 'quarantine' | 'fail';
  /** Largest share of a date's rows that may be in quarantine; one row always may where it is above 0. */
  readonly maxBad: number;
}

/** What must hold of a date before it is sealed; a check that only warns is recorded in the manifest. */
export type JobCheck = { readonly onFailure: 'warn' | 'fail' } & (
  | { readonly check: 'min-rows'; readonly rows: number }
  | { readonly check: 'max-nulls'; readonly column: string; readonly share: number }
  /** `premium = price x size x 100` within a relative tolerance. */
  | { readonly check: 'premium'; readonly tolerance: number }
  | { readonly check: 'unique-id' }
  | { readonly check: 'dates' }
);

export interface JobSchedule {
  readonly cron: string;
  readonly timezone: string;
  /** After a failed run, until the next tick; null: not tried again. */
  readonly retrySeconds: number | null;
  /** After which a run is stopped by the daemon that started it; null: it may take as long as it wants. */
  readonly timeoutSeconds: number | null;
  /** Whether daemons on several machines share it: each tick runs on one of them. */
  readonly distributed: boolean;
}

/** Holds when the number is known, above `above` and below `below`; null is no bound. */
export interface ReportCondition {
  readonly number: ReportNumber;
  readonly above: number | null;
  readonly below: number | null;
}

export interface ReportRecipient {
  readonly address: string;
  /** Watchlist of this recipient; null: the report's own. */
  readonly symbols: readonly string[] | null;
  /** IANA zone in which this recipient reads instants; trade times stay the exchange's wall clock. */
  readonly timezone: string;
}

export interface JobReport {
  readonly template: 'flow' | 'digest';
  /** Tells the report from another of the job with the same template and symbols; null: by those. */
  readonly name: string | null;
  readonly to: readonly ReportRecipient[];
  /** Focus list; empty means all symbols. */
  readonly symbols: readonly string[];
  /** Of a digest: datasets in the same store, in the order shown; empty for `flow`. */
  readonly datasets: readonly string[];
  /** Dataset of market-structure drops in the same store, for comparison. */
  readonly marketStructure: string | null;
  readonly attach: readonly AttachmentKind[];
  /** Of all attachments of a mail together; what does not fit is left out and named in the log. */
  readonly attachLimitBytes: number;
  /** How long a link to the drop holds; null: no link. */
  readonly linkSeconds: number | null;
  /** All must hold for a mail; empty: always. */
  readonly onlyWhen: readonly ReportCondition[];
  /** What becomes of a day without a trade. */
  readonly onEmpty: 'send' | 'skip';
  /** Relative change of a number above which a restated day is mailed again, as a correction. */
  readonly correctionThreshold: number;
  /** `mailto:` or `https:` address of List-Unsubscribe; null: no such header. */
  readonly unsubscribe: string | null;
}

/** Operators who are told when something is wrong with the job. */
interface JobAlerts {
  readonly to: readonly string[];
  /** Whether they are posted to the webhook too, where there is one. */
  readonly webhook: boolean;
}
