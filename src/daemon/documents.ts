/**
 * What the daemon keeps of a status, which a child prints. It loads neither store nor engine: all that it knows of a
 * dataset comes from children. It keeps only what is shown, because it holds the statuses of all jobs for as long as it
 * lives.
 */
import { z } from 'zod';
import { type Condition, isSealed } from '../plan/conditions.ts';
import { dateStatusSchema, jobStatusSchema } from '../state/status-document.ts';

/** Weeks whose dates the daemon keeps one by one. Of a dataset of ten years, the older dates are only counted. */
export const KEPT_WEEKS = 53;

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

export type StatusDocument = z.infer<typeof statusSchema>;

function countConditions(dates: readonly { readonly condition: Condition }[]): Readonly<Record<Condition, number>> {
  const counts = { available: 0, degraded: 0, pending: 0, missing: 0, empty: 0, expired: 0 };
  for (const { condition } of dates) counts[condition] += 1;
  return counts;
}
