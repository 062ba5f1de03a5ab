/** The state of an active run, as its process last wrote it: for `status`, and through it for the daemon. */
import { z } from 'zod';

export const runProgressSchema = z.object({
  run_id: z.string(),
  pid: z.number(),
  started_at: z.string(),
  updated_at: z.string(),
  /** Date being fetched, or empty while planning. `phase` is `fetching`, `sealing`, `mailing`, ... */
  date: z.string(),
  phase: z.string(),
  /** Last fetched window, for people. */
  window: z.string(),
  rows: z.number(),
  total_rows: z.number(),
  dates_done: z.number(),
  dates_total: z.number(),
  pages: z.number(),
  pages_left: z.number(),
  requests: z.number(),
  retries: z.number(),
  rate_limited: z.number(),
  splits: z.number(),
  rows_per_second: z.number(),
  /** Null before the first page. */
  seconds_left: z.number().nullable(),
});

export type RunProgress = z.infer<typeof runProgressSchema>;
