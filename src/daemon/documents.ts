/**
 * The documents that the daemon reads from its children, which print them with `--json`.
 * The daemon loads neither store nor engine: all that it knows of a dataset comes from children. The schemas omit
 * unused fields and ignore unknown ones, so that a newer child may print more; and they keep only what is shown, because
 * the daemon holds the documents of all jobs for as long as it lives.
 */
import { z } from 'zod';
import { CONDITIONS, type Condition, isSealed } from '../plan/conditions.ts';
import { dateStatusSchema, jobStatusSchema } from '../state/status-document.ts';

/** Weeks whose dates the daemon keeps one by one. Of a dataset of ten years, the older dates are only counted. */
export const KEPT_WEEKS = 53;

const conditionSchema = z.enum(CONDITIONS);

/** A date of a dataset. */
export const datedSchema = dateStatusSchema.pick({
  date: true,
  condition: true,
  rows: true,
  revision: true,
  begins_to_expire: true,
  damage: true,
  accepted: true,
});

/** One job in the output of `flowdrop --json status`, which is a list of jobs. */
export const statusSchema = jobStatusSchema
  .omit({ last_run: true, last_backfill: true, running: true })
  .extend({ dates: z.array(datedSchema) })
  .transform(({ dates, ...status }) => ({
    ...status,
    /** Those of the last `KEPT_WEEKS`, and older ones that are not sealed. */
    dates: dates.filter(({ condition }, index) => index >= dates.length - 7 * KEPT_WEEKS || !isSealed(condition)),
    /** How many dates have each condition, of all. */
    date_counts: countConditions(dates),
  }));

/** What `flowdrop --json drop` prints. */
export const dropSchema = z.object({
  job: z.string(),
  dataset: z.string(),
  date: z.string(),
  store: z.string(),
  condition: conditionSchema.nullable(),
  damage: z.string().nullable(),
  accepted: z.object({ by: z.string(), at: z.string(), reason: z.string() }).nullable(),
  audit: z
    .object({ audited_at: z.string(), revision: z.number(), result: z.string(), reason: z.string().optional() })
    .nullable(),
  /** Of its file; null for a date that is not sealed. */
  location: z.string().nullable(),
  manifest: z
    .object({
      revision: z.number(),
      condition: conditionSchema,
      degraded_reason: z.string().optional(),
      rows: z.number(),
      source_rows: z.number().nullable(),
      duplicates: z.number(),
      min_time: z.string().nullable(),
      max_time: z.string().nullable(),
      sort: z.array(z.string()),
      compression: z.string(),
      row_groups: z.number(),
      requests: z.number(),
      started_at: z.string(),
      sealed_at: z.string(),
      flowdrop_version: z.string(),
      filter: z.string().optional(),
      /** What the last count at the source proved; null without one. */
      proved: z.string().nullable(),
      quarantined: z.number(),
      /** Rows that the source no longer had, and that the drop kept. */
      kept: z.number(),
      doubts: z.array(z.string()),
      checks: z.array(
        z.object({
          check: z.string(),
          column: z.string().nullable(),
          passed: z.boolean(),
          on_failure: z.string(),
          found: z.number(),
          allowed: z.number(),
        }),
      ),
      files: z.array(z.object({ filename: z.string(), size: z.number(), hash: z.string() })),
      columns: z.array(z.object({ name: z.string(), type: z.string(), nullable: z.boolean() })),
      query: z.object({ sql: z.string(), entry_point: z.string() }),
      /** The first ones; `windows_total` counts all. */
      windows: z.array(z.object({ window: z.string(), rows: z.number() })),
      windows_total: z.number(),
      has_summary: z.boolean(),
    })
    .nullable(),
  /** Newest first. */
  revisions: z.array(
    z.object({
      revision: z.number(),
      rows: z.number().nullable(),
      condition: conditionSchema.nullable(),
      sealed_at: z.string().nullable(),
      changes: z.object({ added: z.number(), removed: z.number(), altered: z.number() }).nullable(),
      lost: z.string().nullable(),
    }),
  ),
});

/** What `flowdrop --json query` prints. */
export const rowsSchema = z.array(z.record(z.string(), z.unknown()));

/** What `flowdrop --json backfill --dry-run` prints. */
export const priceSchema = z.object({
  dates: z.array(
    z.object({
      date: z.string(),
      rows: z.number().nullable(),
      requests: z.number(),
      seconds: z.number(),
      expires_before_turn: z.boolean(),
    }),
  ),
  total: z.object({ dates: z.number(), rows: z.number().nullable(), requests: z.number(), seconds: z.number() }),
});

export type StatusDocument = z.infer<typeof statusSchema>;
export type DropDocument = z.infer<typeof dropSchema>;
export type Rows = z.infer<typeof rowsSchema>;
export type PriceDocument = z.infer<typeof priceSchema>;

function countConditions(dates: readonly { readonly condition: Condition }[]): Readonly<Record<Condition, number>> {
  const counts = { available: 0, degraded: 0, pending: 0, missing: 0, empty: 0, expired: 0 };
  for (const { condition } of dates) counts[condition] += 1;
  return counts;
}
