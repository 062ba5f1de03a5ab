/** How far a session is staged while it runs, as the last staging run wrote it: for `status`, and for the next one. */
import { z } from 'zod';

export const stagingSchema = z.object({
  date: z.string(),
  /** When it was written. */
  at: z.string(),
  /** Rows before this second of the day (exchange time) are staged. */
  second: z.int().min(0),
  rows: z.int().min(0),
  pages: z.int().min(0),
  /** Requests that found the ends of full pages. */
  asked: z.int().min(0),
  /** Rows that the source had before a second, when they were counted last. */
  seen: z.object({ second: z.int().min(0), rows: z.int().min(0) }),
});

export type Staging = z.infer<typeof stagingSchema>;
