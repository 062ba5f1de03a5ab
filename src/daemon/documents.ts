/**
 * What the daemon reads of its children: the documents that `flowdrop --json status` and `flowdrop --json run` print. The
 * daemon loads neither store nor engine: whatever it knows of a dataset, a child has told it. Fields that it does not use
 * are left out; unknown ones are ignored, so that a newer child may say more.
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
  /** ISO instant at which the date begins to leave the lookback; null where it is sealed or never expires. */
  begins_to_expire: z.string().nullable(),
  /** What is wrong with the object in the store, in words. */
  damage: z.string().nullish(),
});

/** One job in the answer of `flowdrop --json status`, which is a list of them. */
export const statusSchema = z.object({
  job: z.string(),
  dataset: z.string(),
  store: z.string(),
  dates: z.array(dateSchema),
  /** End of the last run that finished its export, whatever that came to. */
  last_run: z.string().nullable(),
  /** When a run last ended with nothing wrong. */
  last_success: z.string().nullable(),
  /** How the last run ended, also one that was cut short. */
  last_end: runEndSchema.nullable(),
  last_backfill: z.string().nullable(),
  last_backfill_end: runEndSchema.nullable(),
  next_run: z.string().nullable(),
  running: runProgressSchema.nullable(),
  /** Mailed reports in the store's archive, newest date first. */
  reports: z.array(z.object({ date: z.string(), report: z.string(), revision: z.number() })),
  /** Why the store could not be read, when it could not; then `dates` is what was known before. */
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
  /** Dates that may be due and were held back; documents of older versions have none. */
  held: z.array(z.object({ date: z.string() })).optional(),
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

/** What a command prints with `--json` when it fails. */
export const errorSchema = z.object({
  error: z.object({ code: z.string(), message: z.string(), hint: z.string().optional() }),
});

export type StatusDocument = z.infer<typeof statusSchema>;
export type RunDocument = z.infer<typeof runSchema>;
