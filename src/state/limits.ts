/**
 * The limits of an API table under one key, as runs found them: its row limit, how much a query may scan and along
 * which axis, how a date's rows are distributed, how long answers take, and the offset of the API's clock from ours.
 * The state folder keeps them for the next run of any job with the same query; losing them only costs requests. Limits
 * change: a refusal lowers one, an answer may report the row limit. Once a week runs try twice the refused rows again,
 * and also the usual row limit, windows without ends, and proofs that a recount could not give.
 */
import { z } from 'zod';
import { SECONDS_PER_DAY } from '../calendar/wall-clock.ts';
import type { Axis } from '../calendar/window.ts';
import { type Profile, usualProfile } from '../plan/axis.ts';
import { MAX_DATE_ROWS } from '../plan/counts.ts';
import { PROOFS } from '../plan/proof.ts';
import { MAX_PAGE_ROWS } from '../source/source.ts';
import { StateFile } from './job-state.ts';

/** Row limit assumed until an answer reports or shows another. */
const ASSUMED_ROW_LIMIT = 10_000;
/**
 * Limits are relaxed once a week. Forgetting them all would cost as much as a first night, 2% more requests, every
 * week.
 */
const HOPE_AFTER_MS = 7 * 86_400_000;

/** Largest plausible offset: more than for a machine whose clock restarted in 1970. */
const MAX_OFFSET_MS = 100 * 366 * 86_400_000;
/** Upper bounds: a row of a page has to fit into an answer, and nothing waits longer for an answer. */
const MAX_ROW_BYTES = 1024 ** 2;
const MAX_WAIT_MS = 3_600_000;

const secondSchema = z.int().min(0).max(SECONDS_PER_DAY);
const profileSchema = z
  .array(z.object({ symbol: z.string().optional(), second: secondSchema, share: z.number().min(0).max(1) }))
  .readonly()
  .nullable()
  .default(null);
/** Rows of one count: of a date, or of all dates of a lookback. `noteTooBroad` never gets a number above a count. */
const rowsSchema = z.int().nonnegative();

/** Without its time it is what is known before the first run. */
const foundSchema = z.object({
  /** When these limits were first recorded or last relaxed. */
  sinceMs: z
    .number()
    .min(0)
    .max(MAX_OFFSET_MS * 2),
  rowLimit: z.int().positive().max(MAX_PAGE_ROWS).default(ASSUMED_ROW_LIMIT),
  /** Axis along which a narrower query scans less; `null` while no query was too broad. */
  axis: z.enum(['time', 'symbol']).nullable().default(null),
  /** `closed` if the server refuses windows without a first or last second; see `plan/statement.ts`. */
  dayEdges: z.enum(['open', 'closed']).default('open'),
  /** Rows of the last date that was fully counted; `null` before the first. */
  dateRows: rowsSchema.max(MAX_DATE_ROWS).nullable().default(null),
  /** Most rows of a count that passed, and fewest of one that was refused; `null` while none was refused. */
  passedRows: rowsSchema.max(MAX_DATE_ROWS).default(0),
  refusedRows: rowsSchema.nullable().default(null),
  /** How the rows of the last date were distributed. */
  timeProfile: profileSchema,
  symbolProfile: profileSchema,
  /**
   * The proof that recounts can give, by the columns hashed for it; absent: the strongest. See
   * `export/trades/probe.ts`.
   */
  recountProofs: z.record(z.string(), z.enum(PROOFS)).readonly().default({}),
  /** How groups may be counted: in one request with the raw rows, or in one of their own. */
  groupCounts: z.enum(['joined', 'apart']).default('joined'),
  /** Contracts of the largest answer with an option chain, as far as a larger one was refused. */
  chainRows: rowsSchema.default(0),
  /** Of chains that are too large for one answer: the strikes (thousandths) at which the parts of the last date began. */
  chainCuts: z
    .record(z.string(), z.array(z.int().min(0)).readonly())
    .readonly()
    .default({}),
  /** Symbols of families that the API has had under their own name, beside the family's: they are expected again. */
  apart: z.array(z.string()).readonly().default([]),
  /** Mean size of a row in transfer, before compression; at first of one with the contract's own fields. */
  rowBytes: z.number().positive().max(MAX_ROW_BYTES).default(700),
  /** Mean duration of the last answers; 0 before the first. */
  answerMs: z.number().nonnegative().max(MAX_WAIT_MS).default(0),
  /** The server's clock minus this machine's. */
  clockOffsetMs: z.number().min(-MAX_OFFSET_MS).max(MAX_OFFSET_MS).default(0),
});

type Found = z.infer<typeof foundSchema>;

/** A class with the members of the schema: the constructor below sets them all. */
const Limits = class {} as new () => Found;

/** Collects the limits that a run finds; `save` keeps them for the next run. */
export class ApiLimits extends Limits {
  readonly #file: StateFile<Found>;

  constructor(path: string, nowMs: number) {
    super();
    this.#file = new StateFile(path, foundSchema);
    Object.assign(this, foundSchema.parse({ sinceMs: nowMs }));
  }

  async load(): Promise<this> {
    const nowMs = this.sinceMs;
    Object.assign(this, await this.#file.read());
    if (nowMs - this.sinceMs > HOPE_AFTER_MS) this.#hope(nowMs);
    return this;
  }

  #hope(nowMs: number): void {
    this.sinceMs = nowMs;
    this.recountProofs = {};
    this.groupCounts = 'joined';
    this.chainCuts = {};
    this.apart = [];
    this.dayEdges = 'open';
    this.rowLimit = Math.max(this.rowLimit, ASSUMED_ROW_LIMIT);
    if (this.refusedRows !== null) this.refusedRows = Math.min(2 * this.refusedRows, Number.MAX_SAFE_INTEGER);
  }

  /** Records that a query that reads this many rows was refused. */
  noteTooBroad(rows: number): void {
    this.refusedRows = Math.min(this.refusedRows ?? rows, rows);
    // Fewer rows than once passed: the limit was lowered, or these rows are spread less favourably.
    if (this.passedRows >= rows) this.passedRows = Math.floor(rows / 2);
  }

  profile(axis: Axis): Profile {
    return (axis === 'time' ? this.timeProfile : this.symbolProfile) ?? usualProfile(axis);
  }

  async save(): Promise<void> {
    await this.#file.write({ ...this });
  }
}
