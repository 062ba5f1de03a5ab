/** The result of a run: its export, which `--json` prints, and what became of its reports. */
import { z } from 'zod';
import { CONDITIONS } from '../plan/conditions.ts';
import { auditRecordSchema, changesSchema } from './documents.ts';
import { type RunRecord, recordedDateSchema } from './run-record.ts';

const dateResultSchema = recordedDateSchema.extend({
  /**
   * `sealed-elsewhere`: another worker's manifest was first; we published nothing. `unchanged`: a restatement found the
   * rows that are already sealed. `missing`: the source has no data of the date.
   */
  status: z.enum(['sealed', 'sealed-elsewhere', 'unchanged', 'missing', 'failed']),
  size: z.number().optional(),
  /** Row changes of a restatement; null when the replaced object could not be read. */
  changes: changesSchema.nullable().optional(),
  /** Windows that the job names but the source has no data for. */
  missing: z.array(z.object({ window: z.string(), reason: z.string() })).optional(),
  /** Why the date is degraded. */
  degraded_reason: z.string().optional(),
  /** Failed checks of the sealed revision, in words; absent if all passed. */
  doubts: z.array(z.string()).optional(),
});

/** Dates of the given range that the run did not export, by reason. */
const namedSchema = z.object({
  /** Already sealed before the run. */
  sealed: z.array(z.string()),
  no_session: z.array(z.string()),
  /** Sessions without rows at the source. */
  no_rows: z.array(z.string()),
  /** Dates whose last rows may not have arrived yet. */
  not_over: z.array(z.string()),
});

const runResultSchema = z.object({
  job: z.string(),
  run_id: z.string(),
  dataset: z.string(),
  store: z.string(),
  started_at: z.string(),
  finished_at: z.string(),
  /** The API's clock at the end of the run. */
  server_time: z.string(),
  requests: z.number(),
  retries: z.number(),
  rate_limited: z.number(),
  /** Windows that were too large for the API and were fetched in parts. */
  splits: z.number(),
  bytes: z.number(),
  row_limit: z.number(),
  dates: z.array(dateResultSchema),
  /** Sealed dates that were compared with the source, by date. */
  audits: z.record(z.string(), auditRecordSchema),
  /** Dates that may be due but were not exported because the clocks disagree. */
  held: z.array(z.object({ date: z.string(), reason: z.string() })).readonly(),
  /** Dates whose last rows are so recent that more may follow: when each will have settled. */
  open: z.record(z.string(), z.string()),
  /** The clocks at the end, and their difference in words. */
  clocks: z.object({ server: z.string().nullable(), own: z.string(), conflict: z.string().nullable() }),
  /** Only for a run with given dates. */
  named: namedSchema.optional(),
  /** Condition of every known session date. */
  conditions: z.record(z.string(), z.enum(CONDITIONS)),
  /** Sealed dates whose object differs from what was sealed, with the reason. */
  damaged: z.record(z.string(), z.string()),
  /**
   * `lost`: dates that this run was the first to find expired. `gaps`: dates inside the lookback that are missing or
   * degraded.
   */
  lost: z.array(z.string()).readonly(),
  gaps: z.array(z.string()).readonly(),
  /** Of the gaps, those that no earlier run knew. */
  new_gaps: z.array(z.string()).readonly(),
  /** Gaps and losses that a person accepted: in no other list. */
  accepted: z.array(z.string()).readonly(),
  /** When each pending date begins to leave the lookback. */
  expires: z.record(z.string(), z.string()),
});

export type DateResult = z.infer<typeof dateResultSchema>;
export type NamedDates = z.infer<typeof namedSchema>;
export type RunResult = z.infer<typeof runResultSchema>;

/** Whether the source had no data of any requested date: more likely a misspelled symbol or date than a gap. */
export function isInVain({ dates, conditions, named }: Pick<RunResult, 'dates' | 'conditions' | 'named'>): boolean {
  if (named === undefined) return dates.length > 0 && Object.keys(conditions).length === 0;
  const isFound = named.sealed.length > 0 || dates.some(({ status }) => status !== 'missing');
  return named.no_rows.length > 0 && !isFound;
}

/**
 * The exit of the process: failed comes before incomplete; `undefined` when all that could be had is sealed. A lost date
 * and a gap count in the run that finds them, and a gap in a backfill of named dates; later both are only in `status`.
 * Damage counts until it is repaired.
 */
export function judgeRun(result: RunResult): 'failed' | 'incomplete' | undefined {
  if (result.dates.some(({ status }) => status === 'failed')) return 'failed';
  const gaps = result.named === undefined ? result.new_gaps : result.gaps;
  const isLacking = result.lost.length > 0 || gaps.length > 0 || Object.keys(result.damaged).length > 0;
  return isInVain(result) || isLacking || result.held.length > 0 ? 'incomplete' : undefined;
}

export interface DeliveredRecipient {
  readonly to: string;
  /** The next run mails `failed` ones, but never `refused` ones. */
  readonly outcome: 'sent' | 'written' | 'refused' | 'failed';
  readonly detail: string;
  /** Path of a mail in a folder. If that does not count as received, the outcome is `written`. */
  readonly file?: string;
}

/** One report of one date. */
export interface Delivery {
  readonly report: string;
  readonly date: string;
  /** 0 if the date is not sealed or its report failed. */
  readonly revision: number;
  readonly subject: string;
  /** One per recipient still to be mailed. */
  readonly recipients: readonly DeliveredRecipient[];
  /** Recipients who received it before. */
  readonly alreadySent: number;
  /** Recipients for whom it was written to a folder before, and who have not received it. */
  readonly written: number;
  /** Another worker is mailing it now. */
  readonly leftToOther: boolean;
  /** A newer session was over before this one was mailed. */
  readonly late: boolean;
  /** Due but not sealed: no mail is sent, and the operator is alerted. */
  readonly pending: boolean;
  /** Why recipients still to be mailed are skipped: an empty day, a condition, no change worth a mail; else null. */
  readonly skipped: string | null;
  /** Why the report of this date failed; else null. */
  readonly error: RunRecord['error'];
}

/** Whether the next run must retry any of it. */
export function hasFailed({ recipients, error }: Delivery): boolean {
  return error !== null || recipients.some(({ outcome }) => outcome === 'failed');
}
