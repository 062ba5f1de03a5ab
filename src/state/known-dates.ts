/** What the last run that finished its export knew of its dataset: for `status` without the store, and the next run. */
import { z } from 'zod';
import { CONDITIONS } from '../plan/conditions.ts';

export const knownDatesSchema = z.object({
  /** When the export ended. */
  at: z.string(),
  store: z.string(),
  /** Condition of every known session date. */
  conditions: z.record(z.string(), z.enum(CONDITIONS)),
});

export type KnownDates = z.infer<typeof knownDatesSchema>;
