/** What runs would fetch, and what it costs, as `flowdrop --json plan` and `backfill --dry-run` print it. */
import { z } from 'zod';

const planDateSchema = z.object({
  date: z.string(),
  /** Null if not known beforehand. */
  rows: z.number().nullable(),
  /** Whether the row count is that of another date. */
  estimated: z.boolean(),
  requests: z.number(),
  seconds: z.number(),
  /** JSON bytes before compression; 0 if it is not JSON. */
  bytes: z.number(),
  /** When it would be done if the plan started now, one date after the other. */
  done_at: z.string(),
  expires: z.string().nullable(),
  /** Share of the requests available before the date expires that are used once it is done; 1 is all. */
  share_of_budget: z.number().nullable(),
  expires_before_turn: z.boolean(),
});

const planTotalSchema = z.object({
  dates: z.number(),
  rows: z.number().nullable(),
  estimated: z.boolean(),
  requests: z.number(),
  seconds: z.number(),
  bytes: z.number(),
  /** Null without dates. */
  done_at: z.string().nullable(),
  /** Share of the tightest date. */
  share_of_budget: z.number().nullable(),
  /** Number of dates that would expire before they are done. */
  too_late: z.number(),
});

export const planSchema = z.object({
  job: z.string(),
  server_time: z.string(),
  /** Empty if nothing expires. */
  lookback_edge: z.string(),
  /** The first date that is still complete at the source; empty if nothing expires. */
  earliest_date: z.string(),
  row_limit: z.number().nullable(),
  sealed: z.number(),
  dates: z.array(planDateSchema),
  total: planTotalSchema,
  without_rows: z.array(z.string()).readonly(),
  /** Dates that may be due but would not be exported now, because not all time witnesses agree. */
  held: z.array(z.object({ date: z.string(), reason: z.string() })).readonly(),
});

export type PlanDate = Readonly<z.infer<typeof planDateSchema>>;
export type PlanTotal = Readonly<z.infer<typeof planTotalSchema>>;
export type PlanDocument = Readonly<z.infer<typeof planSchema>>;
