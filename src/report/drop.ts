/**
 * What the report needs to know of a sealed drop. Structural, so that the seal's manifest satisfies it and this stage
 * imports no other. The report reads only what was sealed: never a stage, never the API.
 */

export interface SealedDrop {
  readonly dataset: string;
  /** Trading date, `YYYY-MM-DD`. */
  readonly date: string;
  /** 1 for the first seal of the date; each restatement adds one. */
  readonly revision: number;
  readonly condition: 'available' | 'degraded';
  /** Why it is degraded, in the manifest's words. */
  readonly degraded_reason?: string | undefined;
  /** Rows in the Parquet file. */
  readonly rows: number;
  /** Earliest and latest trade, wall clock of the exchange; null or empty when there are no rows. */
  readonly min_time: string | null;
  readonly max_time: string | null;
  /** UTC, ISO 8601. */
  readonly sealed_at: string;
  /** Of the Parquet file, hexadecimal. */
  readonly sha256: string;
  /** Store URL of the object, for people. */
  readonly location: string;
  /** Local Parquet file that the numbers are computed from. Never shown: it means nothing to a reader. */
  readonly path: string;
}

/** The drop as the report shows it. */
export type ShownDrop = Omit<SealedDrop, 'path'>;
