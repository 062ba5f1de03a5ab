/** A drop, as `flowdrop --json drop` prints it, and as the daemon shows it. */
import { z } from 'zod';
import { CONDITIONS } from '../plan/conditions.ts';

export const dropSchema = z.object({
  job: z.string(),
  dataset: z.string(),
  date: z.string(),
  store: z.string(),
  condition: z.enum(CONDITIONS).nullable(),
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
      condition: z.enum(CONDITIONS),
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
      condition: z.enum(CONDITIONS).nullable(),
      sealed_at: z.string().nullable(),
      changes: z.object({ added: z.number(), removed: z.number(), altered: z.number() }).nullable(),
      lost: z.string().nullable(),
    }),
  ),
});

export type DropDocument = z.infer<typeof dropSchema>;
