/**
 * What was learnt of a table of an API under one key: its row limit, how much a query may scan and along which axis, how
 * a date's rows are spread, how long answers take, and how far the API's clock is from ours. Kept in the state directory
 * for the next run of any job with the same query. It is worth nothing but requests. Limits change: a lower one is learnt by
 * a refusal, the row limit from each answer that tells it; once a week twice of what was refused is thought possible again,
 * and so are the usual row limit, windows without ends, and what a recount could not prove.
 */
import { z } from 'zod';
import { SECONDS_PER_DAY } from '../calendar/wall-clock.ts';
import { writeFileAtomic } from '../core/atomic-file.ts';
import { readJsonFile } from '../core/json-file.ts';
import { MAX_DATE_ROWS } from '../plan/counts.ts';
import { PROOFS } from '../plan/proof.ts';

/**
 * Rows asked for at once, whatever an API allows: pages are held in memory, several at a time, and the engine takes no
 * more rows a second than this at the API's pace.
 */
export const MAX_PAGE_ROWS = 50_000;

/** Row limit assumed until an answer says or shows another. */
const ASSUMED_ROW_LIMIT = 10_000;
/** Forgetting all instead would cost a first night, 2 % more requests, every week. */
const HOPE_AFTER_MS = 7 * 86_400_000;

/** Longer than any machine that began in 1970 is behind; beyond it there are no dates. */
const MAX_OFFSET_MS = 100 * 366 * 86_400_000;
/** A row of a page that fits into an answer, and an answer that is waited for. */
const MAX_ROW_BYTES = 1024 ** 2;
const MAX_WAIT_MS = 3_600_000;

const secondSchema = z.int().min(0).max(SECONDS_PER_DAY);
const profileSchema = z
  .array(z.object({ symbol: z.string().exactOptional(), second: secondSchema, share: z.number().min(0).max(1) }))
  .nullable();
/** Of one count: of a date, or of all the dates of a lookback. `noteTooBroad` knows no number for more than was counted. */
const rowsSchema = z.int().nonnegative();

const learntSchema = z.object({
  version: z.literal(2),
  url: z.string(),
  /** When the limits began to be learnt, or more was last thought possible. */
  learnt_at_ms: z
    .number()
    .min(0)
    .max(MAX_OFFSET_MS * 2),
  row_limit: z.int().positive().max(MAX_PAGE_ROWS),
  /** Axis along which a narrower query scans less; `null` while no query was too broad. */
  axis: z.enum(['time', 'symbol']).nullable(),
  /** `closed` where the server refuses windows without a first or last second; see `plan/condition.ts`. */
  day_edges: z.enum(['open', 'closed']).default('open'),
  /** Rows of the last date that was counted whole; `null` before. */
  date_rows: rowsSchema.max(MAX_DATE_ROWS).nullable(),
  /** Most rows of one count that passed, fewest that were refused; `null` while there was none. */
  passed_rows: rowsSchema.max(MAX_DATE_ROWS),
  refused_rows: rowsSchema.nullable(),
  /** How the last date's rows were spread. */
  time_profile: profileSchema,
  symbol_profile: profileSchema,
  /** What recounts can prove, by the columns that are hashed for it; without an entry the most. See `sql/proof.ts`. */
  recount_proofs: z.record(z.string(), z.enum(PROOFS)).default({}),
  /** Mean length of a row as it is transferred, before compression. */
  row_bytes: z.number().positive().max(MAX_ROW_BYTES),
  /** Mean time of the last answers. */
  answer_ms: z.number().nonnegative().max(MAX_WAIT_MS),
  /** The server's clock minus this machine's. */
  clock_offset_ms: z.number().min(-MAX_OFFSET_MS).max(MAX_OFFSET_MS),
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
  recount_proofs: {},
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
  if (nowMs - learntAtMs <= HOPE_AFTER_MS) return kept;
  const hoped = refused === null ? null : Math.min(2 * refused, Number.MAX_SAFE_INTEGER);
  const limit = Math.max(kept.row_limit, ASSUMED_ROW_LIMIT);
  return {
    ...{ ...kept, learnt_at_ms: nowMs, refused_rows: hoped, row_limit: limit },
    ...{ day_edges: 'open', recount_proofs: {} },
  };
}

export async function saveLearnt(path: string, learnt: Learnt): Promise<void> {
  await writeFileAtomic(path, `${JSON.stringify(learnt, undefined, 2)}\n`);
}
