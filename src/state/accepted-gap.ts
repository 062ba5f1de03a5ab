/**
 * A gap that a person acknowledged: who, when and why. It stays visible, but raises no alert and fails no run. Invariant:
 * it counts only while the date has the condition that was accepted, so that a new problem of the date is news again.
 * The ledger keeps it.
 */

import { z } from 'zod';
import { formatDate } from '../core/date-text.ts';
import type { Condition } from '../plan/conditions.ts';

/** Conditions that nothing may ever change: a pending date can still be fetched. */
export const ACCEPTABLE_CONDITIONS = ['degraded', 'missing', 'expired'] as const;

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
