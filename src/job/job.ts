/**
 * The resolved job: what the code uses, after `parse.ts` has checked what the user wrote (`shape.ts`) and filled the
 * defaults in. Every field is final; nothing here is optional because a default was forgotten.
 */
import type { DropType } from '../wire/trade.ts';

export interface Job {
  readonly name: string;
  /** Path of the job file, for messages. */
  readonly file: string;
  readonly source: JobSource;
  readonly drop: JobDrop;
  readonly schedule: JobSchedule | undefined;
  readonly reports: readonly JobReport[];
  readonly alerts: { readonly to: readonly string[] };
}

export type SourceApi = 'historical' | 'portal';

export type JobSource = RowSource | AggregateSource;

/** Individual trades: every row has an `id`, so windows may be cut inside a second. */
export interface RowSource {
  readonly kind: 'rows';
  readonly api: SourceApi;
  readonly table: string;
  readonly columns: readonly JobColumn[];
  /** Extra condition, SQL; empty for none. */
  readonly where: string;
}

/** Rows aggregated by the API: windows are cut only between grains, so that no group is ever split. */
export interface AggregateSource {
  readonly kind: 'aggregate';
  readonly api: SourceApi;
  readonly table: string;
  readonly columns: readonly JobColumn[];
  /** The user's SQL with one or more `{window}`. */
  readonly sql: string;
  /** Length of the grain, seconds. */
  readonly grainSeconds: number;
  /** Output column that holds the start of the grain. */
  readonly timeColumn: string;
}

export interface JobColumn {
  readonly name: string;
  readonly type: DropType;
  readonly nullable: boolean;
  readonly lowCardinality: boolean;
  readonly description: string;
}

export interface JobDrop {
  /** `s3://bucket/prefix` or a directory, as written. */
  readonly to: string;
  readonly dataset: string;
  /** Columns of the drop's sort order, ascending. */
  readonly sort: readonly string[];
}

export interface JobSchedule {
  readonly cron: string;
  readonly timezone: string;
}

export interface JobReport {
  readonly template: 'flow';
  readonly to: readonly string[];
  /** Focus list; empty means all symbols. */
  readonly symbols: readonly string[];
}
