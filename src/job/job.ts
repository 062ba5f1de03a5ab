/**
 * The resolved job: what the code uses. Most of it is the output of the job file's schema (`shape.ts`), where each key is
 * described; `resolve-job.ts` adds what follows from several keys together. Every field is final. Also what tells the
 * reports of a job apart, and the fault of rules that the shape cannot express.
 */

import { createHash } from 'node:crypto';
import type { DropType } from '../api-contract/trade.ts';
import { Fault } from '../core/errors.ts';
import type { SettleUntil } from './plain-shape.ts';
import type { JobFile } from './shape.ts';

export interface Job<Source extends JobSource = JobSource>
  extends Omit<JobFile, 'source' | 'partition' | 'drop' | 'audit' | 'settle'> {
  /** Path of the job file, for messages. */
  readonly file: string;
  readonly source: Source;
  readonly drop: Omit<JobFile['drop'], 'catalog' | 'sort' | 's3'> & {
    /** How objects are written if the store is S3. */
    readonly s3: NonNullable<JobFile['drop']['s3']>;
    /** The REST catalog that also has the table; null: none. */
    readonly catalog: JobCatalog | null;
    /** Columns of the drop's sort order, ascending. */
    readonly sort: readonly string[];
  };
  /** What a run does with a sealed date that differs from the source; `off`: sealed dates are not compared. */
  readonly audit: NonNullable<JobFile['audit']>;
  /** How long after the session's last trades are visible a date may be sealed. */
  readonly settleSeconds: number;
  /** The end that it follows. */
  readonly settleUntil: SettleUntil;
}

/** A table of an Iceberg REST catalog. */
export type JobCatalog = Omit<NonNullable<JobFile['drop']['catalog']>, 'table'> & { readonly table: string };

/** How rows are handled that fit the columns neither exactly nor with a null. */
export type JobRows = JobFile['rows'];

/** A check that a date must pass before it is sealed; one that only warns is recorded in the manifest. */
export type JobCheck = JobFile['checks'][number];

/** A check against the median of sessions sealed before. */
export type BaselineCheck = Extract<JobCheck, { readonly check: 'baseline' }>;

export type JobSchedule = NonNullable<JobFile['schedule']>;

export type JobReport = JobFile['reports'][number];

/** Holds if the number is known, above `above` and below `below`; null: no bound. */
export type ReportCondition = JobReport['onlyWhen'][number];

export type ReportRecipient = JobReport['to'][number];

/** How a report looks, as far as the job file says; `logo` and `templates` are paths. */
export type JobLook = JobReport['look'];

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

/** What is asked with SQL: in cells of one grain, whose rows differ in their keys. */
interface WindowedSource extends ApiAccess {
  readonly api: SqlApi;
  readonly table: string;
  readonly columns: readonly JobColumn[];
  /** Length of a cell along the time, seconds: windows may be cut only between cells, or by the keys inside one. */
  readonly grainSeconds: number;
  /** Column that holds the time of a row, of a group the start of its grain. */
  readonly timeColumn: string;
  /** Columns by which a cell that is too large for a page is cut, in order. */
  readonly keyColumns: readonly string[];
}

/** Single trades: every row has an `id`, so windows may be cut inside a second. */
interface RowSource extends WindowedSource {
  readonly kind: 'rows';
  /** Extra SQL condition, as the user wrote it until `run/job-sql.ts` replaces it; empty: none. */
  readonly where: string;
  /**
   * The user's SELECT of single trades with one `{window}`, replaced likewise; empty: select `columns` of the table.
   */
  readonly sql: string;
}

/** Rows aggregated by the API: windows are cut only between groups, so no group is ever split. */
interface AggregateSource extends WindowedSource {
  readonly kind: 'aggregate';
  /** The user's SQL with one `{window}`, as the user wrote it until `run/job-sql.ts` replaces it. */
  readonly sql: string;
  /** Output columns that the GROUP BY must name: the time column and `split`. */
  readonly groupKeys: readonly string[];
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

/** A broken rule at a key path of the file. */
export class ResolveFault extends Fault {
  override readonly name = 'ResolveFault';
  readonly path: readonly (string | number)[];

  /** Whether the value at the path may be a secret, which no message shows. */
  readonly isSecret: boolean;

  constructor(path: readonly (string | number)[], message: string, isSecret = false) {
    super('JOB_INVALID', message, { kind: 'usage' });
    this.path = path;
    this.isSecret = isSecret;
  }
}

/**
 * Identifies a report within its job in the store, whatever its place in the file. If it changes, the report counts as
 * new and unsent. So it excludes what may be edited without mailing again: recipients, attachments, conditions.
 */
export function formatReportIdentity({ template, name, symbols, datasets }: JobReport): string {
  if (name !== null) return JSON.stringify([template, { name }]);
  return JSON.stringify([template, [...symbols].sort(), ...(datasets.length === 0 ? [] : [datasets])]);
}

/** A short text that distinguishes the job's reports, as part of a key. */
export function identifyReport(report: JobReport): string {
  const hash = createHash('sha256').update(formatReportIdentity(report)).digest('hex').slice(0, 8);
  return `${report.template}-${hash}`;
}
