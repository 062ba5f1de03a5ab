/**
 * The contract of what is read: one SQL text in, one page of raw rows out. Invariant: a page is a whole, well-formed
 * answer; everything else is a `SourceFault` that says what to do next.
 */

import type { HistoricalMeta } from '../api-contract/historical.ts';
import { type FailureKind, Fault } from '../core/errors.ts';
import type { RowShape } from '../core/json-bytes.ts';

export interface Page {
  /** The `data` array as JSON bytes. */
  readonly data: Uint8Array;
  readonly rows: number;
  /** What the rows have in common, where whoever read them has seen it. */
  readonly shape?: RowShape | undefined;
  readonly firstRow: Readonly<Record<string, unknown>> | undefined;
  /** `undefined` from the portal entry point, which sends none. */
  readonly meta: HistoricalMeta | undefined;
}

/**
 * What a failed answer leads to.
 * - `stop`: the query or the key is wrong; no other query of this job will fare better
 * - `split`: this window is too much for the server; never send it again unchanged
 * - `fail`: retries are used up; the window fails, the others go on
 */
type SourceAction = 'stop' | 'split' | 'fail';

export class SourceFault extends Fault {
  override readonly name = 'SourceFault';
  readonly action: SourceAction;

  constructor(
    code: string,
    message: string,
    options: { action: SourceAction; kind?: FailureKind; hint?: string; cause?: unknown },
  ) {
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
  /** Mean time from the start of a request to the end of its answer, the last ones weighing most; 0 before the first. */
  answerMs: number;
}

export interface AskOptions {
  readonly signal?: AbortSignal | undefined;
  /** Ask for sample rows; the server does not query its database. */
  readonly testMode?: boolean;
  /** A date is about to expire: before the requests that are not urgent, of this process and others. */
  readonly urgent?: boolean;
}

export interface Source {
  /** Address of the entry point, for people. */
  readonly url: string;
  readonly stats: Readonly<SourceStats>;
  /** The shortest lookback that an answer has told, days; `undefined` where none has. */
  lookbackDays?(): number | undefined;
  /**
   * Asks one query at the pace, with retries. Idempotent at the server; costs one request, more with retries.
   * @throws SourceFault
   */
  ask(sql: string, options?: AskOptions): Promise<Page>;
  /** The server's clock, from its `Date` headers. Before the first answer, by the offset of an earlier run. */
  serverNow(): number;
  /** Whether an answer has told the server's time. */
  tellsTime(): boolean;
  /** Milliseconds between two request starts at present. */
  intervalMs(): number;
}
