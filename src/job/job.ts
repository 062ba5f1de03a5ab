/**
 * The resolved job: what the code uses, after `parse.ts` has checked the job file against `shape.ts` and filled in the
 * defaults. Every field is final; no field is optional because a default was forgotten.
 */

import type { DropType } from '../api-contract/trade.ts';
import type { AttachmentKind } from '../report/attach/attach.ts';
import type { ReportWords } from '../report/look.ts';
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
  readonly audit: AuditRule;
  /** How long after the session's last trades are visible a date may be sealed. */
  readonly settleSeconds: number;
  readonly schedule: JobSchedule | undefined;
  readonly reports: readonly JobReport[];
  readonly alerts: JobAlerts;
  /** Events of the job that are posted, if an address is set. */
  readonly events: readonly EventType[];
}

/** A job that fetches its rows with SQL. */
export type SqlJob = Job<SqlSource>;

/** APIs that take historical SQL. */
export type SqlApi = 'historical' | 'portal';
export type SnapshotApi = 'chain' | 'market-structure';

export type SqlSource = RowSource | AggregateSource;
export type JobSource = SqlSource | SnapshotSource | ServerSource;

/** What is asked, and with which key. */
export interface ApiAccess {
  readonly api: SqlApi | SnapshotApi;
  /** Name of the job's own key, from `FLOWDROP_KEY_<NAME>`; null: the key of the entry point. */
  readonly key: string | null;
}

/** Single trades: every row has an `id`, so windows may be cut inside a second. */
interface RowSource extends ApiAccess {
  readonly kind: 'rows';
  readonly api: SqlApi;
  readonly table: string;
  readonly columns: readonly JobColumn[];
  /** Extra SQL condition, as the user wrote it until `run/job-sql.ts` replaces it; empty: none. */
  readonly where: string;
  /**
   * The user's SELECT of single trades with one `{window}`, replaced likewise; empty: select `columns` of the table.
   */
  readonly sql: string;
}

/** Rows aggregated by the API: windows are cut only between groups, so no group is ever split. */
export interface AggregateSource extends ApiAccess {
  readonly kind: 'aggregate';
  readonly api: SqlApi;
  readonly table: string;
  readonly columns: readonly JobColumn[];
  /** The user's SQL with one `{window}`, as the user wrote it until `run/job-sql.ts` replaces it. */
  readonly sql: string;
  /** Length of the grain, seconds. */
  readonly grainSeconds: number;
  /** Output column that holds the start of the grain. */
  readonly timeColumn: string;
  /** Output columns that the GROUP BY must name: the time column and `split`. */
  readonly groupKeys: readonly string[];
  /** Other GROUP BY keys that are columns of the table: a grain too large for a page is split by them, in order. */
  readonly splitColumns: readonly string[];
}

/** One snapshot per symbol and date, requested by symbol: option chains and market structure. */
export interface SnapshotSource extends ApiAccess {
  readonly kind: 'snapshots';
  readonly api: SnapshotApi;
  readonly symbols: readonly string[];
  readonly columns: readonly JobColumn[];
}

/** A table of a ClickHouse server, streamed unchanged. */
export interface ServerSource {
  readonly kind: 'table';
  readonly api: 'clickhouse';
  /** `database.table`. */
  readonly table: string;
  readonly columns: readonly JobColumn[];
  /** Extra SQL condition; empty: none. */
  readonly where: string;
}

export interface JobColumn {
  readonly name: string;
  readonly type: DropType;
  readonly nullable: boolean;
  /** Nulls are normal here: the contract has them; a text column has an empty text instead. */
  readonly oftenNull: boolean;
  readonly lowCardinality: boolean;
  /** The values that the contract allows, in capitals; other cases are converted to these. */
  readonly words?: readonly string[] | undefined;
  readonly description: string;
}

interface JobDrop {
  /** `s3://bucket/prefix` or a directory, as written in the job file. */
  readonly to: string;
  readonly dataset: string;
  /** What the dataset is kept as, beside its files; null: the files are all. */
  readonly table: 'iceberg' | null;
  /** The REST catalog that also has the table; null: none. */
  readonly catalog: JobCatalog | null;
  /** Columns of the drop's sort order, ascending. */
  readonly sort: readonly string[];
  /** Codec of the pages of new drops. */
  readonly compression: 'zstd' | 'snappy' | 'gzip';
  /** How objects are written if the store is S3. */
  readonly s3: ObjectOptions;
}

/** A table of an Iceberg REST catalog. */
export interface JobCatalog {
  /** Address before `/v1/config`. */
  readonly uri: string;
  /** What the catalog calls a warehouse; null: its only one. */
  readonly warehouse: string | null;
  /** Parts are separated by dots. */
  readonly namespace: string;
  readonly table: string;
  /** Where client credentials are exchanged for a token; null: at the catalog itself. */
  readonly oauthUri: string | null;
  /** OAuth 2 scope of that token. */
  readonly scope: string;
}

/** How rows are handled that fit the columns neither exactly nor with a null. */
export interface JobRows {
  /** `quarantine`: they go to a file beside the drop. `fail`: the first one fails the date. */
  readonly onBad: 'quarantine' | 'fail';
  /** Largest share of a date's rows that may be in quarantine; if above 0, one row is always allowed. */
  readonly maxBad: number;
}

/**
 * What a run does with a sealed date that differs from the source:
 * - `repair`: takes over rows that were added or changed, and keeps those that are gone
 * - `mirror`: also removes those that are gone
 * - `report`: changes nothing
 * - `off`: sealed dates are not compared
 */
export type AuditRule = 'repair' | 'mirror' | 'report' | 'off';

/** A check that a date must pass before it is sealed; one that only warns is recorded in the manifest. */
export type JobCheck = FileCheck | BaselineCheck;

/** A check that the date's file answers alone. */
export type FileCheck = { readonly onFailure: 'warn' | 'fail' } & (
  | { readonly check: 'min-rows'; readonly rows: number }
  | { readonly check: 'max-nulls'; readonly column: string; readonly share: number }
  /** `premium = price x size x 100` within a relative tolerance. */
  | { readonly check: 'premium'; readonly tolerance: number }
  | { readonly check: 'unique-id' }
  | { readonly check: 'dates' }
);

/** A check against the median of sessions sealed before. */
export interface BaselineCheck {
  readonly check: 'baseline';
  readonly onFailure: 'warn' | 'fail';
  /** Newest sessions that make the median. */
  readonly sessions: number;
  /** Symbols with the most trades that are looked at one by one. */
  readonly symbols: number;
  /** Allowed multiples of the median: of the whole day, and of one symbol. */
  readonly total: readonly [number, number];
  readonly symbol: readonly [number, number];
  /** Allowed time between the last trade and the close, beyond the usual. */
  readonly earlySeconds: number;
  /** Allowed rise of a column's share of nulls, 0 to 1. */
  readonly nulls: number;
  /** Allowed share of symbols that no session before has. */
  readonly newSymbols: number;
}

export interface JobSchedule {
  readonly cron: string;
  readonly timezone: string;
  /** Wait before a failed run is retried; there is no retry at or after the next tick. Null: no retry. */
  readonly retrySeconds: number | null;
  /** Time after which the daemon stops a run that it started; null: no limit. */
  readonly timeoutSeconds: number | null;
  /** Time between two calls that stage the session while it runs; null: it is not staged. */
  readonly stageSeconds: number | null;
  /** Whether daemons on several machines share the schedule: each tick runs on one of them. */
  readonly distributed: boolean;
}

/** Holds if the number is known, above `above` and below `below`; null: no bound. */
export interface ReportCondition {
  readonly number: ReportNumber;
  readonly above: number | null;
  readonly below: number | null;
}

export interface ReportRecipient {
  readonly address: string;
  /** Watchlist of this recipient; null: that of the report. */
  readonly symbols: readonly string[] | null;
  /** IANA zone for the instants shown to this recipient; trade times stay in the exchange's wall clock. */
  readonly timezone: string;
}

/** How a report looks, as far as the job file says. */
export interface JobLook extends ReportWords {
  /** Path of a picture; null: none. */
  readonly logo: string | null;
}

export interface JobReport {
  readonly template: 'flow' | 'digest';
  /** Distinguishes the report from others of the job; null: its template, symbols and datasets do. */
  readonly name: string | null;
  readonly to: readonly ReportRecipient[];
  /** Watchlist; empty: none. */
  readonly symbols: readonly string[];
  /** For a digest: datasets in the same store, in the order shown; empty for `flow`. */
  readonly datasets: readonly string[];
  /** Dataset of market-structure drops in the same store, for comparison. */
  readonly marketStructure: string | null;
  /** Dataset of option chains in the same store, and whether the job names it; null: only traded contracts count. */
  readonly chain: { readonly dataset: string; readonly isNamed: boolean } | null;
  /** Whether zero gamma counts contracts that expire on the date. */
  readonly keepsExpiring: boolean;
  readonly attach: readonly AttachmentKind[];
  /** Size limit of all attachments of a mail together; what does not fit is left out and logged. */
  readonly attachLimitBytes: number;
  /** Lifetime of a link to the drop, seconds; null: no link. */
  readonly linkSeconds: number | null;
  /** The report is mailed only if all of these hold; empty: always. */
  readonly onlyWhen: readonly ReportCondition[];
  /** Whether a day without trades is mailed. */
  readonly onEmpty: 'send' | 'skip';
  /** Relative change of a number above which a restated day is mailed again, as a correction. */
  readonly correctionThreshold: number;
  /** `mailto:` or `https:` address of List-Unsubscribe; null: no such header. */
  readonly unsubscribe: string | null;
  readonly look: JobLook;
  /** Address that the report's summary is posted to; `events`: that of the events; null: it is not posted. */
  readonly post: string | null;
}

/** What programs can be notified of. `alert/cloud-event.ts` builds the documents. */
export const EVENT_TYPES = ['drop.sealed', 'drop.restated', 'date.lost', 'report.sent'] as const;

export type EventType = (typeof EVENT_TYPES)[number];

/** Where operator alerts about the job go. */
interface JobAlerts {
  readonly to: readonly string[];
  /** Whether alerts also go to the webhook, if one is set. */
  readonly webhook: boolean;
}
