/** What a run that goes on tells of itself, as its process last wrote it: to `status`, and by that to the daemon. */
import { z } from 'zod';

export const runProgressSchema = z.object({
  run_id: z.string(),
  pid: z.number(),
  started_at: z.string(),
  updated_at: z.string(),
  /** Date that is fetched, or empty while it plans; `fetching`, `sealing`, `mailing`, ... */
  date: z.string(),
  phase: z.string(),
  /** Window last fetched, for people. */
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
