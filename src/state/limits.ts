/**
 * The limits of a table of an API under one key, as runs met them: its row limit, how much a query may scan and along
 * which axis, how a date's rows are spread, how long answers take, and how far the API's clock is from ours. Kept in the
 * state folder for the next run of any job with the same query; without it a run costs some more requests. Limits change:
 * a refusal lowers one, an answer may tell the row limit, and once a week twice of what was refused is tried again, and so
 * are the usual row limit, windows without ends, and what a recount could not prove.
 */
import { z } from 'zod';
import { SECONDS_PER_DAY } from '../calendar/wall-clock.ts';
import type { Axis } from '../calendar/window.ts';
import { MAX_DATE_ROWS } from '../plan/counts.ts';
import { type Profile, usualProfile } from '../plan/profile.ts';
import { PROOFS, type Proof } from '../plan/proof.ts';
import { StateFile } from './state-file.ts';

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
/** Of one count: of a date, or of all the dates of a lookback. `noteTooBroad` has no number for more than was counted. */
const rowsSchema = z.int().nonnegative();

const limitsSchema = z.object({
  version: z.literal(3),
  url: z.string(),
  /** When the limits began to be learnt, or more was last thought possible. */
  since_ms: z
    .number()
    .min(0)
    .max(MAX_OFFSET_MS * 2),
  row_limit: z.int().positive().max(MAX_PAGE_ROWS),
  /** Axis along which a narrower query scans less; `null` while no query was too broad. */
  axis: z.enum(['time', 'symbol']).nullable(),
  /** `closed` where the server refuses windows without a first or last second; see `plan/window-condition.ts`. */
  day_edges: z.enum(['open', 'closed']).default('open'),
  /** Rows of the last date that was counted whole; `null` before. */
  date_rows: rowsSchema.max(MAX_DATE_ROWS).nullable(),
  /** Most rows of one count that passed, fewest that were refused; `null` while there was none. */
  passed_rows: rowsSchema.max(MAX_DATE_ROWS),
  refused_rows: rowsSchema.nullable(),
  /** How the last date's rows were spread. */
  time_profile: profileSchema,
  symbol_profile: profileSchema,
  /** What recounts can prove, by the columns that are hashed for it; without an entry the most. See `export/trades/recount-proof.ts`. */
  recount_proofs: z.record(z.string(), z.enum(PROOFS)).default({}),
  /** Mean length of a row as it is transferred, before compression. */
  row_bytes: z.number().positive().max(MAX_ROW_BYTES),
  /** Mean time of the last answers. */
  answer_ms: z.number().nonnegative().max(MAX_WAIT_MS),
  /** The server's clock minus this machine's. */
  clock_offset_ms: z.number().min(-MAX_OFFSET_MS).max(MAX_OFFSET_MS),
});

/** A run adds to it what it meets, and `save` keeps it for the next one. */
export class ApiLimits {
  readonly #file: StateFile<z.infer<typeof limitsSchema>>;
  readonly #url: string;
  #sinceMs: number;
  rowLimit = ASSUMED_ROW_LIMIT;
  /** Axis along which a narrower query scans less; `null` while no query was too broad. */
  axis: Axis | null = null;
  /** `closed` where the server refuses windows without a first or last second. */
  dayEdges: 'open' | 'closed' = 'open';
  /** Rows of the last date that was counted whole; `null` before. */
  dateRows: number | null = null;
  /** Most rows of one count that passed. */
  passedRows = 0;
  /** Fewest rows of a count that was refused; `null` while none was. */
  refusedRows: number | null = null;
  timeProfile: Profile | null = null;
  symbolProfile: Profile | null = null;
  /** What recounts can prove, by the columns that are hashed for it. */
  recountProofs: Readonly<Record<string, Proof>> = {};
  /** Mean length of a row as it is transferred, before compression; at first of the contract's own fields. */
  rowBytes = 700;
  /** Mean time of the last answers; 0 before the first. */
  answerMs = 0;
  /** The server's clock minus this machine's. */
  clockOffsetMs = 0;

  constructor(path: string, url: string, nowMs: number) {
    this.#file = new StateFile(path, limitsSchema);
    this.#url = url;
    this.#sinceMs = nowMs;
  }

  /** Limits that were met at another address count for nothing. */
  async load(): Promise<this> {
    const nowMs = this.#sinceMs;
    const kept = await this.#file.read();
    if (kept === undefined || kept.url !== this.#url) return this;
    this.#sinceMs = kept.since_ms;
    this.rowLimit = kept.row_limit;
    this.axis = kept.axis;
    this.dayEdges = kept.day_edges;
    this.dateRows = kept.date_rows;
    this.passedRows = kept.passed_rows;
    this.refusedRows = kept.refused_rows;
    this.timeProfile = kept.time_profile;
    this.symbolProfile = kept.symbol_profile;
    this.recountProofs = kept.recount_proofs;
    this.rowBytes = kept.row_bytes;
    this.answerMs = kept.answer_ms;
    this.clockOffsetMs = kept.clock_offset_ms;
    if (nowMs - this.#sinceMs > HOPE_AFTER_MS) this.#hope(nowMs);
    return this;
  }

  #hope(nowMs: number): void {
    this.#sinceMs = nowMs;
    this.recountProofs = {};
    this.dayEdges = 'open';
    this.rowLimit = Math.max(this.rowLimit, ASSUMED_ROW_LIMIT);
    if (this.refusedRows !== null) this.refusedRows = Math.min(2 * this.refusedRows, Number.MAX_SAFE_INTEGER);
  }

  /** Whether a query that reads so many rows was refused before. */
  isKnownTooBroad(rows: number): boolean {
    return this.refusedRows !== null && this.refusedRows <= rows;
  }

  /** A query was refused that reads so many rows. */
  noteTooBroad(rows: number): void {
    this.refusedRows = Math.min(this.refusedRows ?? rows, rows);
    // Less than what once passed: the limit was lowered, or these rows lie worse.
    if (this.passedRows >= rows) this.passedRows = Math.floor(rows / 2);
  }

  /** How a date's rows are spread: as the last one's were, else as they usually are. */
  profile(axis: Axis): Profile {
    return (axis === 'time' ? this.timeProfile : this.symbolProfile) ?? usualProfile(axis);
  }

  async save(): Promise<void> {
    await this.#file.write({
      version: 3,
      url: this.#url,
      since_ms: this.#sinceMs,
      row_limit: this.rowLimit,
      axis: this.axis,
      day_edges: this.dayEdges,
      date_rows: this.dateRows,
      passed_rows: this.passedRows,
      refused_rows: this.refusedRows,
      time_profile: this.timeProfile && [...this.timeProfile],
      symbol_profile: this.symbolProfile && [...this.symbolProfile],
      recount_proofs: this.recountProofs,
      row_bytes: this.rowBytes,
      answer_ms: this.answerMs,
      clock_offset_ms: this.clockOffsetMs,
    });
  }
}
