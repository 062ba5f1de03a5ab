/**
 * The last comparison of a sealed date with its source: part of `condition.json`, which owns it, and of run records. What a
 * date's audits found before is in the manifests of its revisions.
 */
import { z } from 'zod';

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
