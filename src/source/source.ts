/**
 * The contract of a SQL source: one SQL text in, one page of raw rows out. Invariant: a page is a whole, well-formed
 * answer; everything else is a `SourceFault` that says what to do next.
 */

import type { HistoricalMeta } from '../api-contract/historical.ts';
import { Fault, type FaultOptions } from '../core/errors.ts';
import type { JsonRows } from '../core/json-bytes.ts';

/**
 * Most rows of a request, even if the API allows more: several pages are in memory at once, and the engine cannot take
 * more rows a second than this at the API's pace.
 */
export const MAX_PAGE_ROWS = 50_000;

export interface Page extends JsonRows {
  /** `undefined` only from the portal entry point, if it sent no valid `meta`. */
  readonly meta: HistoricalMeta | undefined;
}

/**
 * How to react to a failed answer.
 * - `stop`: the query is wrong; no other query of this job will succeed
 * - `denied`: the key or the address is wrong; no query of this key will succeed
 * - `split`: this window is too much for the server; never send it again unchanged
 * - `fail`: retries are used up; the window fails, the others continue
 */
type SourceAction = 'stop' | 'denied' | 'split' | 'fail';

export interface SourceFaultOptions extends FaultOptions {
  readonly action: SourceAction;
}

export class SourceFault extends Fault {
  override readonly name = 'SourceFault';
  readonly action: SourceAction;

  constructor(code: string, message: string, options: SourceFaultOptions) {
    super(code, message, options);
    this.action = options.action;
  }
}

/** Totals since the source was opened. */
export interface SourceStats {
  requests: number;
  retries: number;
  rateLimited: number;
  bytes: number;
  /** Moving average of answer times, from a request's start to the end of its answer; 0 before the first. */
  answerMs: number;
}

export interface AskOptions {
  readonly signal?: AbortSignal | undefined;
  /** Requests sample rows; the server does not query its database. */
  readonly testMode?: boolean | undefined;
}

export interface Source {
  /** Address of the entry point, for people. */
  readonly url: string;
  readonly stats: Readonly<SourceStats>;
  /** Shortest lookback that any answer has reported, in days; `undefined` if none has. */
  lookbackDays?(): number | undefined;
  /** Whether the last answer said that it has no more rows than a trial may see. */
  isCapped?(): boolean;
  /**
   * Sends one query at the pace, with retries. Idempotent at the server; costs one request, more with retries.
   * @throws SourceFault
   */
  ask(sql: string, options?: AskOptions): Promise<Page>;
  /** The server's clock, from its `Date` headers. Before the first answer it uses the offset of an earlier run. */
  serverNow(): number;
  /** Whether any answer has contained the server's time. */
  tellsTime(): boolean;
  /** Milliseconds between two request starts at present. */
  intervalMs(): number;
}

/** Failures that say the API itself is down, not that a window or a date is at fault. */
export const API_DOWN_CODES: ReadonlySet<string> = new Set([
  'API_UNREACHABLE',
  'SERVER_ERROR',
  'INTERNAL_ERROR',
  'RATE_LIMITED',
]);
