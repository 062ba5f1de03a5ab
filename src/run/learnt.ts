/**
 * What was learnt of an API: its row limit, how wide a probe may be, and how far its clock is from ours. Kept in the
 * state directory for the next run; forgotten after a week, because limits change, and worth nothing but requests.
 */
import { z } from 'zod';
import { readFileIfExists, writeFileAtomic } from '../core/atomic-file.ts';

/** Row limit assumed until an answer says or shows another. */
const ASSUMED_ROW_LIMIT = 10_000;
const FORGET_AFTER_MS = 7 * 86_400_000;

const learntSchema = z.object({
  url: z.string(),
  /** When the limits began to be learnt; the clock's offset is renewed by every run. */
  learnt_at_ms: z.number(),
  row_limit: z.number().int().positive(),
  /** Dates that one probe may span. */
  probe_dates: z.number().int().positive(),
  /** Seconds of one date that one probe may span. */
  probe_seconds: z.number().int().positive(),
  /** The server's clock minus this machine's. */
  clock_offset_ms: z.number(),
});

export type Learnt = z.infer<typeof learntSchema>;

const DEFAULTS = {
  row_limit: ASSUMED_ROW_LIMIT,
  /** More sessions than the lookback has: everything at once. */
  probe_dates: 16,
  probe_seconds: 86_400,
  clock_offset_ms: 0,
} as const;

/** A mutable record of this run; `saveLearnt` keeps it. */
export async function loadLearnt(path: string, url: string, nowMs: number): Promise<Learnt> {
  const fresh: Learnt = { url, learnt_at_ms: nowMs, ...DEFAULTS };
  const text = await readFileIfExists(path);
  if (text === undefined) return fresh;
  const parsed = learntSchema.safeParse(tryParse(text));
  // A file of another address, of old, or broken is worth no more than none.
  if (!parsed.success || parsed.data.url !== url || nowMs - parsed.data.learnt_at_ms > FORGET_AFTER_MS) return fresh;
  return parsed.data;
}

export async function saveLearnt(path: string, learnt: Learnt): Promise<void> {
  await writeFileAtomic(path, `${JSON.stringify(learnt, undefined, 2)}\n`);
}

function tryParse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
