/**
 * The record of one run of this machine, by the daemon or by hand: all that `status`, `runs`, page, metrics and alerts
 * know of it. Small and bounded: its windows and its log are files of their own. Invariant: secrets in texts are already
 * masked.
 */
import { z } from 'zod';
import { RUN_PHASES } from './run-events.ts';

export const RUN_COMMANDS = ['run', 'backfill', 'stage', 'report', 'verify'] as const;

export type RunCommand = (typeof RUN_COMMANDS)[number];

/** Why a run was started. `hand`: a person typed the command. `asked`: a person asked the daemon on its page. */
const RUN_REASONS = ['scheduled', 'catch-up', 'retry', 'take-over', 'gap', 'stage', 'asked', 'hand'] as const;

/** `died`: its process ended without a word. `timed-out`: the daemon stopped it, because it took too long. */
export const RUN_OUTCOMES = [
  'done',
  'failed',
  'usage',
  'incomplete',
  'active',
  'interrupted',
  'died',
  'timed-out',
] as const;

export const errorSchema = z.object({ code: z.string(), message: z.string(), hint: z.string().optional() });

/** How far an active run is. */
const progressSchema = z.object({
  /** Date being fetched, or empty while planning. */
  date: z.string(),
  phase: z.enum(RUN_PHASES),
  /** Last fetched window, for people. */
  window: z.string(),
  total_rows: z.number(),
  dates_done: z.number(),
  dates_total: z.number(),
  pages_left: z.number(),
  rows_per_second: z.number(),
  /** Null before the first page. */
  seconds_left: z.number().nullable(),
});

/** What a run made of a date. */
export const recordedDateSchema = z.object({
  date: z.string(),
  status: z.string(),
  rows: z.number(),
  requests: z.number(),
  revision: z.number().optional(),
  error: errorSchema.optional(),
});

export const runRecordSchema = z.object({
  /** Names its files; sorts by time. The run's own id, unless that is not a time. */
  id: z.string(),
  /** In each line of its log. */
  run_id: z.string(),
  job: z.string(),
  command: z.enum(RUN_COMMANDS),
  /** What to type for the same: the words after `flowdrop`. */
  args: z.array(z.string()),
  reason: z.enum(RUN_REASONS),
  /** The process that carries it out; `started` distinguishes processes that got the same number. */
  process: z.object({ pid: z.number(), started: z.string() }),
  started_at: z.iso.datetime(),
  /** When its process last wrote this; for a killed run, the last sign of it. */
  updated_at: z.iso.datetime(),
  /** Null while it is active. */
  finished_at: z.iso.datetime().nullable(),
  outcome: z.enum(RUN_OUTCOMES).nullable(),
  /** What stopped it; null when it finished by itself, even with a bad outcome. */
  error: errorSchema.nullable(),
  /** Null before its work begins, and after its end. */
  progress: progressSchema.nullable(),
  /** Pages that its dates need by the counts, without those that were staged; null without a plan. */
  planned_pages: z.number().nullable(),
  pages: z.number(),
  rows: z.number(),
  requests: z.number(),
  retries: z.number(),
  rate_limited: z.number(),
  splits: z.number(),
  bytes: z.number(),
  dates: z.array(recordedDateSchema),
  /** Whether a date may be due that it could not seal yet: a later run may. */
  has_open: z.boolean(),
  /** Reports that it mailed, or wrote to a folder. */
  reports: z.array(
    z.object({
      ...{ report: z.string(), date: z.string() },
      ...{ sent: z.number(), written: z.number().default(0), unsent: z.number() },
    }),
  ),
});

export type RunRecord = z.infer<typeof runRecordSchema>;

/** What a run ended with. */
export type RunOutcome = NonNullable<RunRecord['outcome']>;

/** Outcomes in the words of people. */
export const OUTCOME_WORDS: Readonly<Record<RunOutcome, string>> = {
  done: 'done',
  failed: 'failed',
  usage: 'failed',
  incomplete: 'incomplete',
  active: 'another run was active',
  interrupted: 'stopped',
  died: 'died',
  'timed-out': 'timed out',
};

/** Whether it ended in a way that a person should see. */
export function isFailed(outcome: RunRecord['outcome']): boolean {
  return outcome === 'failed' || outcome === 'usage' || outcome === 'died' || outcome === 'timed-out';
}

/** Whether a retry may do what is left of it: not where the job file is wrong, or dates are lost. */
export function isOwed({ outcome, has_open: hasOpen }: Pick<RunRecord, 'outcome' | 'has_open'>): boolean {
  return hasOpen || outcome === 'active' || (outcome !== 'usage' && isFailed(outcome));
}

/** What stopped a run, or else what the first of its dates failed with. */
export function whyFailed({ error, dates }: Pick<RunRecord, 'error' | 'dates'>): RunRecord['error'] {
  return error ?? dates.find((date) => date.error)?.error ?? null;
}

/** `2 sent, 1 written to a folder, 1 not`. */
export function describeMailed({ sent, written, unsent }: RunRecord['reports'][number]): string {
  const parts = [`${sent} sent`, `${written} written to a folder`, `${unsent} not`];
  return parts.filter((part) => !part.startsWith('0 ')).join(', ') || 'nobody left to mail';
}

/** When it ended; while it is active, the last sign of it. */
export function endOf({ finished_at: end, updated_at: last }: Pick<RunRecord, 'finished_at' | 'updated_at'>): string {
  return end ?? last;
}

/** Dates that a run sealed, and their rows. */
export function sumSealed({ dates }: Pick<RunRecord, 'dates'>): { readonly dates: number; readonly rows: number } {
  const sealed = dates.filter(({ status }) => status === 'sealed');
  return { dates: sealed.length, rows: sealed.reduce((sum, { rows }) => sum + Math.max(0, rows), 0) };
}

/** Whether a run of the job's schedule has ended: what was asked of named dates, or found another run active, is none. */
export function isEndedRun({ command, outcome }: Pick<RunRecord, 'command' | 'outcome'>): boolean {
  return command === 'run' && outcome !== null && outcome !== 'active';
}

export const runWindowSchema = z.object({
  at: z.iso.datetime(),
  kind: z.enum(['page', 'split', 'sealed', 'failed']),
  date: z.string(),
  window: z.string(),
  rows: z.number(),
  /** Totals of the run so far. */
  requests: z.number(),
  retries: z.number(),
  rate_limited: z.number(),
  splits: z.number(),
  /** Why a window was split, or a date failed. */
  reason: z.string().optional(),
});

/** One moment of a run: a window that was fetched or split, a date that was sealed or failed. */
export type RunWindow = z.infer<typeof runWindowSchema>;
