/**
 * How the last run of a job ended, whatever it came to, and when one last ended well. Invariant: `error` is masked before
 * it gets here. What was sealed is in the run's result, which a run that fails early does not write.
 */
import { z } from 'zod';

export const runEndSchema = z.object({
  run_id: z.string(),
  started_at: z.iso.datetime(),
  finished_at: z.iso.datetime(),
  outcome: z.enum(['done', 'failed', 'usage', 'incomplete', 'interrupted']),
  /** What cut it short; null when it came to an end of its own, also to one that is not good. */
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
});

export type RunEnd = z.infer<typeof runEndSchema>;

export const lastSuccessSchema = z.object({ run_id: z.string(), finished_at: z.iso.datetime() });

/** When a run of everything unsealed last ended without anything being wrong, its reports included. */
export type LastSuccess = z.infer<typeof lastSuccessSchema>;
