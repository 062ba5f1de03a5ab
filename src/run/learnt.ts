/**
 * What was learnt of a table of an API under one key: its row limit, how much a query may scan and along which axis, how
 * a date's rows are spread, how long answers take, and how far the API's clock is from ours. Kept in the state directory
 * for the next run of any job with the same query. It is worth nothing but requests. Limits change: a lower one is learnt by
 * a refusal, the row limit from each answer, and once a week twice of what was refused is thought possible again.
 */
import { z } from 'zod';
import { writeFileAtomic } from '../core/atomic-file.ts';
import { readJsonFile } from '../core/json-file.ts';

/** Row limit assumed until an answer says or shows another. */
const ASSUMED_ROW_LIMIT = 10_000;
/** Forgetting all instead would cost a first night, 2 % more requests, every week. */
const HOPE_AFTER_MS = 7 * 86_400_000;

const profileSchema = z
  .array(z.object({ symbol: z.string().exactOptional(), second: z.number(), share: z.number() }))
  .nullable();

const learntSchema = z.object({
  version: z.literal(2),
  url: z.string(),
  /** When the limits began to be learnt, or more was last thought possible. */
  learnt_at_ms: z.number(),
  row_limit: z.number().int().positive(),
  /** Axis along which a narrower query scans less; `null` while no query was too broad. */
  axis: z.enum(['time', 'symbol']).nullable(),
  /** `closed` where the server refuses windows without a first or last second; see `plan/condition.ts`. */
  day_edges: z.enum(['open', 'closed']).default('open'),
  /** Rows of the last date that was counted whole; `null` before. */
  date_rows: z.number().nullable(),
  /** Most rows of one count that passed, fewest that were refused; `null` while there was none. */
  passed_rows: z.number(),
  refused_rows: z.number().nullable(),
  /** How the last date's rows were spread. */
  time_profile: profileSchema,
  symbol_profile: profileSchema,
  /** Mean length of a row as it is transferred, before compression. */
  row_bytes: z.number().positive(),
  /** Mean time of the last answers. */
  answer_ms: z.number().nonnegative(),
  /** The server's clock minus this machine's. */
  clock_offset_ms: z.number(),
});

export type Learnt = z.infer<typeof learntSchema>;

const DEFAULTS = {
  version: 2,
  row_limit: ASSUMED_ROW_LIMIT,
  axis: null,
  day_edges: 'open',
  date_rows: null,
  passed_rows: 0,
  refused_rows: null,
  time_profile: null,
  symbol_profile: null,
  /** Of the contract's own fields. */
  row_bytes: 700,
  answer_ms: 0,
  clock_offset_ms: 0,
} as const;

/** A mutable record of this run; `saveLearnt` keeps it. */
export async function loadLearnt(path: string, url: string, nowMs: number): Promise<Learnt> {
  const fresh: Learnt = { url, learnt_at_ms: nowMs, ...DEFAULTS };
  const kept = await readJsonFile(path, learntSchema);
  // What was learnt of another address is worth nothing here.
  if (kept === undefined || kept.url !== url) return fresh;
  const { learnt_at_ms: learntAtMs, refused_rows: refused } = kept;
  if (refused === null || nowMs - learntAtMs <= HOPE_AFTER_MS) return kept;
  return { ...kept, learnt_at_ms: nowMs, refused_rows: Math.min(2 * refused, Number.MAX_SAFE_INTEGER) };
}

export async function saveLearnt(path: string, learnt: Learnt): Promise<void> {
  await writeFileAtomic(path, `${JSON.stringify(learnt, undefined, 2)}\n`);
}
