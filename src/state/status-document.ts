/** The status of a job, as `flowdrop --json status` prints it. The daemon, its page and its API use parts of it. */
import { z } from 'zod';
import { CONDITIONS } from '../plan/conditions.ts';
import { acceptedGapSchema, auditRecordSchema } from './date-records.ts';
import { errorSchema, runRecordSchema } from './run-record.ts';

export const dateStatusSchema = z.object({
  date: z.string(),
  condition: z.enum(CONDITIONS),
  rows: z.number().nullable(),
  revision: z.number().nullable(),
  /** ISO instant at which an open date begins to leave the lookback; null for others, and for what never expires. */
  begins_to_expire: z.string().nullable(),
  /** What is wrong with the object in the store, in words; null if no damage is known. */
  damage: z.string().nullable(),
  /** Why a sealed date is degraded, if known. */
  degraded_reason: z.string().optional(),
  /** Failed checks of a sealed date, in words; absent if all passed. */
  doubts: z.array(z.string()).readonly().optional(),
  /** Values by column that are null because they could not be read, or although the contract has none. */
  nulls: z.record(z.string(), z.number()).optional(),
  /** The last comparison of the sealed revision with the source; absent before the first. */
  audit: auditRecordSchema.optional(),
  /** Who accepted the gap, when and why; null if nobody did. */
  accepted: acceptedGapSchema.nullable(),
  /** Why the last attempt of this machine to export it failed; absent if it did not, or the date is available. */
  failed: errorSchema.optional(),
});

export const jobStatusSchema = z.object({
  job: z.string(),
  dataset: z.string(),
  store: z.string(),
  dates: z.array(dateStatusSchema).readonly(),
  /** The last run that ended, however it did; null if none is on record. */
  last_run: runRecordSchema.nullable(),
  /** The last backfill of chosen dates. */
  last_backfill: runRecordSchema.nullable(),
  /** When a run last ended without any problem, reports included. */
  last_success: z.string().nullable(),
  next_run: z.string().nullable(),
  running: runRecordSchema.nullable(),
  /** How far the running session is staged; null if none is. */
  staged: z.object({ date: z.string(), through: z.string(), rows: z.number() }).nullable(),
  /** Mailed reports in the store's archive, newest date first. */
  reports: z.array(z.object({ date: z.string(), report: z.string(), revision: z.number() })).readonly(),
  /** Events and summaries that their receivers have not accepted; null: none, or unknown. */
  owed_events: z.object({ count: z.number(), since: z.string(), reason: z.string().nullable() }).nullable(),
  /** Why the store could not be read; `dates` is then what the last run knew. */
  fault: z.string().nullable(),
});

export type DateStatus = Readonly<z.infer<typeof dateStatusSchema>>;
export type JobStatus = Readonly<z.infer<typeof jobStatusSchema>>;
