/** The record of a run: what `--json` prints and what the state directory keeps of the last run of a job. */
import { z } from 'zod';
import { CONDITIONS } from '../plan/conditions.ts';
import { changesSchema } from './row-changes.ts';

const dateResultSchema = z.object({
  date: z.string(),
  /**
   * `sealed-elsewhere`: another worker's manifest was first; nothing of ours was published. `unchanged`: a restatement
   * found the rows that are sealed already. `missing`: the source has nothing of the date.
   */
  status: z.enum(['sealed', 'sealed-elsewhere', 'unchanged', 'missing', 'failed']),
  rows: z.number(),
  requests: z.number(),
  size: z.number().optional(),
  revision: z.number().optional(),
  /** What a restatement changed; null when the replaced object could not be read. */
  changes: changesSchema.nullable().optional(),
  /** What the source has nothing of, although the job names it. */
  missing: z.array(z.object({ window: z.string(), reason: z.string() })).optional(),
  /** Why it is degraded. */
  degraded_reason: z.string().optional(),
  error: z.object({ code: z.string(), message: z.string(), hint: z.string().optional() }).optional(),
});

/** Dates of the range that a run was given and that it did not export, by why. */
const namedSchema = z.object({
  /** They were sealed before. */
  sealed: z.array(z.string()),
  no_session: z.array(z.string()),
  /** Sessions that the source has no rows of. */
  no_rows: z.array(z.string()),
  /** Their last rows may not have come yet. */
  not_over: z.array(z.string()),
});

const heldSchema = z.object({ date: z.string(), reason: z.string() });

export const runResultSchema = z.object({
  job: z.string(),
  /** Empty in records of versions that had none. */
  run_id: z.string().default(''),
  dataset: z.string(),
  store: z.string(),
  started_at: z.string(),
  finished_at: z.string(),
  /** The API's clock at the end. */
  server_time: z.string(),
  requests: z.number(),
  retries: z.number(),
  rate_limited: z.number(),
  /** Windows that were too much for the API and were asked for in parts; records of older versions do not say. */
  splits: z.number().default(0),
  bytes: z.number(),
  row_limit: z.number(),
  dates: z.array(dateResultSchema),
  /** Dates that may be due and were not exported, because not every witness of the time agrees; older records have none. */
  held: z.array(heldSchema).readonly().default([]),
  /** What the clocks showed at the end, and in words how far they are apart; records of older versions do not say. */
  clocks: z.object({ server: z.string().nullable(), own: z.string(), conflict: z.string().nullable() }).optional(),
  /** Only of a run that was given dates. */
  named: namedSchema.optional(),
  /** Condition of every known session date. */
  conditions: z.record(z.string(), z.enum(CONDITIONS)),
  /** Sealed dates whose object is not what was sealed, with what is wrong; records of older versions do not say. */
  damaged: z.record(z.string(), z.string()).default({}),
  /** Dates that this run was the first to find expired; dates inside the lookback that are missing or degraded. */
  lost: z.array(z.string()).readonly(),
  gaps: z.array(z.string()).readonly(),
  /** When each pending date begins to leave the lookback. */
  expires: z.record(z.string(), z.string()),
});

export type DateResult = z.infer<typeof dateResultSchema>;
export type NamedDates = z.infer<typeof namedSchema>;
export type RunResult = z.infer<typeof runResultSchema>;

/** A source that has nothing of all that was asked for: a misspelt symbol or date, more likely than a gap. */
export function isInVain({ dates, conditions, named }: Pick<RunResult, 'dates' | 'conditions' | 'named'>): boolean {
  if (named === undefined) return dates.length > 0 && Object.keys(conditions).length === 0;
  const isFound = named.sealed.length > 0 || dates.some(({ status }) => status !== 'missing');
  return named.no_rows.length > 0 && !isFound;
}
