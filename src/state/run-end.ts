/**
 * How the last run of a job ended, with any outcome, and when one last succeeded. Invariant: secrets in `error` are
 * already masked. The run's result lists what was sealed; a run that fails early writes no result.
 */
import { z } from 'zod';

export const runEndSchema = z.object({
  run_id: z.string(),
  started_at: z.iso.datetime(),
  finished_at: z.iso.datetime(),
  outcome: z.enum(['done', 'failed', 'usage', 'incomplete', 'interrupted']),
  /** What stopped the run; null when it finished by itself, even with a bad outcome. */
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
});

export type RunEnd = z.infer<typeof runEndSchema>;

export const lastSuccessSchema = z.object({ run_id: z.string(), finished_at: z.iso.datetime() });

/** When a run of all unsealed dates last ended without problems, its reports included. */
export type LastSuccess = z.infer<typeof lastSuccessSchema>;
