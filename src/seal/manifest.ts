/**
 * The manifest of a drop: written last, so that a date is sealed exactly when it has one. Field names follow Databento's
 * `manifest.json` where it has them (`job_id`, `files[].filename, size, hash`).
 */
import { z } from 'zod';
import { describeError, Fault } from '../core/errors.ts';

export const MANIFEST_VERSION = 1;

const fileSchema = z.object({
  filename: z.string(),
  size: z.number().int(),
  hash: z.string().startsWith('sha256:'),
});

export const manifestSchema = z.object({
  manifest_version: z.literal(MANIFEST_VERSION),
  job_id: z.string(),
  dataset: z.string(),
  date: z.string(),
  revision: z.number().int().positive(),
  condition: z.enum(['available', 'degraded']),
  /** The drop's file; a tuple, so that the first is always there. */
  files: z.tuple([fileSchema], fileSchema),
  /** Rows in the file. */
  rows: z.number().int(),
  /** Rows that the source counted when the date was sealed. */
  source_rows: z.number().int(),
  /** Rows left out because their id came with a newer `updated_timestamp`. */
  duplicates: z.number().int(),
  /** First and last `time` of the rows, exchange's wall clock; null for a drop without rows or without time. */
  min_time: z.string().nullable(),
  max_time: z.string().nullable(),
  schema: z.array(z.object({ name: z.string(), type: z.string(), nullable: z.boolean() })),
  schema_hash: z.string(),
  /** Columns beyond the contract, kept as they came. */
  extra_columns: z.array(z.string()),
  sort: z.array(z.string()),
  compression: z.string(),
  row_groups: z.number().int(),
  /** SQL of a page with its window left open, and the entry point that answered it. */
  query: z.object({ sql: z.string(), entry_point: z.string(), url: z.string() }),
  windows: z.array(z.object({ window: z.string(), rows: z.number().int() })),
  /** Requests that the date took, counts and recounts included. */
  requests: z.number().int(),
  started_at: z.string(),
  sealed_at: z.string(),
  /** Oldest visible instant on the exchange's clock when the date was recounted. */
  lookback_edge: z.string(),
  row_limit: z.number().int(),
  flowdrop_version: z.string(),
  /** Revision that this one replaces. */
  supersedes: z.number().int().nullable(),
});

export type Manifest = z.infer<typeof manifestSchema>;

/** @param where the store's URL and key, for the error @throws Fault `MANIFEST_INVALID` */
export function parseManifest(bytes: Uint8Array, where: string): Manifest {
  try {
    return manifestSchema.parse(JSON.parse(Buffer.from(bytes).toString('utf8')));
  } catch (cause) {
    const why = cause instanceof z.ZodError ? z.prettifyError(cause).replaceAll('\n', ' ') : describeError(cause);
    throw new Fault('MANIFEST_INVALID', `${where} is not a manifest of flowdrop: ${why}`, {
      cause,
      hint: 'It was edited or written by something else. Move it away to have the date exported again.',
    });
  }
}

export function formatManifest(manifest: Manifest): Uint8Array {
  return Buffer.from(`${JSON.stringify(manifest, undefined, 2)}\n`);
}
