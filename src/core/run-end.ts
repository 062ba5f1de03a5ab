/**
 * How a run of a job ended, whatever it came to: what the run keeps of it, and whoever shows it reads. Invariant: `error`
 * is masked before it gets here. It does not tell what was sealed: the run's record does.
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
