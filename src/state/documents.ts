/**
 * Documents as commands print them with `--json`; the daemon, its page and its API use parts of them. Also what is on
 * record of a date besides its rows, as ledger, status and run records have it.
 */
import { z } from 'zod';
import { formatDate } from '../core/date-text.ts';
import { CONDITIONS, type Condition } from '../plan/conditions.ts';
import { errorSchema, runRecordSchema } from './run-record.ts';

/** Conditions that nothing may ever change: a pending date can still be fetched. */
const ACCEPTABLE_CONDITIONS = ['degraded', 'missing', 'expired'] as const;

/**
 * A gap that a person acknowledged: who, when and why. It stays visible, but raises no alert and fails no run. Invariant:
 * it counts only while the date has the condition that was accepted, so that a new problem of the date is news again.
 */
export const acceptedGapSchema = z.looseObject({
  condition: z.enum(ACCEPTABLE_CONDITIONS),
  reason: z.string(),
  by: z.string(),
  at: z.string(),
});

export type AcceptedGap = Pick<z.infer<typeof acceptedGapSchema>, 'condition' | 'reason' | 'by' | 'at'>;

export function isAcceptable(condition: Condition | undefined): condition is AcceptedGap['condition'] {
  return ACCEPTABLE_CONDITIONS.some((one) => one === condition);
}

/** `accepted by alice on Nov 20, 2026: the vendor had an outage`. */
export function describeAccepted({ by, at, reason }: Pick<AcceptedGap, 'by' | 'at' | 'reason'>): string {
  return `accepted by ${by} on ${formatDate(at.slice(0, 'YYYY-MM-DD'.length))}: ${reason}`;
}

/** What a date lacks that was sealed before its last segment. */
export function describeThrough(through: string): string {
  return `until ${through} (exchange time); a later run adds what trades after it`;
}

/**
 * The last comparison of a sealed date with its source: part of `condition.json`, which owns it, and of run records. What a
 * date's audits found before is in the manifests of its revisions.
 */
export const auditRecordSchema = z.looseObject({
  /** When the source was counted, by its clock. */
  audited_at: z.string(),
  /** The revision that was compared; after a restatement the new one. */
  revision: z.int().positive(),
  /** `equal`: the drop has the source's rows. `differs`: it does not, and the job's rule leaves it so. */
  result: z.enum(['equal', 'differs']),
  /** What differs, in words. */
  reason: z.string().optional(),
  /** The job's rule at that time. */
  rule: z.enum(['repair', 'mirror', 'report']),
  /** Identifies the counts of the source: as long as they stay so, the result does too. */
  counts: z.string(),
});

export type AuditRecord = z.infer<typeof auditRecordSchema>;

/** How the rows of a revision differ from those of the revision it replaces: part of manifests and run records. */
export const changesSchema = z.looseObject({
  added: z.int().nonnegative(),
  removed: z.int().nonnegative(),
  altered: z.int().nonnegative(),
  columns_added: z.array(z.string()),
  columns_removed: z.array(z.string()),
  /** Trades that the source now has under another id; neither added nor removed. Absent if none. */
  rekeyed: z.int().positive().optional(),
  /** All of them are rows of segments that came after the replaced revision was sealed: no number of a report moves. */
  extended: z.literal(true).optional(),
  /** `audit`: a run found by itself that the source had changed. Absent for a restatement on request. */
  found_by: z.enum(['audit']).optional(),
  /** A person asked for them with `--accept-change`; `doubt`: why they would have been refused. */
  accepted: z.looseObject({ by: z.string(), doubt: z.string().optional() }).optional(),
});

export type DropChanges = z.infer<typeof changesSchema>;

/** Of a job: `flowdrop status`. */
export const dateStatusSchema = z.object({
  date: z.string(),
  condition: z.enum(CONDITIONS),
  rows: z.number().nullable(),
  revision: z.number().nullable(),
  /** ISO instant at which an open date begins to leave the lookback; null for others, and for what never expires. */
  begins_to_expire: z.string().nullable(),
  /** What is wrong with the object in the store, in words; null if no damage is known. */
  damage: z.string().nullable(),
  /** End of the last segment that a sealed date covers, `16:15`; absent where it has all. */
  through: z.string().optional(),
  /** Why a sealed date is degraded, if known. */
  degraded_reason: z.string().optional(),
  /** Failed checks of a sealed date, in words; absent if all passed. */
  doubts: z.array(z.string()).readonly().optional(),
  /** Values by column that are null because they could not be read, or although the contract has none. */
  nulls: z.record(z.string(), z.number()).optional(),
  audit: auditRecordSchema.optional(),
  accepted: acceptedGapSchema.nullable(),
  /** Why the last attempt of this machine to export it failed; absent if it did not, or the date is available. */
  failed: errorSchema.optional(),
});

export const jobStatusSchema = z.object({
  job: z.string(),
  dataset: z.string(),
  store: z.string(),
  dates: z.array(dateStatusSchema).readonly(),
  /** The last one that ended, however it did. */
  last_run: runRecordSchema.nullable(),
  last_backfill: runRecordSchema.nullable(),
  /** When a run last ended without any problem, reports included. */
  last_success: z.string().nullable(),
  next_run: z.string().nullable(),
  /** When the schedule was last due; null without one. */
  last_due: z.string().nullable(),
  /** Who makes the next run: the daemon of this state folder, or a timer that made the last ones; null: nobody is known. */
  runner: z.enum(['daemon', 'timer']).nullable(),
  /** Why a person must act, with the next command: dates that can still be fetched, and that nobody fetches in time. */
  attention: z.array(z.string()).readonly(),
  /** The newest session that missed `schedule.sealed_by`; null: none did, or there is no deadline. `lacks`: in words. */
  late: z.object({ date: z.string(), deadline: z.string(), lacks: z.string() }).nullable(),
  /** Null without a deadline. */
  next_deadline: z.string().nullable(),
  running: runRecordSchema.nullable(),
  /** Of the running session. */
  staged: z.object({ date: z.string(), through: z.string(), rows: z.number() }).nullable(),
  /** Mailed ones in the store's archive, newest date first. */
  reports: z.array(z.object({ date: z.string(), report: z.string(), revision: z.number() })).readonly(),
  /** Events and summaries that their receivers have not accepted; null: none, or unknown. */
  owed_events: z.object({ count: z.number(), since: z.string(), reason: z.string().nullable() }).nullable(),
  /** Why the store could not be read; `dates` is then what the last run knew. */
  fault: z.string().nullable(),
});

export type DateStatus = Readonly<z.infer<typeof dateStatusSchema>>;
export type JobStatus = Readonly<z.infer<typeof jobStatusSchema>>;

/** Of a drop: `flowdrop drop`. */
export const dropSchema = z.object({
  job: z.string(),
  dataset: z.string(),
  date: z.string(),
  store: z.string(),
  condition: z.enum(CONDITIONS).nullable(),
  damage: z.string().nullable(),
  accepted: acceptedGapSchema.nullable(),
  audit: auditRecordSchema.nullable(),
  /** Of its file; null for a date that is not sealed. */
  location: z.string().nullable(),
  manifest: z
    .object({
      revision: z.number(),
      condition: z.enum(CONDITIONS),
      degraded_reason: z.string().optional(),
      through: z.string().optional(),
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
      changes: z.looseObject({ added: z.number(), removed: z.number(), altered: z.number() }).nullable(),
      lost: z.string().nullable(),
    }),
  ),
});

export type DropDocument = z.infer<typeof dropSchema>;

/** What runs would fetch, and what it costs: `flowdrop plan` and `backfill --dry-run`. */
const planDateSchema = z.object({
  date: z.string(),
  /** Null if not known beforehand. */
  rows: z.number().nullable(),
  /** Whether the row count is that of another date. */
  estimated: z.boolean(),
  requests: z.number(),
  seconds: z.number(),
  /** JSON bytes before compression; 0 if it is not JSON. */
  bytes: z.number(),
  /** When it would be done if the plan started now, one date after the other. */
  done_at: z.string(),
  expires: z.string().nullable(),
  /** Share of the requests available before the date expires that are used once it is done; 1 is all. */
  share_of_budget: z.number().nullable(),
  expires_before_turn: z.boolean(),
});

const planTotalSchema = planDateSchema.omit({ date: true, expires: true, expires_before_turn: true }).extend({
  dates: z.number(),
  /** Null without dates. */
  done_at: z.string().nullable(),
  /** Number of dates that would expire before they are done. */
  too_late: z.number(),
});

export const planSchema = z.object({
  job: z.string(),
  server_time: z.string(),
  /** Empty if nothing expires. */
  lookback_edge: z.string(),
  /** The first date that is still complete at the source; empty if nothing expires. */
  earliest_date: z.string(),
  row_limit: z.number().nullable(),
  sealed: z.number(),
  /** Sealed dates that have their rows until `through`, the end of a segment; a later run adds the rest. */
  in_part: z.array(z.object({ date: z.string(), through: z.string() })).readonly(),
  dates: z.array(planDateSchema),
  total: planTotalSchema,
  without_rows: z.array(z.string()).readonly(),
  /** Dates that may be due but would not be exported now, because not all time witnesses agree. */
  held: z.array(z.object({ date: z.string(), reason: z.string() })).readonly(),
});

export type PlanDate = Readonly<z.infer<typeof planDateSchema>>;
export type PlanTotal = Readonly<z.infer<typeof planTotalSchema>>;
export type PlanDocument = Readonly<z.infer<typeof planSchema>>;
