/** What is on record of a date besides its rows, as ledger, status and run records have it. */
import { z } from 'zod';
import { formatDate } from '../core/date-text.ts';
import type { Condition } from '../plan/conditions.ts';

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
  /** ISO instant. */
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
