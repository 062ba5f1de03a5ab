/**
 * The record of one run of this machine, by the daemon or by hand. Small and bounded: its windows and its log are files
 * of their own. Invariant: secrets in texts are already masked.
 */
import { z } from 'zod';

export const RUN_COMMANDS = ['run', 'backfill', 'stage', 'report', 'verify'] as const;

export type RunCommand = (typeof RUN_COMMANDS)[number];

/** Why a run was started. `hand`: a person typed the command. `asked`: a person asked the daemon on its page. */
const RUN_REASONS = ['scheduled', 'catch-up', 'retry', 'take-over', 'gap', 'stage', 'asked', 'hand'] as const;

/** `died`: its process ended without a word. `timed-out`: the daemon stopped it, because it took too long. */
const RUN_OUTCOMES = ['done', 'failed', 'usage', 'incomplete', 'active', 'interrupted', 'died', 'timed-out'] as const;

const errorSchema = z.object({ code: z.string(), message: z.string(), hint: z.string().optional() });

export const runEntrySchema = z.object({
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
  /** Null while it is active, and for a run whose process was killed. */
  finished_at: z.iso.datetime().nullable(),
  outcome: z.enum(RUN_OUTCOMES).nullable(),
  /** What stopped it; null when it finished by itself, even with a bad outcome. */
  error: errorSchema.nullable(),
  /** Pages that its dates need by the counts, without those that were staged; null without a plan. */
  planned_pages: z.number().nullable(),
  pages: z.number(),
  rows: z.number(),
  requests: z.number(),
  retries: z.number(),
  rate_limited: z.number(),
  splits: z.number(),
  bytes: z.number(),
  dates: z.array(
    z.object({
      date: z.string(),
      status: z.string(),
      rows: z.number(),
      requests: z.number(),
      revision: z.number().optional(),
      error: errorSchema.optional(),
    }),
  ),
  /** Reports that it mailed. */
  reports: z.array(z.object({ report: z.string(), date: z.string(), sent: z.number(), unsent: z.number() })),
});

export type RunEntry = z.infer<typeof runEntrySchema>;

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
