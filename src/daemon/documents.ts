/**
 * The documents that the daemon reads from its children: output of `flowdrop --json status` and `flowdrop --json run`.
 * The daemon loads neither store nor engine: all that it knows of a dataset comes from children. The schemas omit
 * unused fields and ignore unknown ones, so that a newer child may print more.
 */
import { z } from 'zod';
import { CONDITIONS } from '../plan/conditions.ts';
import { runEndSchema } from '../state/run-end.ts';
import { runProgressSchema } from '../state/run-progress.ts';

const conditionSchema = z.enum(CONDITIONS);

const dateSchema = z.object({
  date: z.string(),
  condition: conditionSchema,
  rows: z.number().nullable(),
  revision: z.number().nullable(),
  /** ISO instant at which the date begins to leave the lookback; null when it is sealed or never expires. */
  begins_to_expire: z.string().nullable(),
  /** What is wrong with the object in the store, in words. */
  damage: z.string().nullish(),
  /** Who accepted the gap, when and why; absent in documents of older versions. */
  accepted: z.object({ by: z.string(), at: z.string(), reason: z.string() }).nullish(),
});

/** One job in the output of `flowdrop --json status`, which is a list of jobs. */
export const statusSchema = z.object({
  job: z.string(),
  dataset: z.string(),
  store: z.string(),
  dates: z.array(dateSchema),
  /** End of the last run that finished its export, with any outcome. */
  last_run: z.string().nullable(),
  /** When a run last ended without problems. */
  last_success: z.string().nullable(),
  /** How the last run ended, even if it was cut short. */
  last_end: runEndSchema.nullable(),
  last_backfill: z.string().nullable(),
  last_backfill_end: runEndSchema.nullable(),
  next_run: z.string().nullable(),
  running: runProgressSchema.nullable(),
  /** How far the running session is staged. */
  staged: z.object({ date: z.string(), through: z.string(), rows: z.number() }).nullish(),
  /** Mailed reports in the store's archive, newest date first. */
  reports: z.array(z.object({ date: z.string(), report: z.string(), revision: z.number() })),
  /** Why the store could not be read, if so; `dates` is then the last known state. */
  fault: z.string().nullable(),
});

/** What a run prints at its end. */
export const runSchema = z.object({
  job: z.string(),
  run_id: z.string(),
  started_at: z.string(),
  finished_at: z.string(),
  requests: z.number(),
  retries: z.number(),
  rate_limited: z.number(),
  splits: z.number(),
  bytes: z.number(),
  dates: z.array(z.object({ date: z.string(), status: z.string(), rows: z.number(), requests: z.number() })),
  conditions: z.record(z.string(), conditionSchema),
  /** Dates that may be due but were held back; absent in documents of older versions. */
  held: z.array(z.object({ date: z.string() })).optional(),
  /** Dates whose last rows were too recent; absent in documents of older versions. */
  open: z.record(z.string(), z.string()).optional(),
  /** When each pending date begins to leave the lookback. */
  expires: z.record(z.string(), z.string()),
  reports: z.array(
    z.object({
      report: z.string(),
      date: z.string(),
      recipients: z.array(z.object({ to: z.string(), outcome: z.string() })),
    }),
  ),
});

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

/** What a command prints with `--json` when it fails. */
export const errorSchema = z.object({
  error: z.object({ code: z.string(), message: z.string(), hint: z.string().optional() }),
});

export type StatusDocument = z.infer<typeof statusSchema>;
export type PriceDocument = z.infer<typeof priceSchema>;
export type RunDocument = z.infer<typeof runSchema>;
